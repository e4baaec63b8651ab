//! The deciding stages. Each consumes the type that the stage before returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_policy::{
    CallFacts, FlowDecision, Grant, HeldPermissions, PathScope, PolicyDecision, Requirements, ScopeVerdict,
    effective_limits, needs_question,
};
use toolgate_text::escaped_line;
use toolgate_text::nearest_name::nearest_name;
use toolgate_types::{
    CallId, Caller, Category, Deadline, ErrorCode, Escalation, Failure, Limits, Sha256, Stage, ToolCall,
    ToolClass,
};
use toolgate_workspace::{NoopRecorder, PathGrant};

use crate::approval::{ApprovalWait, Approver, SessionGrants, arguments_digest};
use crate::approved_changes::ExpectedChange;
use crate::blocking::BlockingStrategy;
use crate::breaker::circuit_open;
use crate::caller::{AuthenticatedCaller, Credential};
use crate::elicitation::{CallElicitor, ElicitorParts};
use crate::escalation::{EscalatedCall, EscalationMemory};
use crate::flow::{FlowStage, FlowSubject};
use crate::gate::Clock;
use crate::grants::GrantStore;
use crate::judged_paths::{JudgedGrant, JudgedPaths};
use crate::question::{ApprovedAs, Question, QuestionEnd};
use crate::registry::RegisteredTool;
use crate::schema_check::check_value;
use crate::snapshot::Snapshot;
use crate::tool::{CallContext, LogSink, Progress, ResourceRequest, Tool, ToolSpec};
use crate::tool_search::searchable_tools_of;
use crate::touched::TouchedNames;

/// A refusal, and the stage that refused.
#[derive(Debug)]
pub(crate) struct StageRefusal {
    pub(crate) stage: Stage,
    /// In a box: the result of every stage would have its size.
    pub(crate) failure: Box<Failure>,
}

impl StageRefusal {
    pub(crate) fn new(stage: Stage, failure: Failure) -> Self {
        Self { stage, failure: Box::new(failure) }
    }
}

pub(crate) fn refuse<Next>(stage: Stage, failure: Failure) -> Result<Next, StageRefusal> {
    Err(StageRefusal::new(stage, failure))
}

/// A call as it was received. Its arguments are moved out, on their way to the tool; `call` is the rest.
pub(crate) struct Received<'g> {
    pub(crate) call: &'g ToolCall,
    pub(crate) arguments: Value,
}

impl<'g> Received<'g> {
    /// REGISTRY: does the tool exist?
    pub(crate) fn look_up(self, snapshot: &'g Snapshot) -> Option<Known<'g>> {
        let tool = snapshot.registry.get(&self.call.tool)?;
        Some(Known { received: self, tool, snapshot })
    }
}

/// The suggestions name only tools that the caller may see.
pub(crate) fn unknown_tool(name: &str, visible: &[&str]) -> StageRefusal {
    let shown: String = name.chars().take(100).collect();
    let mut failure =
        Failure::new(ErrorCode::UnknownTool, format!("there is no tool `{}`", escaped_line(&shown)));
    failure.help = match nearest_name(&shown, visible.iter().copied()) {
        Some(nearest) => Some(format!("did you mean `{nearest}`?")),
        None if visible.is_empty() => None,
        None => Some(format!("the tools are {}", visible.join(", "))),
    };
    StageRefusal::new(Stage::Registry, failure)
}

/// A call of a tool that exists.
pub(crate) struct Known<'g> {
    received: Received<'g>,
    tool: &'g RegisteredTool,
    snapshot: &'g Snapshot,
}

impl<'g> Known<'g> {
    pub(crate) fn class(&self) -> ToolClass {
        self.tool.tool.spec().class
    }

    pub(crate) fn version(&self) -> Option<&'g str> {
        self.tool.tool.version()
    }

    /// AUTH: verifies the credential.
    pub(crate) async fn verify(
        self,
        credential: Credential,
        cancelled: &CancellationToken,
    ) -> Result<Verified<'g>, StageRefusal> {
        match credential.authenticate(self.snapshot, cancelled).await {
            Ok(who) => Ok(Verified { known: self, authenticated: who }),
            Err(failure) => refuse(Stage::Auth, failure),
        }
    }
}

