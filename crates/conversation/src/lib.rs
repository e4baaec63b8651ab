//! Conversations: a model, a gate and a stored session, with any number of clients that watch, write and answer.
//!
//! [`AgentSource`] chooses the model and builds the agent from the settings; the terminal and `run` use it directly. [`Conversations`] keeps
//! conversations for clients that come and go: a page, programs, several of them concurrently. What happens in a conversation is a numbered log from which
//! each client reads at its own pace; a question about a call is open for everyone until the first answer. Stored messages remain the source: a log
//! ends with its process, and its numbers are never given twice.
//!
//! What this crate refuses to know: HTTP, WebSockets, terminals, and how a client authenticates.

// The model and its agent.
mod model_error;
pub mod models;
mod agent_settings;
mod agent_source;
mod title;

// Several clients.
mod approval_answer;
mod live;

pub use agent_settings::AgentOverrides;
pub use agent_source::{AgentSource, ReadyAgent};
pub use approval_answer::{ApprovalScope, GivenAnswer, ToolApproval};
pub use live::{
    ActivityKind, AnswerError, AnsweredQuestion, CallQuestion, ConversationError, ConversationParts,
    ConversationState, ConversationUpdate, Conversations, Delivery, EventFrame, LiveEvent, MessageSnapshot,
    NewConversation, OutgoingMessage, OwnerOf, Participant, Principal, QuestionSource, SentMessage,
    SessionActivity, SessionPage, Subscription, TextAttachment, prompt_with,
};
pub use model_error::{ModelError, ModelErrorKind};
pub use title::session_title;
