//! A question about a call: whether one must be asked, what it shows, and what its answer means.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use toolgate_policy::{FlowDecision, PathScope, ScopeVerdict, needs_question};
use toolgate_types::{Caller, ErrorCode, Escalation, Failure, Sha256, Stage, ToolCall, ToolClass};

use crate::approval::{ApprovalReply, ApprovalRequest, approval_timed_out, arguments_digest, refusal};
use crate::approved_changes::ExpectedChange;
use crate::caller::AuthenticatedCaller;
use crate::escalation::{EscalatedCall, EscalationOffer, joined, offers};
use crate::flow::{help_for_model, question_line};
use crate::grants::GrantableCall;
use crate::judged_paths::JudgedPaths;
use crate::registry::RegisteredTool;
use crate::snapshot::Snapshot;
use crate::stages::{Judged, StageContext, StageRefusal, bind_to_paths, locate, refuse, stage_of};
use crate::tool::{CallContext, Preview};

/// A call that a person has to approve, unless a lasting grant answers for them.
pub(crate) struct Question<'q> {
    pub(crate) call: &'q ToolCall,
    pub(crate) arguments: &'q Value,
    pub(crate) tool: &'q RegisteredTool,
    pub(crate) snapshot: &'q Snapshot,
    pub(crate) who: &'q AuthenticatedCaller<'q>,
    pub(crate) definition: Sha256,
    /// The call, if a person may allow its retry more than it had.
    pub(crate) escalated: Option<&'q EscalatedCall>,
    /// What the call lacked when it was made before.
    pub(crate) lacked: Escalation,
    /// What information flow asks about.
    pub(crate) flow: &'q FlowDecision,
    /// A new context for the tool.
    pub(crate) context: &'q (dyn Fn() -> CallContext + Sync),
}

/// What a call was approved with.
#[derive(Default)]
pub(crate) struct ApprovedAs {
    /// The resolved paths that it is bound to.
    pub(crate) judged: Option<Judged>,
    /// What a person allowed it beyond the configuration.
    pub(crate) escalation: Escalation,
    /// The changes that a person approved, if the tool could predict them.
    pub(crate) expected_changes: Option<Vec<ExpectedChange>>,
    /// Whether a person was asked.
    pub(crate) was_asked: bool,
    /// The id of the lasting grant that answered in place of a person.
    pub(crate) grant: Option<String>,
}

/// How a question ended that was not refused.
pub(crate) enum QuestionEnd {
    /// The call may run.
    Approved(ApprovedAs),
    /// The person approved a call with these arguments, which has to pass every stage.
    Changed(Value),
}

/// How a person approved.
enum Reply {
    /// The call as it is.
    AsItIs,
    /// The call with other arguments.
    Changed(Value),
    /// The call, with what these offers allow.
    Escalated(Vec<EscalationOffer>),
}

