//! Finding a conversation.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use toolgate_llm::Usage;
use toolgate_session::{ListFilter, NewSession, SessionError, SessionOwner, SessionStore};

use crate::support::{Place, assistant, id, model, new, result, user, wait};

#[test]
fn a_session_is_what_was_last_said_of_it() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let odd = PathBuf::from(OsStr::from_bytes(b"/work/\xff"));
        let agent = Some("reviewer".parse().unwrap());
        let mut session = store
            .create(NewSession { agent: agent.clone(), workspace: odd.clone(), ..new("s") })
            .await
            .unwrap();
        session.set_title("another").await.unwrap();
        session.set_model(&model("ollama/org/llama:3b")).await.unwrap();
        let usage = Usage { input_tokens: 5, output_tokens: 6, cached_tokens: 7 };
        session.set_usage(usage).await.unwrap();
        session.append(user("hello")).await.unwrap();
        session.append(assistant("", &["a"])).await.unwrap();
        session.add_result(result("a", "")).await.unwrap();
        let known = session.summary().clone();
        drop(session);

        let again = place.open().await.open_session(&id("s")).await.unwrap();
        let summary = again.summary();
        assert_eq!(*summary, known, "what is known at the end is what is read at the beginning");
        assert_eq!((summary.title.as_str(), &summary.agent), ("another", &agent));
        assert_eq!(summary.model, model("ollama/org/llama:3b"));
        assert_eq!((summary.workspace.clone(), summary.usage, summary.messages), (odd, usage, 2));
    });
}

#[test]
fn the_one_that_was_used_last_comes_first() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let elsewhere = NewSession { workspace: "/elsewhere".into(), ..new("elsewhere") };
        for new in [new("one"), new("two"), elsewhere] {
            store.create(new).await.unwrap();
        }
        let listed = async |workspace: Option<&str>, limit| {
            let filter = ListFilter { workspace: workspace.map(PathBuf::from), limit, owner: None };
            let list = store.list(&filter).await.unwrap();
            list.iter().map(|summary| summary.id.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(listed(None, None).await, "elsewhere two one");
        while store.last("/work".as_ref()).await.unwrap() != Some(id("one")) {
            // A clock has a resolution; two events within one tick have the same time.
            store.open_session(&id("one")).await.unwrap().append(user("again")).await.unwrap();
        }
        assert_eq!(listed(Some("/work"), None).await, "one two");
        assert_eq!(listed(Some("/work"), Some(1)).await, "one");
        assert_eq!(listed(Some("/nowhere"), None).await, "");
        assert_eq!(store.last("/nowhere".as_ref()).await.unwrap(), None);
    });
}

#[test]
fn what_was_said_is_searched_and_nothing_else() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut one = store.create(new("one")).await.unwrap();
        one.append(user("An Otter with \"quotes\" and 50% of it\\n")).await.unwrap();
        one.append(assistant("It has webbed feet", &["call"])).await.unwrap();
        one.add_result(result("call", "a result")).await.unwrap();
        let owner = SessionOwner::Caller(toolgate_types::Sha256::of(b"alice"));
        let theirs = NewSession { owner: owner.clone(), workspace: "/elsewhere".into(), ..new("theirs") };
        store.create(theirs).await.unwrap().append(user("an otter too")).await.unwrap();
        let found = async |filter: &ListFilter, text: &str| {
            Vec::from_iter(store.mentioning(filter, text).await.unwrap()).join(" ")
        };
        let all = ListFilter::default();
        for (text, ids) in [
            ("OTTER", "one theirs"),
            ("webbed feet", "one"),
            ("\"quotes\"", "one"),
            ("50%", "one"),
            ("\\n", "one"),
            // Names of fields, of tools and of roles, patterns, results.
            ("role", ""),
            ("assistant", ""),
            ("text", ""),
            ("o_ter", ""),
            ("%", "one"),
            ("a result", ""),
        ] {
            assert_eq!(found(&all, text).await, ids, "{text}");
        }
        let of_person = ListFilter { owner: Some(SessionOwner::Person), ..all.clone() };
        assert_eq!(found(&of_person, "otter").await, "one");
        assert_eq!(found(&ListFilter { owner: Some(owner), ..all.clone() }, "otter").await, "theirs");
        let here = ListFilter { workspace: Some("/work".into()), ..all };
        assert_eq!(found(&here, "otter").await, "one");
    });
}

#[test]
fn a_name_may_be_cut_as_long_as_one_begins_like_it() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        for name in ["abc1", "abc2", "abcd3", "x", "xy", "A%_"] {
            if let Ok(id) = name.parse() {
                store.create(NewSession { id, ..new("x") }).await.unwrap();
            }
        }
        for (name, found) in [("abc1", "abc1"), ("abcd", "abcd3"), ("x", "x"), ("xy", "xy")] {
            assert_eq!(store.find(name).await.unwrap(), id(found), "{name}");
        }
        let sessions = ["abc1", "abc2", "abcd3"].map(id).to_vec();
        let several = SessionError::Ambiguous { name: "ab".to_owned(), sessions };
        assert_eq!(store.find("ab").await.unwrap_err(), several);
        for name in ["", "b", "abc11", "ABC", "%", "a_c1", "abc*", "'"] {
            let nothing = SessionError::Unknown { name: name.to_owned() };
            assert_eq!(store.find(name).await.unwrap_err(), nothing, "{name}");
        }
    });
}

#[test]
fn no_name_at_all_means_no_session_also_where_there_is_only_one() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        store.create(new("only")).await.unwrap();
        let nothing = SessionError::Unknown { name: String::new() };
        assert_eq!(store.find("").await.unwrap_err(), nothing);
        assert_eq!(store.find("o").await.unwrap(), id("only"));
    });
}

#[test]
fn fresh_names_differ() {
    let names: std::collections::BTreeSet<_> = (0..1000).map(|_| SessionStore::fresh_id().unwrap()).collect();
    assert_eq!(names.len(), 1000);
    for name in names {
        let digits = name.as_str().bytes().filter(u8::is_ascii_digit).count();
        assert!(name.as_str().len() == 10 && (1..10).contains(&digits), "{name}");
    }
}
