//! Conversations that are removed are gone.

use toolgate_session::{ListFilter, SessionError};

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
            session.settle(result("a", &SECRET.repeat(number * 10))).await.unwrap();
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
