//! Which message may follow which, and what is read back after a reopen.

use serde_json::{Value, json};
use toolgate_llm::{AssistantMessage, Message, MessagePart, OpaqueProviderState, Wire};
use toolgate_session::{SessionError, TranscriptEntry};

use crate::support::{Place, assistant, id, new, result, results, user, wait, waiting};

#[test]
fn what_was_said_comes_back() {
    wait(async {
        let place = Place::new();
        let said = [
            user("look at the file\0 and \u{202e}this"),
            assistant("I will", &["a", "b"]),
            results(&[result("a", "one"), result("b", "two")]),
            assistant("done", &[]),
            user("thanks"),
        ];
        let mut session = place.open().await.create(new("s")).await.unwrap();
        for message in &said[..2] {
            session.append(message.clone()).await.unwrap();
        }
        // In another order than the calls.
        session.add_result(result("b", "two")).await.unwrap();
        assert_eq!((waiting(&session), session.messages().len()), (vec!["a".to_owned()], 2));
        session.add_result(result("a", "one")).await.unwrap();
        for message in &said[3..] {
            session.append(message.clone()).await.unwrap();
        }
        assert_eq!(session.messages(), said);
        drop(session);
        let session = place.open().await.open_session(&id("s")).await.unwrap();
        assert_eq!(session.messages(), said);
        assert_eq!(session.unanswered(), []);
    });
}

#[test]
fn what_cannot_stand_there_is_refused_and_changes_nothing() {
    let refusals = wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut session = store.create(new("s")).await.unwrap();
        let mut refusals = Vec::new();
        let mut refused = |refused: Result<(), SessionError>| {
            let error = refused.unwrap_err();
            refusals.push(format!("{}: {error}", error.code()));
        };
        refused(session.add_result(result("a", "")).await);
        refused(session.append(results(&[])).await);
        refused(session.append(assistant("twice", &["a", "a"])).await);
        refused(session.replace_front(0, user("short")).await);
        refused(session.replace_front(1, user("short")).await);
        session.append(user("hello")).await.unwrap();
        session.append(assistant("", &["a", "b"])).await.unwrap();
        refused(session.append(user("and?")).await);
        refused(session.append(assistant("and?", &[])).await);
        refused(session.add_result(result("c", "")).await);
        refused(session.append(results(&[result("b", ""), result("a", "")])).await);
        refused(session.append(results(&[result("a", "")])).await);
        refused(session.replace_front(2, user("short")).await);
        session.add_result(result("a", "first")).await.unwrap();
        refused(session.add_result(result("a", "second")).await);
        refused(session.append(results(&[result("a", ""), result("b", "")])).await);
        session.add_result(result("b", "")).await.unwrap();
        refused(session.add_result(result("b", "")).await);
        refused(session.replace_front(2, user("short")).await);
        refused(session.replace_front(3, assistant("", &["x"])).await);
        refused(session.replace_front(3, results(&[])).await);
        let whole =
            [user("hello"), assistant("", &["a", "b"]), results(&[result("a", "first"), result("b", "")])];
        assert_eq!(session.messages(), whole);
        drop(session);
        assert_eq!(store.open_session(&id("s")).await.unwrap().messages(), whole);
        refusals.join("\n")
    });
    insta::assert_snapshot!(refusals);
}

#[test]
fn what_could_not_be_read_again_is_refused() {
    wait(async {
        let place = Place::new();
        let mut session = place.open().await.create(new("s")).await.unwrap();
        let mut deep = json!(0);
        for _ in 0..126 {
            deep = Value::Array(vec![deep]);
        }
        let seal = Some(OpaqueProviderState { wire: Wire::Openai, value: deep });
        let parts = vec![MessagePart::Thinking { text: String::new(), seal }];
        let said = Message::Assistant(AssistantMessage { parts, model: None });
        let error = session.append(said).await.unwrap_err();
        assert_eq!(error.code(), "message_not_keepable", "{error}");
        assert!(session.messages().is_empty());
    });
}

#[test]
fn calls_that_were_cut_off_are_answered_once() {
    wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut session = store.create(new("s")).await.unwrap();
        session.append(assistant("", &["a", "b", "c"])).await.unwrap();
        session.add_result(result("b", "done")).await.unwrap();
        drop((session, store));

        let store = place.open().await;
        let mut session = store.open_session(&id("s")).await.unwrap();
        assert_eq!(waiting(&session), ["a", "c"], "opening answers nothing by itself");
        let answered = session.interrupt("interrupted").await.unwrap();
        assert_eq!(answered.iter().map(|result| result.call.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert!(answered.iter().all(|result| result.is_error && result.name == "read_file"));
        assert_eq!(session.interrupt("interrupted").await.unwrap(), []);
        let Some(Message::Results { results }) = session.messages().last() else { panic!() };
        let texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
        assert_eq!(texts, ["interrupted", "done", "interrupted"]);
    });
}

#[test]
fn a_front_stands_for_what_came_first_and_the_transcript_tells_everything() {
    let transcript = wait(async {
        let place = Place::new();
        let store = place.open().await;
        let mut session = store.create(new("s")).await.unwrap();
        for message in [user("one"), assistant("two", &["a"]), results(&[result("a", "three")]), user("four")]
        {
            session.append(message).await.unwrap();
        }
        session.replace_front(3, user("one to three")).await.unwrap();
        assert_eq!(session.messages(), [user("one to three"), user("four")]);
        session.append(assistant("five", &[])).await.unwrap();
        session.replace_front(2, user("one to four")).await.unwrap();
        session.append(user("six")).await.unwrap();
        // A front may be replaced again.
        session.replace_front(1, user("the first four")).await.unwrap();
        session.append(assistant("seven", &["b", "c"])).await.unwrap();
        session.add_result(result("c", "eight")).await.unwrap();
        let shown =
            [user("the first four"), assistant("five", &[]), user("six"), assistant("seven", &["b", "c"])];
        assert_eq!(session.messages(), shown);
        drop(session);
        let session = store.open_session(&id("s")).await.unwrap();
        assert_eq!((session.messages(), waiting(&session)), (&shown[..], vec!["b".to_owned()]));
        // Whether or not it is locked.
        store.transcript(&id("s")).await.unwrap()
    });
    let entries: Vec<String> = transcript.entries.iter().map(told).collect();
    insta::assert_snapshot!(entries.join("\n"));
    let lines: Vec<Value> =
        transcript.jsonl().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), entries.len() + 1);
    assert_eq!(lines[0]["session"]["id"], "s");
    assert_eq!(lines[1]["message"], json!({"role": "user", "text": "one"}));
}

fn told(entry: &TranscriptEntry) -> String {
    let words = |message: &Message| serde_json::to_string(message).unwrap();
    match entry {
        TranscriptEntry::Message { position, message, .. } => format!("{position} {}", words(message)),
        TranscriptEntry::PartialResults { position, results, .. } => {
            format!("{position} so far {}", serde_json::to_string(results).unwrap())
        }
        TranscriptEntry::Front { replaced, message, .. } => {
            format!("- for the first {replaced}: {}", words(message))
        }
    }
}
