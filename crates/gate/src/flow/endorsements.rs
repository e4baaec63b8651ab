//! What may be a target in a session: what its person wrote, what trusted directories returned, and what a person approved.
//!
//! In memory alone, and bounded: what is forgotten is asked about again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use toolgate_policy::FlowTarget;
use toolgate_types::{SessionId, Sha256};

/// More sessions are not remembered.
const MAX_SESSIONS: usize = 1024;
/// What is remembered of one session.
const MAX_WORDS_BYTES: usize = 256 * 1024;
const MAX_ANSWERS: usize = 64;
const MAX_ANSWER_VALUES: usize = 4096;
const MAX_APPROVED: usize = 4096;

/// What may be a target, by session.
#[derive(Debug, Default)]
pub(crate) struct Endorsements(Mutex<HashMap<SessionId, SessionEndorsements>>);

#[derive(Debug, Default)]
struct SessionEndorsements {
    /// What the person wrote, oldest first.
    words: Vec<String>,
    answers: Vec<DirectoryAnswer>,
    approved: HashSet<Sha256>,
}

/// What a trusted directory returned.
#[derive(Debug)]
struct DirectoryAnswer {
    values: Vec<String>,
    /// The arguments in lower case: a directory that repeats what it was asked for endorses nothing of it.
    asked: String,
}

impl Endorsements {
    /// A person wrote this.
    pub(crate) fn hear(&self, session: &SessionId, text: &str) {
        let text = whole_words(text);
        self.change(session, |known| {
            known.words.push(text.to_owned());
            while known.words.iter().map(String::len).sum::<usize>() > MAX_WORDS_BYTES {
                known.words.remove(0);
            }
        });
    }

    /// A trusted directory returned this.
    pub(crate) fn learn(&self, session: &SessionId, answer: &Value, arguments: &str) {
        let mut values = Vec::new();
        collect_values(answer, &mut values);
        let answer = DirectoryAnswer { values, asked: arguments.to_ascii_lowercase() };
        self.change(session, |known| {
            if known.answers.len() >= MAX_ANSWERS {
                known.answers.remove(0);
            }
            known.answers.push(answer);
        });
    }

    /// A person approved these targets of a tool.
    pub(crate) fn approve(&self, session: &SessionId, tool: Sha256, targets: &[FlowTarget]) {
        self.change(session, |known| {
            for target in targets.iter().take(MAX_APPROVED.saturating_sub(known.approved.len())) {
                known.approved.insert(approval_key(tool, target));
            }
        });
    }

    /// Whether something of the session endorses a target of a tool.
    pub(crate) fn endorse(&self, session: &SessionId, tool: Sha256, target: &FlowTarget) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(session).is_some_and(|known| {
            known.approved.contains(&approval_key(tool, target))
                || known.words.iter().any(|words| target.is_said_in(words))
                || known.answers.iter().any(|answer| answer.endorses(target))
        })
    }

    fn change(&self, session: &SessionId, change: impl FnOnce(&mut SessionEndorsements)) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            sessions.clear();
        }
        change(sessions.entry(session.clone()).or_default());
    }
}

impl DirectoryAnswer {
    fn endorses(&self, target: &FlowTarget) -> bool {
        let value = &target.value;
        !self.asked.contains(&value.to_ascii_lowercase())
            && self.values.iter().any(|known| known == value || target.is_text_in(known))
    }
}

/// The beginning of a long text, up to the end of a word: a part of a word was not written.
fn whole_words(text: &str) -> &str {
    if text.len() <= MAX_WORDS_BYTES {
        return text;
    }
    let end = (0..=MAX_WORDS_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = text.get(..end).unwrap_or_default();
    text.rsplit_once(char::is_whitespace).map_or("", |(whole, _)| whole)
}

/// Every text and number of an answer.
fn collect_values(answer: &Value, values: &mut Vec<String>) {
    if values.len() >= MAX_ANSWER_VALUES {
        return;
    }
    match answer {
        Value::String(text) if !text.is_empty() => values.push(text.clone()),
        Value::Number(number) => values.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect_values(item, values)),
        Value::Object(members) => members.values().for_each(|member| collect_values(member, values)),
        Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// An approval is for the tool as it was, one argument and one value.
fn approval_key(tool: Sha256, target: &FlowTarget) -> Sha256 {
    let whole = serde_json::json!([tool.to_string(), target.argument, target.value]);
    Sha256::of(whole.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(value: &str) -> FlowTarget {
        FlowTarget {
            argument: "to".to_owned(),
            rule: "*".to_owned(),
            value: value.to_owned(),
            is_number: false,
            is_configured: false,
        }
    }

    fn is_endorsed(known: &Endorsements, value: &str) -> bool {
        known.endorse(&"s".parse().unwrap(), Sha256::of(b"tool"), &target(value))
    }

    #[test]
    fn a_directory_endorses_what_it_was_not_asked_for() {
        let (known, session) = (Endorsements::default(), "s".parse().unwrap());
        let answer =
            json!({"people": [{"mail": "alice@example.com", "id": 7}], "note": "no eve@evil.com found"});
        known.learn(&session, &answer, r#"{"query":"Eve@Evil.com"}"#);
        assert!(is_endorsed(&known, "alice@example.com") && is_endorsed(&known, "7"));
        for value in ["eve@evil.com", "EVE@evil.com", "evil.com", "people", ""] {
            assert!(!is_endorsed(&known, value), "{value}");
        }
        let elsewhere = known.endorse(&"t".parse().unwrap(), Sha256::of(b"tool"), &target("7"));
        assert!(!elsewhere, "another session");
    }

    #[test]
    fn an_approval_is_for_one_value_of_one_argument_of_one_tool() {
        let (known, session, tool) = (Endorsements::default(), "s".parse().unwrap(), Sha256::of(b"tool"));
        known.approve(&session, tool, &[target("alice")]);
        assert!(known.endorse(&session, tool, &target("alice")));
        assert!(!known.endorse(&session, Sha256::of(b"other"), &target("alice")));
        let copy = FlowTarget { argument: "cc".to_owned(), ..target("alice") };
        assert!(!known.endorse(&session, tool, &copy) && !known.endorse(&session, tool, &target("bob")));
    }

    #[test]
    fn a_text_that_is_cut_ends_with_a_whole_word() {
        let (known, session) = (Endorsements::default(), "s".parse().unwrap());
        let long = format!("bob {}alice@example.com", "x ".repeat((MAX_WORDS_BYTES - 16) / 2));
        known.hear(&session, &long);
        assert!(is_endorsed(&known, "bob"));
        for end in 1.."alice@example.com".len() {
            let part: String = "alice@example.com".chars().take(end).collect();
            assert!(!is_endorsed(&known, &part), "{end}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let known = Endorsements::default();
        for number in 0..MAX_SESSIONS + 10 {
            known.hear(&format!("s{number}").parse().unwrap(), "bob");
        }
        assert!(known.0.lock().unwrap().len() <= MAX_SESSIONS);
        let session = "s".parse().unwrap();
        for _ in 0..100 {
            known.hear(&session, &"word ".repeat(10_000));
            known.learn(&session, &json!(vec![1; 10_000]), "");
        }
        let sessions = known.0.lock().unwrap();
        let known = &sessions[&session];
        assert!(known.words.iter().map(String::len).sum::<usize>() <= MAX_WORDS_BYTES);
        assert!(known.answers.len() <= MAX_ANSWERS && known.answers[0].values.len() <= MAX_ANSWER_VALUES);
    }
}
