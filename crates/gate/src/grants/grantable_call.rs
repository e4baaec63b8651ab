//! A call that is about to be asked about, as lasting grants see it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use toolgate_policy::{CallKind, GrantFacts, GrantedPlace};
use toolgate_types::{CallId, Category, ErrorCode, Failure, Sha256, Trust};
use toolgate_workspace::mark;

use super::offers::{OfferedDurations, OfferedGrant, grant_offers, workspace_digest};
use super::{GrantStore, GrantStoreError};
use crate::blocking::BlockingStrategy;
use crate::caller::{AuthenticatedCaller, SessionCaller};
use crate::judged_paths::{CallPath, JudgedPaths};
use crate::registry::RegisteredTool;
use crate::snapshot::Snapshot;

/// What grants are compared with, and bound to.
#[derive(Clone)]
pub(crate) struct GrantableCall {
    pub(super) call: CallId,
    pub(super) tool: String,
    pub(super) definition: Sha256,
    pub(super) identity: SessionCaller,
    trust: Trust,
    /// Digest and path of the workspace.
    pub(super) workspace: (Sha256, String),
    arguments: Sha256,
    places: Vec<GrantedPlace>,
    kind: OwnedKind,
    /// Whether the definition can be recognised by another process.
    is_storable: bool,
}

/// [`CallKind`], with a line of its own.
#[derive(Clone)]
enum OwnedKind {
    Files,
    Shell(String),
    ServerTool,
    Other,
}

impl GrantableCall {
    /// `None` where the operator switched grants off, or the workspace cannot be recognised.
    pub(crate) fn new(
        (call, arguments): (CallId, Sha256),
        (tool, values): (&RegisteredTool, &Value),
        judged: &JudgedPaths,
        who: &AuthenticatedCaller<'_>,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let workspace = snapshot.workspace.as_ref().filter(|_| snapshot.grants)?;
        let places: Vec<GrantedPlace> = judged.iter().map(place).collect();
        let aliases = places.iter().map(|place| place.alias.as_str());
        let workspace = workspace_digest(workspace, aliases)?;
        let spec = tool.tool.spec();
        let kind = match tool.tool.shell_line(values).filter(|_| !tool.tool.outlives_call(values)) {
            Some(line) => OwnedKind::Shell(line.to_owned()),
            None if spec.is_built_in_file_tool() => OwnedKind::Files,
            None if spec.category == Category::Mcp => OwnedKind::ServerTool,
            None => OwnedKind::Other,
        };
        Some(Self {
            call,
            tool: spec.name.to_string(),
            definition: tool.definition(snapshot.generation),
            identity: SessionCaller::new(&who.caller, who.by_token),
            trust: who.caller.trust,
            workspace,
            arguments,
            places,
            kind,
            is_storable: tool.is_recognisable(),
        })
    }

    /// The same call, which only a grant of exactly this call covers.
    pub(crate) fn only_exactly(self) -> Self {
        Self { kind: OwnedKind::Other, ..self }
    }

    pub(super) fn facts(&self) -> GrantFacts<'_> {
        let kind = match &self.kind {
            OwnedKind::Files => CallKind::Files,
            OwnedKind::Shell(line) => CallKind::Shell(line),
            OwnedKind::ServerTool => CallKind::ServerTool,
            OwnedKind::Other => CallKind::Other,
        };
        GrantFacts { arguments: self.arguments, places: &self.places, kind }
    }

    pub(super) fn is_supervised(&self) -> bool {
        self.trust == Trust::Supervised
    }

    /// What can be offered for it.
    pub(crate) fn offers(&self, for_session: bool) -> Vec<OfferedGrant> {
        let durations = OfferedDurations { session: for_session, stored: self.is_storable };
        grant_offers(&self.tool, &self.facts(), durations)
    }

    /// The id of a grant that answers the question about it.
    pub(crate) async fn find(
        &self,
        store: &Arc<GrantStore>,
        blocking: BlockingStrategy,
    ) -> Result<Option<String>, GrantStoreError> {
        let (store, call) = (Arc::clone(store), self.clone());
        in_background(blocking, move || store.find(&call)).await
    }

    /// Keeps a grant that a person chose.
    pub(crate) async fn give(
        &self,
        store: &Arc<GrantStore>,
        chosen: OfferedGrant,
        blocking: BlockingStrategy,
    ) -> Result<(), GrantStoreError> {
        let (store, call) = (Arc::clone(store), self.clone());
        in_background(blocking, move || store.give(&call, &chosen)).await
    }
}

fn place(path: &CallPath) -> GrantedPlace {
    let location = path.located.location.clone();
    let is_marked = mark(Path::new(&location)).is_some();
    GrantedPlace { alias: path.located.alias.clone(), location, is_marked }
}

async fn in_background<Output: Send + 'static>(
    blocking: BlockingStrategy,
    work: impl FnOnce() -> Result<Output, GrantStoreError> + Send + 'static,
) -> Result<Output, GrantStoreError> {
    let done: Result<_, Failure> = blocking.run(move || Ok(work())).await;
    done.unwrap_or_else(|failure| {
        debug_assert_eq!(failure.code, ErrorCode::Internal);
        Err(GrantStoreError::NotBelieved(failure.message))
    })
}
