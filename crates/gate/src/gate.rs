//! The pipeline: takes a call, returns an outcome and writes one audit record.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate_audit::{AuditError, AuditLog, Intent, Ticket};
use toolgate_manifest::AuditDetail;
use toolgate_types::{
    CallId, Caller, Category, ErrorCode, Failure, Outcome, SessionId, Sha256, Stage, ToolCall, ToolClass,
    ToolOutput,
};
use toolgate_workspace::Recorder;

use crate::approval::{Approver, SessionGrants, arguments_digest};
use crate::approved_changes::ApprovedChangesGuard;
use crate::audit_guard::AuditGuard;
use crate::blocking::BlockingStrategy;
use crate::breaker::circuit_open;
use crate::call_observer::{CallObserver, OutputObserver};
use crate::caller::{AuthenticatedCaller, Credential};
use crate::escalation::{EscalationMemory, PossibleLacks, recorded};
use crate::flow::{CallFlow, Endorsements, FlowLabelStore, FlowStage, FlowState};
use crate::grants::GrantStore;
use crate::journal::{CallRecorder, Journal};
use crate::output::{RawOutput, filter_output};
use crate::refusal_counter::RefusalCounter;
use crate::session_calls::SessionCallCounter;
use crate::snapshot::{GateConfig, Snapshot};
use crate::stages::{Approval, Ready, Received, StageContext, StageRefusal, stage_of, unknown_tool};
use crate::tool::{IntentDurability, LogSink, Progress, ResourceRequest, Surface, Tool};
use crate::tool_search::{offered_tools_of, surfaced_tools_of, visible_tools_of};
use crate::touched::TouchedNames;
use crate::trace::{CallSpan, await_in_span};

/// What happens when a call cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    /// The record is on disk (fsync) before the response leaves; without a record there is no response.
    Deny,
    /// The record is written before the response leaves and survives a crash of this process; fsync happens when a checkpoint is signed. If the log
    /// fails, the operator is warned and read-only calls continue. A call that changes something, runs a command or leaves the machine is refused if
    /// its intent cannot be written: otherwise a model that fills the disk would escape its record.
    Warn,
}

/// The clock, passed in by the caller that builds the gate.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Everything a gate is built from.
pub struct GateOptions {
    /// The first configuration.
    pub config: GateConfig,
    /// The audit log, or why there is none: then every call that needs a write-ahead intent is refused, and in [`AuditMode::Deny`] every call.
    pub audit: Result<AuditLog, AuditError>,
    /// What happens when the audit log fails.
    pub audit_mode: AuditMode,
    /// What a record says of what its call touched.
    pub audit_detail: AuditDetail,
    /// The journal of changes, from which they can be undone.
    pub journal: Arc<Journal>,
    /// Asks a person for approval.
    pub approver: Arc<dyn Approver>,
    /// How long to wait for a person's reply.
    pub approval_timeout: Duration,
    /// The lasting grants, which answer questions.
    pub grants: Arc<GrantStore>,
    /// The labels of sessions.
    pub flow_labels: Arc<FlowLabelStore>,
    /// Where blocking work runs.
    pub blocking: BlockingStrategy,
    /// Clock for rate limits and circuit breakers.
    pub clock: Clock,
    /// Receives warnings for the operator.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The gate between a model and the machine.
pub struct Gate {
    pub(crate) audit: Result<Arc<AuditLog>, AuditError>,
    pub(crate) refusals: Arc<RefusalCounter>,
    pub(crate) audit_mode: AuditMode,
    audit_detail: AuditDetail,
    pub(crate) warn: Arc<dyn Fn(&str) + Send + Sync>,
    pub(crate) current: ArcSwap<Snapshot>,
    /// Held while the current snapshot is replaced, so that replacements are serialised.
    replace_lock: Mutex<()>,
    config_generation: watch::Sender<u64>,
    pub(crate) blocking: BlockingStrategy,
    journal: Arc<Journal>,
    approver: Arc<dyn Approver>,
    approval_timeout: Duration,
    clock: Clock,
    session_grants: SessionGrants,
    grants: Arc<GrantStore>,
    escalations: Arc<EscalationMemory>,
    sessions: SessionCallCounter,
    pub(crate) flow: FlowState,
    pub(crate) observer: OnceLock<Arc<dyn CallObserver>>,
    fallback_approver: OnceLock<Arc<dyn Approver>>,
}

/// How a call ended.
#[derive(Debug)]
pub struct FinishedCall {
    /// The gate's id for the call.
    pub call: CallId,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, without the time that a person was waited for.
    pub duration: Duration,
    /// How long a person was waited for.
    pub waited: Duration,
    /// The arguments that a person approved in place of the model's.
    pub changed: Option<Value>,
}

/// Per-call options.
pub struct CallOptions {
    /// Receives output while the tool is running.
    pub progress: Option<Progress>,
    /// Receives log messages of the server behind the gate.
    pub log: Option<LogSink>,
    /// Cancels the call.
    pub cancelled: CancellationToken,
    /// Approver for this call, in place of the gate's.
    pub approver: Option<Arc<dyn Approver>>,
    /// Also cancels the call once it is true. For signal handlers, which can only set an atomic flag.
    pub interrupted: Option<Arc<AtomicBool>>,
    /// Whether other requests are waiting for the thread that makes this call.
    pub contended: bool,
    /// Set if a frontend makes this call to list or read a resource.
    pub resource: Option<ResourceRequest>,
    /// A deadline set by the caller, counted from the start of the tool. It can only shorten the call's own timeout.
    pub timeout: Option<Duration>,
    /// Cancelled when the session of this call ends, if the frontend knows. Background commands end with it, and with the gate.
    pub session_ended: Option<CancellationToken>,
    /// The session of information flow, if it is not that of the caller: one of several connections that share a session.
    pub flow_session: Option<SessionId>,
    /// Whether a person wrote the call, and no model.
    pub by_person: bool,
    /// Notified of the outcome before the record is awaited.
    pub output: Option<Arc<dyn OutputObserver>>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self::cancelled_by(CancellationToken::new())
    }
}

