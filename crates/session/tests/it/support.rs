//! A directory for a database, and messages to append.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toolgate_llm::{AssistantMessage, CallResult, Message, MessagePart, ModelCall, ModelName};
use toolgate_session::{NewSession, Session, SessionOwner, SessionStore};
use toolgate_types::SessionId;

pub(crate) struct Place {
    pub(crate) scratch: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.scratch.path().join("sessions")
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder().join("sessions.db")
    }

    pub(crate) async fn open(&self) -> SessionStore {
        SessionStore::open(&self.file()).await.unwrap()
    }
}

/// Runs a future to completion.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

pub(crate) fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

pub(crate) fn new(name: &str) -> NewSession {
    NewSession {
        id: id(name),
        title: format!("about {name}"),
        agent: None,
        model: model("scripted/demo"),
        profile: "native".to_owned(),
        workspace: Path::new("/work").to_owned(),
        owner: SessionOwner::Person,
        trust: None,
    }
}

pub(crate) fn model(text: &str) -> ModelName {
    let (provider, name) = text.split_once('/').unwrap();
    ModelName { provider: provider.to_owned(), name: name.to_owned() }
}

pub(crate) fn user(text: &str) -> Message {
    Message::user(text.to_owned())
}

/// An assistant message with text and calls.
pub(crate) fn assistant(text: &str, calls: &[&str]) -> Message {
    let call = |id: &&str| {
        MessagePart::Call(ModelCall {
            id: (*id).to_owned(),
            name: "read_file".to_owned(),
            arguments: "{}".to_owned(),
        })
    };
    let text = MessagePart::Text { text: text.to_owned() };
    let parts = [text].into_iter().chain(calls.iter().map(call)).collect();
    Message::Assistant(AssistantMessage { parts, model: Some(model("scripted/demo")) })
}

pub(crate) fn result(call: &str, text: &str) -> CallResult {
    CallResult {
        call: call.to_owned(),
        name: "read_file".to_owned(),
        text: text.to_owned(),
        is_error: false,
        recorded: None,
    }
}

pub(crate) fn results(results: &[CallResult]) -> Message {
    Message::Results { results: results.to_vec() }
}

/// The ids of the open calls.
pub(crate) fn waiting(session: &Session) -> Vec<String> {
    session.unanswered().into_iter().map(|call| call.id).collect()
}