/// A call of an authenticated caller.
pub(crate) struct Verified<'g> {
    known: Known<'g>,
    authenticated: AuthenticatedCaller<'g>,
}

impl<'g> Verified<'g> {
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.authenticated.caller
    }

    /// Collects what its arguments name, for the record.
    pub(crate) fn note_named(&self, touched: &TouchedNames) {
        let Known { received, tool, .. } = &self.known;
        touched.set_named(tool.tool.as_ref(), tool.path_inputs(), &received.arguments);
    }

    /// PERMISSION: may this caller make this call now? `calls` is how many calls its session made before.
    pub(crate) async fn permit(
        self,
        calls: u64,
        asking: &StageContext<'_>,
    ) -> Result<Box<Permitted<'g>>, StageRefusal> {
        let Known { received, tool, snapshot } = &self.known;
        let (spec, who) = (tool.tool.spec(), &self.authenticated);
        let refused = |failure| StageRefusal::new(Stage::Permission, failure);
        // A call that a person changed was counted before the question.
        if asking.changed.is_none() {
            snapshot.rates.admit(&who.caller.subject, spec.name.as_str()).map_err(refused)?;
        }
        let (grant, limits) = caller_limits(snapshot, spec, who, asking.timeout).map_err(refused)?;
        let flow_needs_paths = asking.flow.is_some_and(|flow| flow.rule.needs_paths(&tool.flow().mounts));
        let located = if flow_needs_paths || needs_paths(snapshot, spec, who) {
            let context = context(received.call.id, who, spec, limits, &grant, asking);
            Some(Box::pin(locate(tool, &received.arguments, context)).await.map_err(Box::new))
        } else {
            None
        };
        let judged = located.as_ref().and_then(|located| located.as_ref().ok());
        authorize(snapshot, spec, who, AuthorizationInput { input: &received.arguments, judged, calls })
            .map_err(refused)?;
        Ok(Box::new(Permitted { verified: self, grant, limits, located, calls }))
    }
}

/// The resolved paths of a call.
pub(crate) type Judged = Arc<JudgedPaths>;

/// Whether a rule about this tool depends on where paths resolve to. A person holds every permission, so conditions of the tool's requirements do not
/// matter.
fn needs_paths(snapshot: &Snapshot, spec: &ToolSpec, who: &AuthenticatedCaller<'_>) -> bool {
    let demands = spec.requirements.as_ref().is_some_and(Requirements::needs_paths);
    (demands && !matches!(who.held_permissions(), HeldPermissions::Everything))
        || snapshot.policies.need_paths(spec.name.as_str())
}

pub(crate) async fn locate(
    tool: &RegisteredTool,
    arguments: &Value,
    context: CallContext,
) -> Result<Judged, Failure> {
    let (tool, arguments) = (Arc::clone(&tool.tool), arguments.clone());
    let paths = context.blocking.run(move || tool.locate(&arguments, &context)).await?;
    Ok(Arc::new(JudgedPaths::new(paths)))
}

/// The limits within which a caller may use a tool.
fn caller_limits(
    snapshot: &Snapshot,
    spec: &ToolSpec,
    who: &AuthenticatedCaller<'_>,
    timeout: Option<Duration>,
) -> Result<(Grant, Limits), Failure> {
    let grant = match who.scope(spec) {
        ScopeVerdict::Allowed(grant) => grant,
        ScopeVerdict::Denied { operator_reason } => return Err(not_permitted(operator_reason)),
    };
    let base = Limits { timeout: spec.timeout.unwrap_or(snapshot.limits.timeout), ..snapshot.limits };
    let limits = effective_limits(base, who.agent(), &grant);
    let timeout = timeout.map_or(limits.timeout, |timeout| timeout.min(limits.timeout));
    Ok((grant, Limits { timeout, ..limits }))
}

/// What a call is authorised by, besides its tool and its caller.
struct AuthorizationInput<'c> {
    input: &'c Value,
    judged: Option<&'c Judged>,
    calls: u64,
}