impl CallOptions {
    /// The options of a call that this token cancels.
    #[must_use]
    pub fn cancelled_by(cancelled: CancellationToken) -> Self {
        Self {
            progress: None,
            log: None,
            cancelled,
            approver: None,
            interrupted: None,
            contended: false,
            resource: None,
            timeout: None,
            session_ended: None,
            flow_session: None,
            by_person: false,
            output: None,
        }
    }
}

impl Drop for Gate {
    /// Flushes the counted refusals before the log is closed, and the finished entries of the journal.
    fn drop(&mut self) {
        self.refusals.close();
        self.journal.close();
    }
}

impl Gate {
    /// Builds a gate.
    #[must_use]
    pub fn new(options: GateOptions) -> Self {
        let audit = options.audit.map(Arc::new);
        Self {
            refusals: RefusalCounter::new(audit.as_ref().ok(), &options.clock, &options.warn),
            current: ArcSwap::from_pointee(Snapshot::first(options.config, &options.clock)),
            replace_lock: Mutex::default(),
            config_generation: watch::Sender::new(0),
            audit,
            audit_mode: options.audit_mode,
            audit_detail: options.audit_detail,
            warn: options.warn,
            journal: options.journal,
            approver: options.approver,
            approval_timeout: options.approval_timeout,
            blocking: options.blocking,
            clock: options.clock,
            session_grants: SessionGrants::default(),
            grants: options.grants,
            escalations: Arc::default(),
            sessions: SessionCallCounter::default(),
            flow: FlowState { labels: options.flow_labels, endorsements: Endorsements::default() },
            observer: OnceLock::new(),
            fallback_approver: OnceLock::new(),
        }
    }

