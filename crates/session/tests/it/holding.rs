//! One holder at a time.

use std::sync::Arc;

use toolgate_session::{SessionError, SessionStore};

use crate::child::{sayings, start};
use crate::support::{Place, id, new, user, wait};

async fn is_held(store: &SessionStore) -> bool {
    match store.open_session(&id("s")).await {
        Ok(_) => false,
        Err(SessionError::InUse { id: held, process }) => {
            assert_eq!((held, process), (id("s"), Some(std::process::id())));
            assert!(matches!(store.delete(&id("s")).await, Err(SessionError::InUse { .. })));
            true
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_session_is_held_by_one_whichever_store_they_come_through() {
    wait(async {
        let place = Place::new();
        let (one, other) = (place.open().await, place.open().await);
        let session = one.create(new("s")).await.unwrap();
        assert!(is_held(&one).await && is_held(&other).await);
        assert!(matches!(other.create(new("s")).await, Err(SessionError::InUse { .. })));
        drop(session);
        let session = other.open_session(&id("s")).await.unwrap();
        assert!(is_held(&one).await && is_held(&other).await);
        drop(session);
        assert!(matches!(one.create(new("s")).await, Err(SessionError::Exists { .. })));
        assert!(!is_held(&one).await && !is_held(&other).await);
        assert_eq!(held(&place), [""; 0]);
    });
}

/// The lock files.
fn held(place: &Place) -> Vec<String> {
    let files = std::fs::read_dir(place.folder()).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("held-")).collect();
    names.sort();
    names
}

/// The next process removes the lock file of a killed one. The lock decides, whatever PID the file names; a file that is being locked, or whose
/// holder is alive, is left alone.
#[test]
fn what_is_left_of_the_dead_is_swept() {
    let place = Place::new();
    let mut killed = start("work", &place.file(), 0);
    let mut said = sayings(&mut killed);
    assert!(said.next().is_some());
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(held(&place), ["held-s"]);
    let dead = killed.id().to_string();
    let alive = std::process::id().to_string();
    for (name, process) in [("held-alive", alive.as_str()), ("held-new", ""), ("held-elsewhere", &dead)] {
        std::fs::write(place.folder().join(name), process).unwrap();
    }
    let elsewhere = std::fs::File::open(place.folder().join("held-elsewhere")).unwrap();
    elsewhere.lock().unwrap();
    wait(async {
        let store = place.open().await;
        assert_eq!(held(&place), ["held-alive", "held-elsewhere", "held-new"]);
        drop(store.open_session(&id("s")).await.unwrap());
        let taken = store.create(new("elsewhere")).await;
        assert!(matches!(taken, Err(SessionError::InUse { process, .. }) if process == Some(killed.id())));
    });
}

#[test]
fn a_store_in_memory_knows_holders_too() {
    wait(async {
        let store = SessionStore::in_memory().await.unwrap();
        let mut session = store.create(new("s")).await.unwrap();
        session.append(user("hello")).await.unwrap();
        assert!(is_held(&store).await);
        drop(session);
        assert_eq!(store.open_session(&id("s")).await.unwrap().messages(), [user("hello")]);
        assert!(
            SessionStore::in_memory().await.unwrap().find("s").await.is_err(),
            "another one is another one"
        );
    });
}

/// Many threads want the same session: each gets it in turn or an in-use error, and no message is lost.
#[test]
fn whoever_gets_it_has_it_alone() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let place = Arc::new(Place::new());
        place.open().await.create(new("s")).await.unwrap();
        let mut tasks = Vec::new();
        for task in 0..8 {
            let place = place.clone();
            tasks.push(tokio::spawn(async move {
                let store = place.open().await;
                let mut said = 0;
                while said < 10 {
                    match store.open_session(&id("s")).await {
                        Ok(mut session) => {
                            let count = session.messages().len();
                            session.append(user(&format!("{task} {said} after {count}"))).await.unwrap();
                            said += 1;
                        }
                        Err(SessionError::InUse { .. }) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let session = place.open().await.open_session(&id("s")).await.unwrap();
        assert_eq!(session.messages().len(), 80);
        for (index, message) in session.messages().iter().enumerate() {
            let toolgate_llm::Message::User { text, .. } = message else { panic!() };
            assert!(text.ends_with(&format!("after {index}")), "{text}");
        }
    });
}
