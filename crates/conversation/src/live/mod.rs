//! Conversations that several clients see concurrently.

mod error;
mod participant;
mod event;
mod event_log;
mod questions;
mod activity;
mod live_conversation;
mod subscription;
mod turn;
mod conversations;

pub use activity::{ActivityKind, SessionActivity};
pub use conversations::{
    ConversationParts, ConversationState, ConversationUpdate, Conversations, NewConversation, SentMessage,
    SessionPage,
};
pub use error::ConversationError;
pub use event::LiveEvent;
pub use event_log::EventFrame;
pub use live_conversation::MessageSnapshot;
pub use participant::{Participant, Principal};
pub use questions::{AnswerError, AnsweredQuestion, CallQuestion, OwnerOf, QuestionSource};
pub use subscription::{Delivery, Subscription};
pub use turn::{OutgoingMessage, TextAttachment, prompt_with};
