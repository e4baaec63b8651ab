//! A token file is good for one user, one configuration, one server at one URL, and one caller.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;
use toolgate_oauth::{LoginNeed, TokenBinding, TokenFailure, TokenSource, TokenStoreError};

use crate::fixture::{SECRET, binding, log_in, serve, store};

/// The only token file of a store.
fn file(folder: &TempDir) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder.path().join("tokens.toolgate")).unwrap();
    let mut files = entries.map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|ending| ending == "token")).unwrap()
}

#[tokio::test]
async fn a_stolen_file_is_of_no_use() {
    let token = log_in(&serve().await).await.unwrap();
    let (folder, own) = (TempDir::new().unwrap(), binding("https://tracker.example/mcp"));
    store(&folder, 7).save(&own, &token).unwrap();
    assert_eq!(store(&folder, 7).load(&own).unwrap(), Some(token.clone()));
    let stolen = std::fs::read(file(&folder)).unwrap();
    let text = String::from_utf8_lossy(&stolen);
    assert!(!text.contains(SECRET) && !text.contains("refresh-0") && !text.contains("http"), "{text}");
    assert_eq!(std::fs::metadata(file(&folder)).unwrap().permissions().mode() & 0o777, 0o600);
    let directory = folder.path().join("tokens.toolgate");
    assert_eq!(std::fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);

    // In the state of another user, with another key.
    assert!(matches!(store(&folder, 8).load(&own), Err(TokenStoreError::NotOurs)));
    // Under the name that another server, caller or configuration has, or for another URL of the same server.
    let others = [
        TokenBinding { server: "thief".to_owned(), ..own.clone() },
        TokenBinding { configuration: "/tmp/cloned/toolgate.yaml".to_owned(), ..own.clone() },
        TokenBinding { url: "https://evil.example/mcp".to_owned(), ..own.clone() },
        own.of_caller("mallory"),
        own.of_caller(""),
    ];
    for other in others {
        let folder = TempDir::new().unwrap();
        let theirs = store(&folder, 7);
        theirs.save(&other, &token).unwrap();
        std::fs::write(file(&folder), &stolen).unwrap();
        assert!(matches!(theirs.load(&other), Err(TokenStoreError::NotOurs)), "{other:?}");
        let source = TokenSource::new(theirs, other.clone());
        assert_eq!(source.token().await, Err(TokenFailure::Login(LoginNeed::NotOurs)), "{other:?}");
    }
}

#[tokio::test]
async fn a_changed_url_of_a_server_gets_no_token() {
    let token = log_in(&serve().await).await.unwrap();
    let (folder, own) = (TempDir::new().unwrap(), binding("https://tracker.example/mcp"));
    store(&folder, 7).save(&own, &token).unwrap();
    let changed = TokenBinding { url: "https://tracker.example.evil/mcp".to_owned(), ..own };
    let source = TokenSource::new(store(&folder, 7), changed);
    assert_eq!(source.token().await, Err(TokenFailure::Login(LoginNeed::NotOurs)));
}

#[tokio::test]
async fn a_file_that_was_changed_is_not_believed() {
    let token = log_in(&serve().await).await.unwrap();
    let (folder, own) = (TempDir::new().unwrap(), binding("https://tracker.example/mcp"));
    let users = store(&folder, 7);
    users.save(&own, &token).unwrap();
    let whole = std::fs::read(file(&folder)).unwrap();
    for at in [0, 17, 20, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(file(&folder), &bytes).unwrap();
        assert!(users.load(&own).is_err(), "{at}");
    }
    for length in [0, 5, 17, 29, whole.len() - 1] {
        std::fs::write(file(&folder), &whole[..length]).unwrap();
        assert!(users.load(&own).is_err(), "{length}");
    }
    std::fs::write(file(&folder), &whole).unwrap();
    assert!(users.load(&own).is_ok());
    let real = file(&folder);
    let aside = folder.path().join("aside");
    std::fs::rename(&real, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &real).unwrap();
    assert!(users.load(&own).is_err());
}
