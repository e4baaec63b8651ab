//! Permissions of the files, and which files are not trusted.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use toolgate_session::{SessionError, SessionStore};

use crate::support::{Place, new, user, wait};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn only_this_user_may_read_what_is_kept() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut session = store.create(new("s")).await.unwrap();
        session.append(user("hello")).await.unwrap();
        assert_eq!(mode(&place.folder()), 0o700);
        let files: Vec<_> =
            std::fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 4, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        drop((session, store));
        // A copied file, for example.
        std::fs::set_permissions(place.file(), Permissions::from_mode(0o644)).unwrap();
        place.open().await;
        assert_eq!(mode(&place.file()), 0o600);
    });
}

#[test]
fn names_that_mean_something_to_sqlite_are_only_names() {
    wait(async {
        let place = Place::new();
        for name in ["a b?mode=memory#x%41", "file:x", ":memory:", "ü"] {
            let file = place.scratch.path().join(name).join("sessions.db");
            SessionStore::open(&file).await.unwrap().create(new("s")).await.unwrap();
            assert!(file.metadata().unwrap().len() > 0, "{name}");
            assert!(SessionStore::open(&file).await.unwrap().find("s").await.is_ok(), "{name}");
        }
    });
}

#[test]
fn what_others_could_have_put_there_is_refused() {
    type Arrange = fn(&Place);
    let cases: [(&str, Arrange); 8] = [
        ("the folder is a link", |place| {
            std::fs::create_dir(place.scratch.path().join("elsewhere")).unwrap();
            symlink("elsewhere", place.folder()).unwrap();
        }),
        ("the folder is a file", |place| std::fs::write(place.folder(), "").unwrap()),
        ("others may write into the folder", |place| {
            std::fs::create_dir(place.folder()).unwrap();
            std::fs::set_permissions(place.folder(), Permissions::from_mode(0o777)).unwrap();
        }),
        ("the folder belongs to somebody else", |place| {
            std::fs::create_dir(place.folder()).unwrap();
            std::os::unix::fs::chown(place.folder(), Some(12345), None).unwrap();
        }),
        ("the file is a link", |place| {
            std::fs::create_dir(place.folder()).unwrap();
            std::fs::write(place.scratch.path().join("elsewhere"), "").unwrap();
            symlink("../elsewhere", place.file()).unwrap();
        }),
        ("the file is a folder", |place| std::fs::create_dir_all(place.file()).unwrap()),
        ("the file has a second name", |place| {
            std::fs::create_dir(place.folder()).unwrap();
            std::fs::write(place.file(), "").unwrap();
            std::fs::hard_link(place.file(), place.scratch.path().join("second")).unwrap();
        }),
        ("the file belongs to somebody else", |place| {
            std::fs::create_dir(place.folder()).unwrap();
            std::fs::write(place.file(), "").unwrap();
            std::os::unix::fs::chown(place.file(), Some(12345), None).unwrap();
        }),
    ];
    for (case, arrange) in cases {
        if case.contains("belongs") && !rustix::process::geteuid().is_root() {
            println!("note: only root can arrange that {case}");
            continue;
        }
        let place = Place::new();
        arrange(&place);
        let error = wait(SessionStore::open(&place.file())).unwrap_err();
        assert!(matches!(error, SessionError::Untrusted { .. }), "{case}: {error}");
    }
}

#[test]
fn a_planted_lock_leads_nowhere() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        std::fs::write(place.scratch.path().join("precious"), "content").unwrap();
        symlink("../precious", place.folder().join("held-s")).unwrap();
        assert!(matches!(store.create(new("s")).await, Err(SessionError::Io { action: "lock", .. })));
        assert_eq!(std::fs::read(place.scratch.path().join("precious")).unwrap(), b"content");
    });
}
