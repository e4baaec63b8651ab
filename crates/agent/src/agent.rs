//! Who holds conversations.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_gate::{Approver, Credential};
use toolgate_llm::{ModelName, Provider};
use toolgate_session::Session;
use toolgate_tools::ProfiledGate;

use crate::event::EventSink;
use crate::settings::AgentSettings;
use crate::turn::TurnRunner;
use crate::turn_outcome::{AgentError, TurnOutcome};

/// A model in front of a gate. It remembers nothing of any conversation: any number of them may be held at once.
pub struct Agent {
    pub(crate) gate: Arc<ProfiledGate>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) settings: AgentSettings,
}

/// One turn: on whose behalf, who is asked, who looks on, and what ends it.
#[derive(Clone)]
pub struct TurnContext {
    /// Whoever calls tools by what the model says.
    pub credential: Credential,
    /// Who is asked before a call that needs it.
    pub approver: Arc<dyn Approver>,
    /// Ends the turn: the model's stream and the running tool at once.
    pub cancelled: CancellationToken,
    /// Is told of everything.
    pub events: EventSink,
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

    /// Says something to the model, lets it use its tools within bounds, and says how that ended. Every message is kept before anything follows from it,
    /// and every call of it has a result when this returns. When it does not return because its future is dropped, what was running ends, and the next
    /// turn answers what was left open.
    ///
    /// # Errors
    /// The conversation cannot be kept, or nobody knows who is asking. Whoever looks on is told so too, and of the end as [`EndReason::Failed`](crate::EndReason::Failed).
    pub async fn run_turn(
        &self,
        session: &mut Session,
        prompt: &str,
        turn: TurnContext,
    ) -> Result<TurnOutcome, AgentError> {
        TurnRunner::run(self, session, turn, prompt).await
    }
}