impl Question<'_> {
    /// Answers without a person where the call would fail anyway or a lasting grant covers it; asks otherwise.
    pub(crate) async fn answer(
        self,
        mut approved: ApprovedAs,
        asking: &StageContext<'_>,
    ) -> Result<QuestionEnd, StageRefusal> {
        if approved.judged.is_none() {
            approved.judged = self.resolve_paths().await?;
        }
        let mut preview = self.preview(approved.judged.clone()).await?;
        let judged = approved.judged.as_deref();
        if let Some(failure) = preview.would_fail.take_if(|_| may_read(self.snapshot, self.who, judged)) {
            return refuse(stage_of(&failure), failure);
        }
        let shown = self.digest(self.arguments);
        let grantable = judged.and_then(|judged| {
            let call = (self.tool, self.arguments);
            GrantableCall::new((self.call.id, shown), call, judged, self.who, self.snapshot)
        });
        // A grant that spells the call spells its targets; no grant knows what its session has read since.
        let grantable = match self.flow.asks() {
            true => grantable.filter(|_| !self.flow.leaks).map(GrantableCall::only_exactly),
            false => grantable,
        };
        // A path that does not exist now may exist by the time of the reply, but that is not what was shown. An empty set of judged paths refuses it.
        approved.judged.get_or_insert_default();
        // A person who changed the call has approved it as it is now.
        let was_changed = asking.changed == Some(shown);
        let is_lacking = self.lacked != Escalation::default();
        if let Some(grantable) = grantable.as_ref().filter(|_| !is_lacking && !was_changed) {
            approved.grant = asking.find_grant(grantable).await;
        }
        if approved.grant.is_some() {
            return Ok(QuestionEnd::Approved(approved));
        }
        approved.was_asked = true;
        let endorse = || {
            let flow = asking.flow.as_ref();
            flow.inspect(|flow| flow.approve(&self.who.caller.session, self.definition, self.flow));
        };
        approved.expected_changes.clone_from(&preview.expected_changes);
        if was_changed {
            endorse();
            return Ok(QuestionEnd::Approved(approved));
        }
        let request = self.request(shown, preview, asking);
        let reply = self.ask_person(request, grantable.as_ref(), asking).await;
        match reply.map_err(|refusal| self.explain(refusal))? {
            Reply::AsItIs => {}
            Reply::Changed(changed) => return Ok(QuestionEnd::Changed(changed)),
            Reply::Escalated(chosen) => {
                for offer in chosen {
                    if let Some(call) = self.escalated.filter(|_| offer.for_session) {
                        asking.escalations.allow(call, &offer.allows.hosts);
                    }
                    approved.escalation = joined(approved.escalation, offer.allows);
                }
            }
        }
        endorse();
        Ok(QuestionEnd::Approved(approved))
    }

    /// A model whose call could not be asked about learns what information flow objects to.
    fn explain(&self, mut refusal: StageRefusal) -> StageRefusal {
        if self.flow.asks() && refusal.failure.code == ErrorCode::ApprovalUnavailable {
            refusal.failure.help = Some(help_for_model(self.flow));
        }
        refusal
    }

    fn digest(&self, arguments: &Value) -> Sha256 {
        arguments_digest(self.tool.tool.spec().name.as_str(), arguments)
    }

    /// Resolves the paths; `None` if they do not exist yet. A call that is denied anyway ends here: a person is not asked about it.
    async fn resolve_paths(&self) -> Result<Option<Judged>, StageRefusal> {
        match locate(self.tool, self.arguments, (self.context)()).await {
            Ok(judged) => Ok(Some(judged)),
            Err(failure) if failure.code.is_denial() => refuse(stage_of(&failure), failure),
            Err(_) => Ok(None),
        }
    }

    /// What would happen. A call that would be refused anyway fails here with the same refusal, and no person is asked.
    async fn preview(&self, judged: Option<Judged>) -> Result<Preview, StageRefusal> {
        let context = bind_to_paths((self.context)(), judged);
        let (tool, arguments) = (Arc::clone(&self.tool.tool), self.arguments.clone());
        let shown = context.blocking.run(move || tool.preview(&arguments, &context)).await;
        shown.map_err(|failure| StageRefusal::new(stage_of(&failure), failure))
    }

    /// The request for an answer; `shown` is the digest of what it shows.
    fn request(&self, shown: Sha256, mut preview: Preview, asking: &StageContext<'_>) -> ApprovalRequest {
        let spec = self.tool.tool.spec();
        // Information flow asks about each call.
        let can_grant_session = asking.approver.can_grant_session() && !self.flow.asks();
        if self.flow.asks() {
            preview.summary.insert(0, question_line(self.flow));
        }
        ApprovalRequest {
            call: self.call.id,
            tool: spec.name.to_string(),
            class: spec.class,
            caller: Caller::clone(&self.who.caller),
            input: self.arguments.clone(),
            preview,
            arguments: shown,
            timeout: asking.approval_timeout,
            expires_at: SystemTime::now() + asking.approval_timeout,
            can_grant_session,
            grants: Vec::new(),
            escalations: offers(&self.lacked, can_grant_session),
        }
    }

    /// Returns `Ok` only if a person approved.
    async fn ask_person(
        &self,
        mut request: ApprovalRequest,
        grantable: Option<&GrantableCall>,
        asking: &StageContext<'_>,
    ) -> Result<Reply, StageRefusal> {
        let (may_last, escalations) = (request.can_grant_session, request.escalations.clone());
        let shown = request.arguments;
        let offered = grantable.map(|call| call.offers(may_last)).unwrap_or_default();
        request.grants = offered.iter().map(|offered| offered.offer.clone()).collect();
        match asking.ask(request).await? {
            ApprovalReply::Once => {}
            ApprovalReply::ForSession if may_last => asking.session_grants.grant(self.definition, self.who),
            ApprovalReply::ForSession => {}
            ApprovalReply::Changed(arguments) if self.digest(&arguments) != shown => {
                return Ok(Reply::Changed(arguments));
            }
            ApprovalReply::Changed(_) => {}
            ApprovalReply::Granted(id) => {
                let chosen = offered.into_iter().find(|offered| offered.offer.id == id);
                let (Some(chosen), Some(call)) = (chosen, grantable) else {
                    return refuse(Stage::Approval, refusal(ApprovalReply::Granted(id)));
                };
                // The person approved this call in any case.
                if let Err(error) = call.give(asking.grants, chosen, asking.blocking).await {
                    (asking.warn)(&format!("the grant was not kept: {error}; {}", error.help()));
                }
            }
            ApprovalReply::Escalated(ids) => {
                let chosen = |id: &String| escalations.iter().find(|offer| offer.id == *id).cloned();
                return match ids.iter().map(chosen).collect() {
                    Some(chosen) => Ok(Reply::Escalated(chosen)),
                    None => refuse(Stage::Approval, refusal(ApprovalReply::Escalated(ids))),
                };
            }
            reply => return refuse(Stage::Approval, refusal(reply)),
        }
        Ok(Reply::AsItIs)
    }
}

