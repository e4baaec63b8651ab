//! The deciding stages: each consumes what the one before handed out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_manifest::AgentConfig;
use toolgate_policy::{Grant, PathScope, Scope, Verdict, effective_limits, needs_question};
use toolgate_text::nearest::nearest_name;
use toolgate_types::{Caller, ErrorCode, Failure, Limits, Stage, Stop, ToolCall, ToolClass};
use toolgate_workspace::{Forgetful, PathGrant};

use crate::approval::{Approver, Question, Reply, SessionGrants, digest, expired, refusal};
use crate::bound::ForeseenChange;
use crate::registry::{Registered, Registry};
use crate::tool::{Blocking, CallContext, Preview, Progress};

/// A refusal, and where it happened.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) stage: Stage,
    pub(crate) failure: Failure,
}

fn refuse<Next>(stage: Stage, failure: Failure) -> Result<Next, Refused> {
    Err(Refused { stage, failure })
}

/// A call as it came.
pub(crate) struct Received<'g> {
    pub(crate) call: &'g ToolCall,
    pub(crate) caller: &'g Arc<Caller>,
}

impl<'g> Received<'g> {
    /// REGISTRY: is there such a tool?
    pub(crate) fn look_up(self, registry: &Registry, visible: &[&str]) -> Result<Known<'g>, Refused> {
        let Some(tool) = registry.get(&self.call.tool) else {
            let shown: String = self.call.tool.chars().take(100).collect();
            let mut failure = Failure::new(ErrorCode::UnknownTool, format!("there is no tool `{shown}`"));
            failure.help = Some(match nearest_name(&shown, visible.iter().copied()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("the tools are {}", visible.join(", ")),
            });
            return refuse(Stage::Registry, failure);
        };
        Ok(Known { received: self, tool: tool.clone() })
    }
}

/// A call of a tool that exists.
pub(crate) struct Known<'g> {
    received: Received<'g>,
    tool: Registered,
}

impl<'g> Known<'g> {
    pub(crate) fn class(&self) -> ToolClass {
        self.tool.tool.spec().class
    }

    /// AUTH: is the caller who it says it is? An agent that nobody declared is nobody.
    pub(crate) fn verify(self, agents: &'g [AgentConfig]) -> Result<Verified<'g>, Refused> {
        let caller = self.received.caller;
        match declared_agent(agents, caller) {
            Some(agent) => Ok(Verified { known: self, agent }),
            None => {
                let name = caller.agent.as_ref().map(ToString::to_string).unwrap_or_default();
                let failure = Failure::new(ErrorCode::Unauthenticated, "the caller could not be verified")
                    .operator_note(format!("agent `{name}` is not declared"));
                refuse(Stage::Auth, failure)
            }
        }
    }
}

/// The declaration of the caller's agent, which a person has none of; nothing when the agent is not declared.
pub(crate) fn declared_agent<'g>(
    agents: &'g [AgentConfig],
    caller: &Caller,
) -> Option<Option<&'g AgentConfig>> {
    match &caller.agent {
        None => Some(None),
        Some(name) => agents.iter().find(|agent| agent.name.value == *name).map(Some),
    }
}

/// A call of a known caller.
pub(crate) struct Verified<'g> {
    known: Known<'g>,
    agent: Option<&'g AgentConfig>,
}

impl<'g> Verified<'g> {
    /// PERMISSION: may that caller make that call?
    pub(crate) fn permit(self, base: Limits) -> Result<Permitted<'g>, Refused> {
        let spec = self.known.tool.tool.spec();
        match Scope::of(self.agent).permits(spec.name.as_str(), spec.class) {
            Verdict::Allowed(grant) => {
                let limits = effective_limits(base, self.agent, &grant);
                Ok(Permitted { known: self.known, grant, limits })
            }
            Verdict::Denied { operator_reason } => {
                let failure = Failure::new(ErrorCode::NotPermitted, "this call is not permitted")
                    .help("use only the tools that were offered")
                    .operator_note(operator_reason);
                refuse(Stage::Permission, failure)
            }
        }
    }
}

/// A call that the caller may make.
pub(crate) struct Permitted<'g> {
    known: Known<'g>,
    grant: Grant,
    limits: Limits,
}

impl<'g> Permitted<'g> {
    /// VALIDATION: do the arguments fit?
    pub(crate) fn validate(self) -> Result<Valid<'g>, Refused> {
        let Known { received, tool } = &self.known;
        match tool.input.check(&tool.tool.spec().input_schema, &received.call.arguments) {
            Ok(()) => Ok(Valid { permitted: self }),
            Err(failure) => refuse(Stage::Validation, failure),
        }
    }
}

/// A call whose arguments fit.
pub(crate) struct Valid<'g> {
    permitted: Permitted<'g>,
}