/// Checks the tool's requirements and the policies.
fn authorize(
    snapshot: &Snapshot,
    spec: &ToolSpec,
    who: &AuthenticatedCaller<'_>,
    facts: AuthorizationInput<'_>,
) -> Result<(), Failure> {
    let paths = facts.judged.map(|judged| judged.for_rules());
    let facts = CallFacts {
        caller: &who.caller,
        held: who.held_permissions(),
        input: facts.input,
        paths: paths.as_ref(),
        calls: facts.calls,
    };
    let demands = spec.requirements.as_ref().map_or(PolicyDecision::Allowed, |demands| demands.check(&facts));
    for decision in [demands, snapshot.policies.decide(spec.name.as_str(), &facts)] {
        if let PolicyDecision::Denied { operator_reason } = decision {
            return Err(not_permitted(operator_reason));
        }
    }
    // Checked last: a caller that may not use the tool does not learn that it is suspended.
    spec.suspended.as_ref().map_or(Ok(()), |operator_reason| Err(tool_withdrawn(operator_reason)))
}

/// The rule that decided is named only in the operator's note: a model that knew it could look for a way around it.
fn not_permitted(operator_reason: String) -> Failure {
    Failure::new(ErrorCode::NotPermitted, "this call is not permitted")
        .help("use only the tools that were offered")
        .operator_note(operator_reason)
}

/// The model may have been shown the tool before it was suspended, so the message says that a retry is useless.
fn tool_withdrawn(operator_reason: &str) -> Failure {
    Failure::new(ErrorCode::NotPermitted, "this tool is suspended until an operator agrees to it again")
        .help("go on without this tool")
        .operator_note(operator_reason)
}

/// A call that the caller may make. In a box from here on: each stage hands it on several times.
pub(crate) struct Permitted<'g> {
    verified: Verified<'g>,
    grant: Grant,
    limits: Limits,
    /// The resolved paths, if a rule needed them.
    located: Option<Result<Judged, Box<Failure>>>,
    /// How many calls its session made before.
    calls: u64,
}

impl<'g> Permitted<'g> {
    /// VALIDATION: do the arguments match the schema?
    pub(crate) async fn validate(
        mut self: Box<Self>,
        asking: &StageContext<'_>,
    ) -> Result<Valid<'g>, StageRefusal> {
        let (limits, Known { received, tool, .. }) = (self.limits, &mut self.verified.known);
        let arguments = std::mem::take(&mut received.arguments);
        match check_value(&tool.input, &tool.tool, arguments, || asking.deadline(limits)).await {
            Ok(arguments) => {
                received.arguments = arguments;
                Ok(Valid { permitted: self })
            }
            Err(failure) => refuse(Stage::Validation, failure),
        }
    }
}

/// A call whose arguments match the schema.
pub(crate) struct Valid<'g> {
    permitted: Box<Permitted<'g>>,
}

/// What the stages need besides the call itself.
pub(crate) struct StageContext<'g> {
    pub(crate) approver: &'g Arc<dyn Approver>,
    /// Asked where that one can ask no one.
    pub(crate) fallback_approver: Option<&'g Arc<dyn Approver>>,
    pub(crate) session_grants: &'g SessionGrants,
    pub(crate) grants: &'g Arc<GrantStore>,
    pub(crate) warn: &'g Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) approval_timeout: Duration,
    pub(crate) escalations: &'g EscalationMemory,
    /// Digest of the call as a person changed and approved it.
    pub(crate) changed: Option<Sha256>,
    /// Counts how long a person is waited for.
    pub(crate) waited: &'g Arc<ApprovalWait>,
    /// Collects what the call touches.
    pub(crate) touched: &'g TouchedNames,
    pub(crate) cancelled: &'g CancellationToken,
    pub(crate) interrupted: Option<Arc<AtomicBool>>,
    pub(crate) progress: Option<Progress>,
    pub(crate) log: Option<LogSink>,
    pub(crate) resource: Option<ResourceRequest>,
    pub(crate) session_ended: Option<CancellationToken>,
    /// Set where information flow is tracked.
    pub(crate) flow: Option<FlowStage<'g>>,
    /// The deadline set by the caller.
    pub(crate) timeout: Option<Duration>,
    pub(crate) blocking: BlockingStrategy,
    pub(crate) clock: &'g Clock,
}