impl StageContext<'_> {
    /// The id of a lasting grant that answers the question about a call. Grants that are not believed answer nothing, and the operator is warned.
    async fn find_grant(&self, call: &GrantableCall) -> Option<String> {
        let found = call.find(self.grants, self.blocking).await;
        found.unwrap_or_else(|error| {
            (self.warn)(&format!("{error}; {}", error.help()));
            None
        })
    }

    async fn ask(&self, question: ApprovalRequest) -> Result<ApprovalReply, StageRefusal> {
        let _waiting = self.waited.start();
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.approval_timeout, self.ask_reachable(question)) => answer,
            () = self.cancelled.cancelled() => {
                return refuse(Stage::Approval, Failure::new(ErrorCode::Cancelled, "the call was cancelled"));
            }
        };
        answer.map_err(|_| StageRefusal::new(Stage::Approval, approval_timed_out(self.approval_timeout)))
    }
}

impl StageContext<'_> {
    /// Asks the approver of the call, else the fallback.
    async fn ask_reachable(&self, question: ApprovalRequest) -> ApprovalReply {
        let Some(fallback) = self.fallback_approver else { return self.approver.ask(question).await };
        match self.approver.ask(question.clone()).await {
            ApprovalReply::Unavailable(why) => match fallback.ask(question.once_at_most()).await {
                // What would help the caller is what its own approver lacks.
                ApprovalReply::Unavailable(_) => ApprovalReply::Unavailable(why),
                reply => reply,
            },
            reply => reply,
        }
    }
}

/// Whether the caller may read these files without being asked, by a built-in tool and under no policy that could forbid it: then a failure that depends
/// on their content shows it nothing that it could not learn otherwise.
fn may_read(snapshot: &Snapshot, who: &AuthenticatedCaller<'_>, judged: Option<&JudgedPaths>) -> bool {
    let covers = |paths: &PathScope| {
        judged.is_some_and(|judged| {
            judged.iter().all(|path| paths.matches(std::path::Path::new(&path.located.location)))
        })
    };
    !needs_question(who.caller.trust, ToolClass::Read)
        && snapshot.policies.is_empty()
        && snapshot.registry.iter().filter(|tool| tool.reads_content()).any(|tool| {
            match who.scope(tool.spec()) {
                ScopeVerdict::Allowed(grant) => grant.paths.is_none_or(|paths| covers(&paths)),
                ScopeVerdict::Denied { .. } => false,
            }
        })
}
