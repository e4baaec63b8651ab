//! Deleted conversations are gone.

use toolgate_session::{ListFilter, SessionBounds, SessionError};

use crate::support::{Place, assistant, id, new, result, user, wait};

const SECRET: &str = "a-word-that-stands-nowhere-else";

fn is_on_disk(place: &Place, words: &str) -> bool {
    let files = std::fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|file| std::fs::read(file).unwrap())
        .any(|bytes| bytes.windows(words.len()).any(|window| window == words.as_bytes()))
}

#[test]
fn nothing_of_a_deleted_session_is_left_in_any_file() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut other = store.create(new("other")).await.unwrap();
        other.append(user("stays")).await.unwrap();
        let mut session = store.create(new("s")).await.unwrap();
        for number in 0..50 {
            session.append(user(&format!("{SECRET} {number}"))).await.unwrap();
            session.append(assistant(SECRET, &["a"])).await.unwrap();
            session.add_result(result("a", &SECRET.repeat(number * 10))).await.unwrap();
        }
        session.replace_front(3, user(SECRET)).await.unwrap();
        session.set_title(SECRET).await.unwrap();
        drop(session);
        assert!(is_on_disk(&place, SECRET));
        store.delete(&id("s")).await.unwrap();
        assert!(!is_on_disk(&place, SECRET));
        assert!(is_on_disk(&place, "stays"));
        assert_eq!(store.list(&ListFilter::default()).await.unwrap().len(), 1);
        for gone in [store.open_session(&id("s")).await.map(drop), store.delete(&id("s")).await] {
            assert_eq!(gone.unwrap_err(), SessionError::Unknown { name: "s".to_owned() });
        }
        let again = store.create(new("s")).await.unwrap();
        assert!(again.messages().is_empty());
    });
}

#[test]
fn a_database_that_is_removed_while_it_is_in_use_is_an_error() {
    wait(async {
        for replaced in [false, true] {
            let place = Place::new();
            let store = place.open().await;
            let mut session = store.create(new("s")).await.unwrap();
            session.append(user("kept")).await.unwrap();
            std::fs::rename(place.file(), place.folder().join("away")).unwrap();
            if replaced {
                std::fs::write(place.file(), "").unwrap();
            }
            let gone = SessionError::Gone {
                path: std::fs::canonicalize(place.folder()).unwrap().join("sessions.db"),
            };
            assert_eq!(session.append(user("lost")).await.unwrap_err(), gone);
            assert_eq!(session.set_title("lost").await.unwrap_err(), gone);
            assert_eq!(store.create(new("t")).await.map(drop).unwrap_err(), gone);
        }
    });
}

#[test]
fn conversations_are_kept_within_bounds_and_one_in_use_is_never_deleted() {
    wait(async {
        let place = Place::new();
        let names = |store: toolgate_session::SessionStore| async move {
            let list = store.list(&ListFilter::default()).await.unwrap();
            let mut names: Vec<String> = list.iter().map(|summary| summary.id.to_string()).collect();
            names.sort();
            names
        };
        let bounds = SessionBounds { max_bytes: 1 << 20, ..SessionBounds::default() };
        let store = place.open().await.with_bounds(bounds);
        // The oldest of all is in use.
        let mut held = store.create(new("held")).await.unwrap();
        held.append(user(&"x".repeat(200_000))).await.unwrap();
        for number in 0..20 {
            let mut session = store.create(new(&format!("s{number:02}"))).await.unwrap();
            session.append(user(&"x".repeat(200_000))).await.unwrap();
            drop(session);
            let size = std::fs::metadata(place.file()).unwrap().len();
            assert!(size < (1 << 20) + 500_000, "{size} bytes after {number}");
        }
        let left = names(store.clone()).await;
        assert!((3..8).contains(&left.len()), "{left:?}");
        assert_eq!((left.first().unwrap().as_str(), left.last().unwrap().as_str()), ("held", "s19"));
        drop(held);
        // What was not used for longer is deleted when the next one is created.
        let store = store.with_bounds(SessionBounds { max_age: std::time::Duration::ZERO, ..bounds });
        store.create(new("last")).await.unwrap();
        assert_eq!(names(store).await, ["last"]);
    });
}
