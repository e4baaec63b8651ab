//! The agent: a model, a gate and settings.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate_gate::{Approver, Credential};
use toolgate_llm::{ModelName, Provider, UserImage};
use toolgate_session::Session;
use toolgate_tools::ProfiledGate;

use crate::compaction::Compaction;
use crate::event::EventSink;
use crate::settings::AgentSettings;
use crate::turn::TurnRunner;
use crate::turn_outcome::{AgentError, TurnOutcome};

/// A model in front of a gate. It holds no conversation state, so it can run any number of conversations concurrently.
pub struct Agent {
    pub(crate) gate: Arc<ProfiledGate>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) settings: AgentSettings,
}

/// The context of one turn: credential, approver, event sink and cancellation.
#[derive(Clone)]
pub struct TurnContext {
    /// The credential under which the model's tool calls are made.
    pub credential: Credential,
    /// Approves calls that need approval.
    pub approver: Arc<dyn Approver>,
    /// Cancels the turn: the model's stream and the running tools.
    pub cancelled: CancellationToken,
    /// Receives every event.
    pub events: EventSink,
    /// Images that come with the prompt.
    pub images: Vec<UserImage>,
    /// Notified once the prompt is persisted.
    pub prompt_stored: Option<Arc<Notify>>,
}

impl Agent {
    /// An agent.
    #[must_use]
    pub fn new(gate: Arc<ProfiledGate>, provider: Arc<dyn Provider>, settings: AgentSettings) -> Self {
        Self { gate, provider, settings }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &ModelName {
        self.provider.model()
    }

    /// Whether the model is known to take images.
    pub async fn supports_images(&self) -> bool {
        self.provider.capabilities().await.is_ok_and(|known| known.supports_images)
    }

    /// Sends a prompt to the model, runs its tool calls within the limits, and returns the outcome. Every message is persisted before anything
    /// follows from it, and every call has a result when this returns. If its future is dropped, running calls are cancelled, and the next turn adds
    /// results for calls left open.
    ///
    /// # Errors
    /// The conversation cannot be persisted, or the caller cannot be identified. The event sink receives the error too, and the end as
    /// [`EndReason::Failed`](crate::EndReason::Failed).
    pub async fn run_turn(
        &self,
        session: &mut Session,
        prompt: &str,
        turn: TurnContext,
    ) -> Result<TurnOutcome, AgentError> {
        TurnRunner::run(self, session, turn, prompt).await
    }

    /// Asks the model for a summary of the conversation, which replaces all but its last message. Emits notices and the usage of the context, and no end:
    /// this is no turn.
    ///
    /// # Errors
    /// As [`Self::run_turn`].
    pub async fn compact(&self, session: &mut Session, turn: TurnContext) -> Result<Compaction, AgentError> {
        TurnRunner::compact(self, session, turn).await
    }
}