    /// Notifies this observer of every later call. A gate has one; another is ignored.
    pub fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        // The first one stays.
        let _ = self.observer.set(observer);
    }

    /// Asks this approver about a call whose own approver can ask no one. The call is then approved once at most: how long its session lasts is not
    /// known. A gate has one fallback; another is ignored.
    pub fn set_fallback_approver(&self, approver: Arc<dyn Approver>) {
        // The first one stays.
        let _ = self.fallback_approver.set(approver);
    }

    /// Why there is no audit log, if there is none.
    #[must_use]
    pub fn record_problem(&self) -> Option<&AuditError> {
        self.audit.as_ref().err()
    }

    /// The journal of changes.
    #[must_use]
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The lasting grants.
    #[must_use]
    pub fn grants(&self) -> &Arc<GrantStore> {
        &self.grants
    }

    /// Replaces the configuration and returns its generation. Running calls keep the snapshot they started with. Session-wide approvals stay valid
    /// for tools whose definition is unchanged, and for no others.
    pub fn replace_config(&self, loaded: GateConfig) -> u64 {
        let _replacing = self.replace_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Snapshot::after(Some(&self.current.load()), loaded, &self.clock);
        let generation = next.generation;
        self.current.store(Arc::new(next));
        self.config_generation.send_replace(generation);
        generation
    }

    /// How often the configuration was replaced.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.current.load().generation
    }

    /// The tools that a known caller may use, in registration order. A model is never shown any other.
    #[must_use]
    pub fn visible_tools(&self, caller: &Caller) -> Vec<Arc<dyn Tool>> {
        let snapshot = self.current.load();
        AuthenticatedCaller::from_known(Arc::new(caller.clone()), &snapshot)
            .map(|who| visible_tools_of(&snapshot, &who))
            .unwrap_or_default()
    }

    /// The tools that the holder of this credential may use.
    ///
    /// # Errors
    /// The caller could not be verified.
    pub async fn tools_for(&self, credential: impl Into<Credential>) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        let snapshot = self.current.load_full();
        let who = credential.into().authenticate(&snapshot, &CancellationToken::new()).await?;
        Ok(visible_tools_of(&snapshot, &who))
    }

    /// The tools that a model is offered which calls with this credential: those that it may use, or above a threshold a search in place of most.
    ///
    /// # Errors
    /// The caller could not be verified.
    pub async fn offered_tools(
        &self,
        credential: impl Into<Credential>,
    ) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        let snapshot = self.current.load_full();
        let who = credential.into().authenticate(&snapshot, &CancellationToken::new()).await?;
        Ok(offered_tools_of(&snapshot, &who))
    }

    /// The prompts, or the readers of resources, that the holder of this credential may use.
    ///
    /// # Errors
    /// The caller could not be verified.
    pub async fn surfaced_tools(
        &self,
        credential: impl Into<Credential>,
        surface: Surface,
    ) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        let snapshot = self.current.load_full();
        let who = credential.into().authenticate(&snapshot, &CancellationToken::new()).await?;
        Ok(surfaced_tools_of(&snapshot, &who, surface).cloned().collect())
    }

    /// Why servers behind the gate failed, for a caller that could use tools of theirs.
    ///
    /// # Errors
    /// The caller could not be verified.
    pub async fn failed_servers(&self, credential: impl Into<Credential>) -> Result<Vec<Failure>, Failure> {
        let snapshot = self.current.load_full();
        let who = credential.into().authenticate(&snapshot, &CancellationToken::new()).await?;
        let mut failed = snapshot.registry.failed_servers();
        failed.retain(|server| server.tools.iter().any(|tool| who.can_see(tool)));
        Ok(failed.into_iter().map(|server| server.failure).collect())
    }

    /// The call that is made where this one is received: the one that it names, if it is indirect. A malformed indirect call stays as it is, and is
    /// refused when it is made.
    #[must_use]
    pub fn resolve_indirect(&self, mut call: ToolCall) -> ToolCall {
        let _ = self.current.load().registry.redirect(&mut call);
        call
    }

    /// Authenticates a credential, for frontends that reject unauthenticated clients before the first call. Every call authenticates its own
    /// credential again.
    ///
    /// # Errors
    /// The caller could not be verified.
    pub async fn identify(&self, credential: impl Into<Credential>) -> Result<Arc<Caller>, Failure> {
        let snapshot = self.current.load_full();
        let who = credential.into().authenticate(&snapshot, &CancellationToken::new()).await?;
        Ok(who.caller)
    }

    /// Digest of a tool's current definition. A different digest means a different tool, even under the same name.
    #[must_use]
    pub fn definition(&self, tool: &str) -> Option<Sha256> {
        let snapshot = self.current.load();
        snapshot.registry.get(tool).map(|tool| tool.definition(snapshot.generation))
    }

    /// Receives the generation of every later replacement.
    #[must_use]
    pub fn config_changes(&self) -> watch::Receiver<u64> {
        self.config_generation.subscribe()
    }

    /// Runs one call through every stage.
    pub async fn call(
        &self,
        mut call: ToolCall,
        credential: impl Into<Credential>,
        options: CallOptions,
    ) -> FinishedCall {
        let credential = credential.into();
        // One snapshot per call, from the first stage to the last.
        let snapshot = self.current.load_full();
        if let Err(failure) = snapshot.registry.redirect(&mut call) {
            return Box::pin(self.refuse(&call, credential, Stage::Validation, failure)).await;
        }
        let arguments = std::mem::take(&mut call.arguments);
        // A child token: the caller's token cancels this call, but cancelling this call cancels nothing else of the caller's.
        let cancelled = options.cancelled.child_token();
        let mut unsettled = self.receive(&call, &arguments, credential.unverified_caller(), &cancelled);
        unsettled.is_contended = options.contended;
        let mut approval =
            self.decide(&mut unsettled, arguments, credential.clone(), &snapshot, (&options, None)).await;
        if let Ok(Approval::Changed(arguments)) = approval {
            let approved = arguments_digest(&call.tool, &arguments);
            unsettled.change(&arguments);
            let asking = (&options, Some(approved));
            // In a box: this is rare, and the state machine of `decide` is large.
            approval = Box::pin(self.decide(&mut unsettled, arguments, credential, &snapshot, asking)).await;
        }
        let mut decided = approval.and_then(|approval| match approval {
            Approval::Ready(ready) => Ok(ready),
            // A changed call is not asked about, so it is not changed again.
            Approval::Changed(_) => Err(StageRefusal::new(
                Stage::Approval,
                Failure::new(ErrorCode::ApprovalDenied, "the call was changed twice"),
            )),
        });
        // If a person was asked, the configuration may have been replaced while the question was open: the call must also pass the current one.
        let newer;
        if decided.as_ref().is_ok_and(|ready| ready.was_asked) {
            newer = self.current.load_full();
            if newer.generation != snapshot.generation {
                decided = decided.and_then(|ready| ready.recheck(&newer));
            }
        }
        let (outcome, response) = match decided {
            Ok(ready) => {
                unsettled.stage = Stage::Execution;
                unsettled.grant.clone_from(&ready.grant);
                unsettled.escalation = recorded(&ready.context.escalation);
                let mut ready = ready;
                ready.context.progress = self.label_progress(&unsettled, ready.context.progress.take());
                let lacks = PossibleLacks::of(&mut ready, &self.escalations);
                let (mut outcome, response) = self.execute(&unsettled, ready).await;
                if let Some(lacks) = lacks {
                    lacks.note(&mut outcome);
                }
                (outcome, response)
            }
            Err(StageRefusal { stage, failure }) => (Outcome::Failed { stage, failure: *failure }, None),
        };
        let outcome = self.release(&unsettled, outcome).await;
        if let Some(observer) = &options.output {
            observer.output_ready(&outcome);
        }
        unsettled.settle(outcome, response).await
    }

    async fn decide<'s>(
        &'s self,
        unsettled: &mut AuditGuard<'s>,
        arguments: Value,
        credential: Credential,
        snapshot: &'s Snapshot,
        (options, changed): (&'s CallOptions, Option<Sha256>),
    ) -> Result<Approval<'s>, StageRefusal> {
        let (received, cancelled) = (Received { call: unsettled.call, arguments }, unsettled.cancelled);
        // The first stage that may wait, and so the first at which the caller may disconnect.
        unsettled.stage = Stage::Auth;
        let span = unsettled.span.stage(Stage::Registry);
        let found = received.look_up(snapshot);
        span.end(found.is_none().then_some(ErrorCode::UnknownTool));
        let Some(known) = found else {
            let refusing = self.refuse_unknown_tool(unsettled, credential, snapshot, cancelled);
            return Err(Box::pin(refusing).await);
        };
        unsettled.class = Some(known.class());
        unsettled.version = known.version();
        let span = unsettled.span.stage(Stage::Auth);
        let verified = await_in_span!(span, known.verify(credential, cancelled));
        let verified = span.settle(verified)?;
        unsettled.caller = Arc::clone(verified.caller());
        let calls = match unsettled.session_calls {
            Some(calls) => calls,
            None => self.sessions.increment(&unsettled.caller.session),
        };
        unsettled.session_calls = Some(calls);
        verified.note_named(&unsettled.touched);
        let asking = StageContext {
            approver: options.approver.as_ref().unwrap_or(&self.approver),
            fallback_approver: self.fallback_approver.get(),
            session_grants: &self.session_grants,
            grants: &self.grants,
            warn: &self.warn,
            approval_timeout: self.approval_timeout,
            escalations: &self.escalations,
            changed,
            waited: &unsettled.waited,
            touched: &unsettled.touched,
            cancelled,
            interrupted: options.interrupted.clone(),
            progress: options.progress.clone(),
            log: options.log.clone(),
            resource: options.resource.clone(),
            timeout: options.timeout,
            session_ended: options.session_ended.clone(),
            flow: snapshot.flow.as_ref().map(|rule| FlowStage {
                rule,
                state: &self.flow,
                noted: &unsettled.flow,
                session: options.flow_session.as_ref(),
                by_person: options.by_person,
            }),
            blocking: if options.contended { self.blocking.contended() } else { self.blocking },
            clock: &self.clock,
        };
        unsettled.stage = Stage::Approval;
        let span = unsettled.span.stage(Stage::Permission);
        let permitted = await_in_span!(span, verified.permit(calls, &asking));
        let permitted = span.settle(permitted)?;
        let span = unsettled.span.stage(Stage::Validation);
        let valid = await_in_span!(span, permitted.validate(&asking));
        let valid = span.settle(valid)?;
        let span = unsettled.span.stage(Stage::Approval);
        let ready = await_in_span!(span, valid.approve(&asking));
        span.settle(ready)
    }

    /// Refuses an unknown tool. A caller without a valid token gets the authentication failure instead: otherwise it could probe which tools exist.
    async fn refuse_unknown_tool(
        &self,
        unsettled: &mut AuditGuard<'_>,
        credential: Credential,
        snapshot: &Snapshot,
        cancelled: &CancellationToken,
    ) -> StageRefusal {
        let (name, is_token) = (&unsettled.call.tool, credential.is_token());
        match credential.authenticate(snapshot, cancelled).await {
            Ok(who) => {
                unsettled.caller = Arc::clone(&who.caller);
                if let Err(failure) = snapshot.rates.admit_unknown(&who.caller.subject, name) {
                    return StageRefusal::new(Stage::Permission, failure);
                }
                // A caller that may not use it gets the same answer as for a tool that does not exist.
                if let Some(absent) = snapshot.registry.absent(name)
                    && who.can_see(&absent.spec)
                {
                    unsettled.class = Some(absent.spec.class);
                    return StageRefusal::new(Stage::Registry, absent.failure);
                }
                let tools = visible_tools_of(snapshot, &who);
                let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
                unknown_tool(name, &names)
            }
            Err(failure) if is_token => StageRefusal::new(Stage::Auth, failure),
            Err(_) => unknown_tool(name, &[]),
        }
    }

    async fn execute(
        &self,
        unsettled: &AuditGuard<'_>,
        ready: Box<Ready<'_>>,
    ) -> (Outcome, Option<RawOutput>) {
        let (tool, spec) = (ready.tool, ready.tool.tool.spec());
        let entered = match ready.snapshot.breaker.filter(|rule| rule.applies(spec)) {
            None => None,
            Some(rule) => match tool.breaker.enter(&unsettled.caller.subject, rule, &self.clock) {
                Ok(entered) => Some(entered),
                Err(rest) => {
                    let failure = circuit_open(spec.name.as_str(), rest);
                    return (Outcome::Failed { stage: Stage::Execution, failure }, None);
                }
            },
        };
        let (outcome, raw) = self.run(unsettled, ready).await;
        if let Some(entered) = entered {
            entered.settle(&outcome, tool.tool.exit_codes_break());
        }
        (outcome, raw)
    }

    async fn run(&self, unsettled: &AuditGuard<'_>, ready: Box<Ready<'_>>) -> (Outcome, Option<RawOutput>) {
        let (tool, stop) = (ready.tool, ready.context.stop.clone());
        let span = unsettled.span.stage(Stage::Execution);
        let output = await_in_span!(span, self.run_tool(unsettled, ready));
        span.end(output.as_ref().err().map(|failure| failure.code));
        let output = match output {
            Ok(output) => output,
            Err(failure) => return (Outcome::Failed { stage: stage_of(&failure), failure }, None),
        };
        let span = unsettled.span.stage(Stage::Output);
        let (outcome, raw) = await_in_span!(span, filter_output(tool, output, || stop.clone()));
        span.end(match &outcome {
            Outcome::Done(_) => None,
            Outcome::Failed { failure, .. } => Some(failure.code),
        });
        (outcome, raw)
    }

    async fn run_tool(
        &self,
        unsettled: &AuditGuard<'_>,
        ready: Box<Ready<'_>>,
    ) -> Result<ToolOutput, Failure> {
        let Ready { approved, tool, mut context, expected_changes: foreseen, .. } = *ready;
        let (mut bound, spec) = (None, tool.tool.spec());
        let announced = IntentDurability::required_by(tool.tool.as_ref());
        if announced == IntentDurability::Written {
            self.record_intent(unsettled, spec.class)?;
        }
        if announced == IntentDurability::Fsynced {
            context.recorder = Arc::new(self.prepare_effect(unsettled, tool.tool.as_ref()).await?);
            if let Some(foreseen) = foreseen {
                let held = Arc::new(ApprovedChangesGuard::new(context.recorder, foreseen));
                context.recorder = Arc::clone(&held) as Arc<dyn Recorder + Send + Sync>;
                bound = Some(held);
            }
        }
        let output = Arc::clone(&tool.tool).run(approved, context).await;
        output.map_err(|failure| match bound {
            Some(bound) => bound.explain(failure),
            None => failure,
        })
    }

    pub(crate) fn receive<'g>(
        &'g self,
        call: &'g ToolCall,
        arguments: &Value,
        caller: Arc<Caller>,
        cancelled: &'g CancellationToken,
    ) -> AuditGuard<'g> {
        AuditGuard {
            gate: self,
            started: Instant::now(),
            args_hash: Sha256::of(&serde_json::to_vec(arguments).unwrap_or_default()),
            call,
            caller,
            class: None,
            version: None,
            stage: Stage::Registry,
            grant: None,
            cancelled,
            settled: false,
            is_contended: false,
            waited: Arc::default(),
            session_calls: None,
            escalation: Vec::new(),
            changed: None,
            touched: TouchedNames::new(self.audit_detail),
            flow: CallFlow::default(),
            span: CallSpan::new(call.id, &call.tool, || {
                self.current.load().registry.get(&call.tool).is_some()
            }),
        }
    }

    /// Writes the write-ahead intent of a call.
    pub(crate) fn record_intent(
        &self,
        unsettled: &AuditGuard<'_>,
        class: ToolClass,
    ) -> Result<Option<Ticket>, Failure> {
        let details = unsettled.touched.collected();
        let intent = Intent {
            call: unsettled.call.id,
            client_call_id: unsettled.call.client_id.as_deref(),
            caller: &unsettled.caller,
            tool: &unsettled.call.tool,
            class,
            version: unsettled.version,
            args_hash: unsettled.args_hash,
            grant: unsettled.grant.as_deref(),
            details: Some(&details),
        };
        let announced = self.audit.as_ref().map_err(Clone::clone).and_then(|audit| audit.intent(&intent));
        match (announced, self.audit_mode) {
            (Ok(ticket), _) => Ok(Some(ticket)),
            // The record is written, but fsync failed and a power failure may lose it; that was reported when it happened.
            (Err(error @ AuditError::NotDurable { .. }), AuditMode::Warn) => {
                (self.warn)(&format!("the intent of a call could not be recorded: {error}"));
                Ok(None)
            }
            (Err(error), mode) => {
                if mode == AuditMode::Warn {
                    (self.warn)(&format!("a call was refused: its intent could not be recorded: {error}"));
                }
                Err(unrecorded(&format!("{error}; {}", error.help())))
            }
        }
    }

    /// File tools wait for the fsync of their intent after staging, right before the first change; commands wait after preparing, right before they
    /// start ([`Tool::awaits_intent`]). So the fsync overlaps with that work. Every other tool waits here.
    async fn prepare_effect(
        &self,
        unsettled: &AuditGuard<'_>,
        tool: &dyn Tool,
    ) -> Result<CallRecorder, Failure> {
        let spec = tool.spec();
        let intent = match self.record_intent(unsettled, spec.class)? {
            Some(ticket) if tool.awaits_intent() => {
                ticket.start_sync();
                Some(ticket)
            }
            Some(ticket) if spec.category != Category::File => {
                if let Err(error) = ticket.await
                    && self.audit_mode == AuditMode::Deny
                {
                    return Err(unrecorded(&error.to_string()));
                }
                None
            }
            other => other,
        };
        let session = unsettled.caller.session.clone();
        let journal = Arc::clone(&self.journal);
        let recorder =
            CallRecorder::new(journal, unsettled.call.id, session, &unsettled.call.tool, intent, None)
                .naming(unsettled.touched.clone());
        Ok(recorder.intent_may_fail(self.audit_mode == AuditMode::Warn))
    }
}

/// The tools that an authenticated caller may use, in registration order.
pub(crate) fn unrecorded(reason: &str) -> Failure {
    Failure::new(ErrorCode::AuditUnavailable, "this call cannot be recorded, so it may not run")
        .operator_note(reason)
}