/// What the approving stage needs to ask somebody.
pub(crate) struct Asking<'g> {
    pub(crate) approver: &'g dyn Approver,
    pub(crate) grants: &'g SessionGrants,
    pub(crate) patience: Duration,
    pub(crate) cancelled: CancellationToken,
    pub(crate) interrupted: Option<Arc<AtomicBool>>,
    pub(crate) progress: Option<Progress>,
    pub(crate) blocking: Blocking,
}

impl Valid<'_> {
    /// APPROVAL: did a person agree, where one must? Only here is a call made that a tool will run.
    pub(crate) async fn approve(self, asking: Asking<'_>) -> Result<Ready, Refused> {
        let Permitted { known, grant, limits } = self.permitted;
        let Known { received: Received { call, caller }, tool } = known;
        let spec = tool.tool.spec();
        let needs_answer =
            needs_question(caller.trust, spec.class) && !asking.grants.allows(spec.name.as_str(), caller);
        let mut foreseen = None;
        if needs_answer {
            // The time that a person takes to think is not the tool's.
            let preview = preview(&tool, call, context(caller, limits, &grant, &asking)).await?;
            foreseen = preview.changes.clone();
            let may_last = asking.approver.may_last();
            let question = Question {
                call: call.id,
                tool: spec.name.to_string(),
                class: spec.class,
                caller: Caller::clone(caller),
                preview,
                digest: digest(call, caller),
                patience: asking.patience,
                may_last,
            };
            match asking.ask(question).await? {
                Reply::Once => {}
                Reply::ForSession if may_last => asking.grants.grant(spec.name.as_str(), caller),
                Reply::ForSession => {}
                reply => return refuse(Stage::Approval, refusal(reply)),
            }
        }
        let context = context(caller, limits, &grant, &asking);
        Ok(Ready { approved: ApprovedCall { call: call.clone() }, tool, context, foreseen })
    }
}

/// What would happen. A call that will be refused anyway is nothing to bother a person with: it ends here, as it would have ended later.
async fn preview(tool: &Registered, call: &ToolCall, context: CallContext) -> Result<Preview, Refused> {
    let (tool, arguments) = (Arc::clone(&tool.tool), call.arguments.clone());
    let shown = context.blocking.run(move || tool.preview(&arguments, &context)).await;
    shown.map_err(|failure| Refused { stage: Stage::Execution, failure })
}

impl Asking<'_> {
    async fn ask(&self, question: Question) -> Result<Reply, Refused> {
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.patience, self.approver.ask(question)) => answer,
            () = self.cancelled.cancelled() => {
                return refuse(Stage::Approval, Failure::new(ErrorCode::Cancelled, "the call was cancelled"));
            }
        };
        answer.map_err(|_| Refused { stage: Stage::Approval, failure: expired(self.patience) })
    }
}

fn context(caller: &Arc<Caller>, limits: Limits, grant: &Grant, asking: &Asking<'_>) -> CallContext {
    let (token, flag) = (asking.cancelled.clone(), asking.interrupted.clone());
    let must_end =
        move || token.is_cancelled() || flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
    let paths = grant.paths.clone().map(|paths| Arc::new(GrantedPaths(paths)) as Arc<dyn PathGrant>);
    CallContext {
        caller: Arc::clone(caller),
        stop: Stop::new(Instant::now().checked_add(limits.timeout), must_end),
        cancelled: asking.cancelled.clone(),
        limits,
        grant: paths,
        recorder: Arc::new(Forgetful),
        progress: asking.progress.clone(),
        blocking: asking.blocking,
    }
}

#[derive(Debug)]
struct GrantedPaths(PathScope);

impl PathGrant for GrantedPaths {
    fn covers(&self, location: &std::path::Path) -> bool {
        self.0.matches(location)
    }
}

/// Everything that is needed to run.
pub(crate) struct Ready {
    pub(crate) approved: ApprovedCall,
    pub(crate) tool: Registered,
    pub(crate) context: CallContext,
    /// What a person agreed to, where one was asked and the tool could tell.
    pub(crate) foreseen: Option<Vec<ForeseenChange>>,
}

/// A call that passed every deciding stage: the only thing that a tool can be run with.
///
/// ```compile_fail
/// // Nobody outside the gate can make one.
/// let forged = toolgate_gate::ApprovedCall { call: unimplemented!() };
/// ```
#[derive(Debug)]
pub struct ApprovedCall {
    call: ToolCall,
}

impl ApprovedCall {
    /// The call.
    #[must_use]
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Its arguments, which fit the tool's schema.
    #[must_use]
    pub fn into_arguments(self) -> serde_json::Value {
        self.call.arguments
    }
}
