//! What a door may ask of a gate beside calls: what a name stands for, and to write down what the door itself refused.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_types::{Failure, Outcome, Stage, ToolCall};

use crate::caller::Credential;
use crate::gate::{Gate, Settled};
use crate::tool::Tool;

impl Gate {
    /// The tool of this name at the moment, whoever may use it: for doors that treat long calls in another way than short ones.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.current.load().registry.get(name).map(|registered| Arc::clone(&registered.tool))
    }

    /// Refuses a call that a door found fault with. Nothing of it runs, and it is recorded like every other.
    pub async fn refuse(
        &self,
        call: &ToolCall,
        credential: impl Into<Credential>,
        stage: Stage,
        failure: Failure,
    ) -> Settled {
        let credential = credential.into();
        let snapshot = self.current.load_full();
        let mut unsettled = self.receive(call, &call.arguments, credential.claimed());
        unsettled.class = snapshot.registry.get(&call.tool).map(|known| known.tool.spec().class);
        unsettled.reached = Stage::Auth;
        let refused = match credential.prove(&snapshot, &CancellationToken::new()).await {
            Ok(who) => {
                unsettled.caller = who.caller;
                Outcome::Failed { stage, failure }
            }
            Err(failure) => Outcome::Failed { stage: Stage::Auth, failure },
        };
        unsettled.settle(refused, None).await
    }
}