/// How a question ended that was not refused.
pub(crate) enum Approval<'g> {
    /// The call may run. In a box: from here to the tool it is handed on four times.
    Ready(Box<Ready<'g>>),
    /// The person approved a call with these arguments, which has to pass every stage.
    Changed(Value),
}

impl<'g> Valid<'g> {
    /// APPROVAL: asks a person where the trust level demands it. The only place that constructs an [`ApprovedCall`].
    pub(crate) async fn approve(self, asking: &StageContext<'_>) -> Result<Approval<'g>, StageRefusal> {
        let Permitted { verified: Verified { known, authenticated: who }, grant, limits, located, calls } =
            *self.permitted;
        let Known { received: Received { call, arguments }, tool, snapshot } = known;
        let spec = tool.tool.spec();
        // Checked before asking: a person is not asked about a call that an open circuit would refuse.
        if let Some(rule) = snapshot.breaker.filter(|rule| rule.applies(spec))
            && let Err(rest) = tool.breaker.check(&who.caller.subject, &rule, (asking.clock)())
        {
            return refuse(Stage::Execution, circuit_open(spec.name.as_str(), rest));
        }
        let context = || context(call.id, &who, spec, limits, &grant, asking);
        // A rule needed these paths and they could not be resolved: refuse.
        let judged = located.transpose().map_err(|failure| unresolved(asking, tool, &who, *failure))?;
        let definition = tool.definition(snapshot.generation);
        let escalated = can_escalate(spec)
            .then(|| EscalatedCall::new(&who, definition, arguments_digest(spec.name.as_str(), &arguments)));
        let escalation = escalated.as_ref().map(|call| asking.escalations.allowed(call)).unwrap_or_default();
        let is_guarded = needs_question(who.caller.trust, spec.class);
        let lacked =
            escalated.as_ref().filter(|_| is_guarded).and_then(|call| asking.escalations.lacked(call));
        let lacked = allowable(tool, lacked.unwrap_or_default(), asking.blocking).await;
        let subject = FlowSubject {
            session: &who.caller.session,
            tool,
            definition,
            arguments: &arguments,
            judged: judged.as_deref(),
            reaches_hosts: !escalation.hosts.is_empty() || !lacked.hosts.is_empty(),
        };
        let flow = judge_flow(asking, &subject)?;
        let mut approved = ApprovedAs { judged, escalation, ..ApprovedAs::default() };
        // A grant answers for what it knew: that the call lacks something is another question, and so is where its targets come from.
        let is_new = lacked != Escalation::default() || flow.asks();
        let is_granted = !is_new && asking.session_grants.allow(definition, &who);
        if (is_guarded || flow.asks()) && !is_granted {
            let question = Question {
                call,
                arguments: &arguments,
                tool,
                snapshot,
                who: &who,
                definition,
                escalated: escalated.as_ref(),
                lacked,
                flow: &flow,
                context: &context,
            };
            // In a box of its own: most calls ask nothing, and each call moves the state of every question that it could ask.
            match Box::pin(question.answer(approved, asking)).await? {
                QuestionEnd::Approved(as_answered) => approved = as_answered,
                QuestionEnd::Changed(changed) => return Ok(Approval::Changed(changed)),
            }
        }
        // The caller cancelled while a person was asked.
        if asking.cancelled.is_cancelled() {
            return refuse(Stage::Execution, Failure::new(ErrorCode::Cancelled, "the call was cancelled"));
        }
        // A new context: the time a person takes to reply does not count towards the tool's timeout.
        let ApprovedAs { judged, escalation, expected_changes, was_asked, grant: used_grant } = approved;
        let visible = visible_for(tool.tool.as_ref(), snapshot, &who);
        let context = CallContext { escalation, visible, ..bind_to_paths(context(), judged) };
        let ToolCall { id, client_id, tool: name, repairs, .. } = call;
        let (client_id, repairs) = (client_id.clone(), repairs.clone());
        let call = ToolCall { id: *id, client_id, tool: name.clone(), arguments, repairs };
        let by_token = who.by_token;
        Ok(Approval::Ready(Box::new(Ready {
            approved: ApprovedCall { call },
            tool,
            snapshot,
            context,
            expected_changes,
            was_asked,
            grant: used_grant,
            escalated,
            by_token,
            calls,
            timeout: asking.timeout,
        })))
    }
}

/// The refusal of a call whose paths do not resolve. Its text may name files, so it has the labels of the mounts.
fn unresolved(
    asking: &StageContext<'_>,
    tool: &RegisteredTool,
    who: &AuthenticatedCaller<'_>,
    failure: Failure,
) -> StageRefusal {
    if let Some(flow) = &asking.flow {
        flow.note_unresolved(tool, &who.caller.session);
    }
    StageRefusal::new(stage_of(&failure), failure)
}

/// Judges the information flow of a call, where it is tracked.
fn judge_flow(asking: &StageContext<'_>, call: &FlowSubject<'_>) -> Result<FlowDecision, StageRefusal> {
    let judged = asking.flow.map_or_else(|| Ok(FlowDecision::default()), |flow| flow.judge(call));
    judged.map_err(|failure| StageRefusal::new(Stage::Approval, failure))
}

/// Of what a call lacked, that which a person may allow. Directories are looked for on the disk.
async fn allowable(tool: &RegisteredTool, lacked: Escalation, blocking: BlockingStrategy) -> Escalation {
    if lacked.directories.is_empty() {
        return lacked;
    }
    let tool = Arc::clone(&tool.tool);
    // Without an answer nothing more is offered.
    blocking.run(move || Ok(tool.escalation_for(lacked))).await.unwrap_or_default()
}

/// Whether a person may allow calls of this tool more than the configuration does: built-in commands, whose limits the gate itself set.
fn can_escalate(spec: &ToolSpec) -> bool {
    spec.is_built_in() && spec.category == Category::Exec
}

/// The stage of a tool's own refusal. `InvalidArguments` counts as validation, even if only the tool could detect it.
pub(crate) fn stage_of(failure: &Failure) -> Stage {
    if failure.code == ErrorCode::InvalidArguments { Stage::Validation } else { Stage::Execution }
}

impl StageContext<'_> {
    /// The deadline of work that starts now: the timeout, the caller's token and the interrupt flag.
    fn deadline(&self, limits: Limits) -> Deadline {
        let deadline = Deadline::after(limits.timeout).with_cancellation(self.cancelled.clone());
        match self.interrupted.clone() {
            Some(flag) => deadline.with_signal(move || flag.load(Ordering::Relaxed)),
            None => deadline,
        }
    }
}

