//! A message, and the turn that it begins.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate_agent::{ChatEvent, EventSink, TurnContext};
use toolgate_gate::{Approver, Credential};
use toolgate_session::Session;

use super::error::ConversationError;
use super::live_conversation::LiveConversation;
use super::questions::Questions;
use crate::agent_source::ReadyAgent;

/// The most attachments of a message, and the most bytes of its text with them.
const MAX_ATTACHMENTS: usize = 32;
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A message to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The text.
    pub text: String,
    /// Texts that come with it.
    pub attachments: Vec<TextAttachment>,
}

/// A text that comes with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextAttachment {
    /// Its name, as the model sees it.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl OutgoingMessage {
    /// What the model is sent.
    pub(crate) fn prompt(&self) -> Result<String, ConversationError> {
        let bytes = self.attachments.iter().map(|file| file.name.len() + file.text.len()).sum::<usize>();
        if self.text.trim().is_empty() && self.attachments.is_empty() {
            return Err(ConversationError::invalid("the message is empty", "write something"));
        }
        if self.attachments.len() > MAX_ATTACHMENTS || self.text.len() + bytes > MAX_MESSAGE_BYTES {
            return Err(ConversationError::invalid(
                "the message is too long",
                format!("send at most {MAX_ATTACHMENTS} attachments and {MAX_MESSAGE_BYTES} bytes"),
            ));
        }
        Ok(prompt_with(&self.text, &self.attachments))
    }

    /// The names of its attachments.
    pub(crate) fn names(&self) -> Vec<String> {
        self.attachments.iter().map(|file| file.name.clone()).collect()
    }
}

/// A prompt followed by the texts that come with it, each in a fence that it cannot end.
#[must_use]
pub fn prompt_with(text: &str, attachments: &[TextAttachment]) -> String {
    let mut prompt = text.to_owned();
    for TextAttachment { name, text } in attachments {
        let name: String = name.chars().filter(|letter| !letter.is_control()).take(200).collect();
        let fence = "`".repeat(longest_fence(text).max(2) + 1);
        prompt
            .push_str(&format!("\n\nAttached file `{}`:\n{fence}\n{text}\n{fence}", name.replace('`', "'")));
    }
    prompt
}

/// The longest run of backticks in a text.
fn longest_fence(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or_default()
}

/// A turn that is ready to run.
pub(crate) struct PreparedTurn {
    pub(crate) conversation: Arc<LiveConversation>,
    pub(crate) session: Session,
    pub(crate) ready: Arc<ReadyAgent>,
    pub(crate) prompt: String,
    pub(crate) credential: Credential,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) questions: Questions,
    pub(crate) cancelled: CancellationToken,
    /// Notified once the message is stored.
    pub(crate) stored: Arc<Notify>,
}

impl PreparedTurn {
    /// Runs the turn. Its last event comes after the session is released, so that a client that sees it can send the next message.
    pub(crate) async fn run(self) {
        let Self {
            conversation,
            mut session,
            ready,
            prompt,
            credential,
            approver,
            questions,
            cancelled,
            stored,
        } = self;
        let ends = TurnGuard::new(&conversation);
        let end = Arc::new(Mutex::new(None));
        let events = sink(&conversation, &questions, &end);
        let prompt_stored = Some(stored);
        let turn = TurnContext { credential, approver, cancelled, events, images: Vec::new(), prompt_stored };
        // The error is in the last event.
        let _ = ready.agent.run_turn(&mut session, &prompt, turn).await;
        drop(session);
        let end = end.lock().unwrap_or_else(PoisonError::into_inner).take();
        conversation.end_turn(end);
        ends.disarm();
    }
}

/// The sink of a turn's events. It holds back the last one.
fn sink(
    conversation: &Arc<LiveConversation>,
    questions: &Questions,
    end: &Arc<Mutex<Option<ChatEvent>>>,
) -> EventSink {
    let (conversation, questions, end) = (Arc::clone(conversation), questions.clone(), Arc::clone(end));
    Arc::new(move |event| match event {
        ChatEvent::StreamEnd { .. } => {
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        }
        ChatEvent::ToolConfirm(confirm) => {
            let call = confirm.tool_id;
            let frame = conversation.push(ChatEvent::ToolConfirm(confirm));
            questions.set_frame(call, frame);
        }
        other => {
            conversation.push(other);
        }
    })
}

/// Ends the turn on drop, so that a panic does not leave the conversation busy.
pub(crate) struct TurnGuard(Option<Arc<LiveConversation>>);

impl TurnGuard {
    pub(crate) fn new(conversation: &Arc<LiveConversation>) -> Self {
        Self(Some(Arc::clone(conversation)))
    }

    /// The turn goes on, or has ended.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        if let Some(conversation) = &self.0 {
            conversation.end_turn(None);
        }
    }
}
