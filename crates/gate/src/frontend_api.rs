//! What a frontend may ask of a gate besides calls: look up tools, and record refusals of its own.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_identity::StaleKeys;
use toolgate_types::{CallId, Caller, Failure, FlowLabels, Outcome, SessionId, Sha256, Stage, ToolCall};

use crate::audit_guard::operator_reason;
use crate::caller::Credential;
use crate::gate::{AuditMode, FinishedCall, Gate};
use crate::refusal_counter::RefusedCall;
use crate::tool::Tool;

/// A tool, and whether a caller may use it.
#[derive(Clone)]
pub struct ToolAccess {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Why not, if it may not. For people who set up the gate; a model is not shown the tool.
    pub refusal: Option<String>,
}

impl Gate {
    /// Every tool, and whether the holder of this credential may use it.
    ///
    /// # Errors
    /// The caller could not be verified.
    pub async fn tool_access(&self, credential: impl Into<Credential>) -> Result<Vec<ToolAccess>, Failure> {
        let snapshot = self.current.load_full();
        let who = credential.into().authenticate(&snapshot, &CancellationToken::new()).await?;
        let access =
            |tool: &Arc<dyn Tool>| ToolAccess { tool: Arc::clone(tool), refusal: who.refusal(tool.spec()) };
        Ok(snapshot.registry.iter().map(access).collect())
    }

    /// A person wrote this in a session: the values in it may be targets of its calls. Only for text that a person certainly wrote: no attachment, no
    /// file, no answer of a model.
    pub fn hear(&self, session: &SessionId, text: &str) {
        if self.current.load().flow.is_some() {
            self.flow.endorsements.hear(session, text);
        }
    }

    /// Whether information flow is tracked.
    #[must_use]
    pub fn tracks_flow(&self) -> bool {
        self.current.load().flow.is_some()
    }

    /// The labels of a session; `None` where information flow is not tracked. Labels that cannot be read count as all.
    #[must_use]
    pub fn flow_labels(&self, session: &SessionId) -> Option<FlowLabels> {
        self.current.load().flow.as_ref().map(|_| self.flow.labels.labels(session).unwrap_or(FlowLabels::ALL))
    }

    /// Whether a call gets no response unless its record is on disk.
    #[must_use]
    pub fn must_record(&self) -> bool {
        self.audit_mode == AuditMode::Deny
    }

    /// Receives warnings for the operator.
    #[must_use]
    pub fn complaints(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        Arc::clone(&self.warn)
    }

    /// The tool that currently has this name, whether or not the caller may use it: for frontends that schedule long calls differently.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.current.load().registry.get(name).map(|registered| Arc::clone(&registered.tool))
    }

    /// Records a call that a frontend refuses. No tool runs; the call is recorded like any other.
    pub async fn refuse(
        &self,
        call: &ToolCall,
        credential: impl Into<Credential>,
        stage: Stage,
        failure: Failure,
    ) -> FinishedCall {
        let credential = credential.into();
        let snapshot = self.current.load_full();
        let cancelled = CancellationToken::new();
        let mut unsettled = self.receive(call, &call.arguments, credential.unverified_caller(), &cancelled);
        unsettled.class = snapshot.registry.get(&call.tool).map(|known| known.tool.spec().class);
        unsettled.stage = Stage::Auth;
        let refused = match credential.authenticate(&snapshot, &cancelled).await {
            Ok(who) => {
                unsettled.caller = who.caller;
                Outcome::Failed { stage, failure }
            }
            Err(failure) => Outcome::Failed { stage: Stage::Auth, failure },
        };
        unsettled.settle(refused, None).await
    }

    /// The issuers' key sets whose refresh failed and whose old keys are still in use.
    #[must_use]
    pub fn stale_keys(&self) -> Vec<StaleKeys> {
        self.current.load().verifier.as_ref().map(|verifier| verifier.stale_keys()).unwrap_or_default()
    }

    /// Counts a call that a frontend's own limit refused before it was accepted; a request that was not read has no tool. Does not wait for the record.
    pub fn count_refusal(&self, tool: &str, caller: Arc<Caller>, failure: &Failure) {
        let known = self.tool(tool);
        self.refusals.record(RefusedCall {
            call: CallId::fresh(),
            caller,
            tool: tool.to_owned(),
            class: known.as_ref().map(|tool| tool.spec().class),
            version: known.as_ref().and_then(|tool| tool.version()).map(str::to_owned),
            args_hash: Sha256::of(b""),
            stage: Stage::Permission,
            code: failure.code,
            reason: operator_reason(failure),
        });
    }
}