fn context(
    call: CallId,
    who: &AuthenticatedCaller<'_>,
    spec: &ToolSpec,
    limits: Limits,
    grant: &Grant,
    asking: &StageContext<'_>,
) -> CallContext {
    let paths = granted_paths(grant);
    // No progress for tools with an output policy: output must not leave before it is filtered.
    let progress = asking.progress.clone().filter(|_| spec.output_policy.is_none());
    let log = asking.log.clone().filter(|_| spec.output_policy.is_none());
    let (mut stop, mut elicitor) = (asking.deadline(limits), None);
    if spec.category == Category::Mcp {
        stop = stop.pausable();
        elicitor = Some(CallElicitor::new(ElicitorParts {
            approver: asking.approver,
            call,
            caller: &who.caller,
            by_token: who.by_token,
            tool: spec.name.as_str(),
            timeout: asking.approval_timeout,
            deadline: &stop,
            waited: asking.waited,
            touched: asking.touched,
        }));
    }
    CallContext {
        call,
        caller: Arc::clone(&who.caller),
        by_token: who.by_token,
        stop,
        limits,
        escalation: Escalation::default(),
        lacks: None,
        effective_grant: paths.clone(),
        grant: paths,
        judged: None,
        recorder: Arc::new(NoopRecorder),
        touched: asking.touched.clone(),
        progress,
        log,
        elicitor,
        blocking: asking.blocking,
        resource: asking.resource.clone(),
        session_ended: asking.session_ended.clone(),
        visible: Arc::default(),
    }
}

/// The tools that a tool may list to this caller.
fn visible_for(tool: &dyn Tool, snapshot: &Snapshot, who: &AuthenticatedCaller<'_>) -> Arc<[Arc<dyn Tool>]> {
    if tool.lists_tools() { searchable_tools_of(snapshot, who) } else { Arc::default() }
}

/// Restricts a context to the paths that the call was judged by.
pub(crate) fn bind_to_paths(context: CallContext, judged: Option<Judged>) -> CallContext {
    let Some(judged) = judged else { return context };
    let grant = JudgedGrant { granted: context.grant.clone(), judged: Arc::clone(&judged) };
    CallContext { judged: Some(judged), effective_grant: Some(Arc::new(grant)), ..context }
}

#[derive(Debug)]
struct GrantedPaths(PathScope);

fn granted_paths(grant: &Grant) -> Option<Arc<dyn PathGrant>> {
    grant.paths.clone().map(|paths| Arc::new(GrantedPaths(paths)) as Arc<dyn PathGrant>)
}

impl PathGrant for GrantedPaths {
    fn covers(&self, location: &std::path::Path) -> bool {
        self.0.matches(location)
    }
}

/// A call with everything that running it needs.
pub(crate) struct Ready<'g> {
    pub(crate) approved: ApprovedCall,
    pub(crate) tool: &'g RegisteredTool,
    pub(crate) snapshot: &'g Snapshot,
    pub(crate) context: CallContext,
    /// The changes that a person approved, if one was asked and the tool could predict them.
    pub(crate) expected_changes: Option<Vec<ExpectedChange>>,
    /// Whether a person was asked. That may take long enough for the configuration to be replaced.
    pub(crate) was_asked: bool,
    /// The lasting grant that answered in place of a person.
    pub(crate) grant: Option<String>,
    /// The call, if a person may allow its retry more than it had.
    pub(crate) escalated: Option<EscalatedCall>,
    by_token: bool,
    calls: u64,
    timeout: Option<Duration>,
}

impl Ready<'_> {
    /// Checks the call again under the current configuration: an approval must not bypass a rule that was loaded while the question was open.
    pub(crate) fn recheck<'n>(self, newer: &'n Snapshot) -> Result<Box<Ready<'n>>, StageRefusal> {
        let call = &self.approved.call;
        let refused = |failure| StageRefusal::new(Stage::Permission, failure);
        let tool = newer.registry.get(&call.tool).filter(|tool| {
            tool.definition(newer.generation) == self.tool.definition(self.snapshot.generation)
        });
        let Some(tool) = tool else { return Err(refused(tool_replaced())) };
        let caller = Arc::clone(&self.context.caller);
        let who = AuthenticatedCaller::revalidate(caller, self.by_token, self.snapshot, newer)
            .map_err(|failure| StageRefusal::new(Stage::Auth, failure))?;
        let spec = tool.tool.spec();
        let (grant, limits) = caller_limits(newer, spec, &who, self.timeout).map_err(refused)?;
        let facts = AuthorizationInput {
            input: &call.arguments,
            judged: self.context.judged.as_ref(),
            calls: self.calls,
        };
        authorize(newer, spec, &who, facts).map_err(refused)?;
        let grant = granted_paths(&grant);
        let visible = visible_for(tool.tool.as_ref(), newer, &who);
        let context = CallContext { limits, effective_grant: grant.clone(), grant, visible, ..self.context };
        let judged = context.judged.clone();
        let context = bind_to_paths(context, judged);
        Ok(Box::new(Ready { tool, snapshot: newer, context, ..self }))
    }
}

/// The approval was for the tool's definition at that time.
fn tool_replaced() -> Failure {
    let message = "the tool was changed or taken away while the question was open";
    Failure::new(ErrorCode::NotPermitted, message).help("look at the tools again, then ask again")
}

/// A call that passed every deciding stage: the only value that a tool can be run with.
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

    pub(crate) fn arguments(&self) -> &Value {
        &self.call.arguments
    }

    /// Its arguments, which match the tool's schema.
    #[must_use]
    pub fn into_arguments(self) -> Value {
        self.call.arguments
    }
}
