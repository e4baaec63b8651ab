//! The state that all front ends share: one gate, and what is kept between its calls.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_gate::{CallObserver, CallOptions, Credential};
use toolgate_tools::{CallResponse, ProfiledGate};
use toolgate_types::ToolCall;

use crate::admission::{CallerLimit, ResponseBytesLimit};
use crate::mcp::{OutputStore, ParkedCalls, ResourceSource, StateSealer, ToolLists, UpstreamResources};
use crate::metrics::Metrics;
use crate::state_usage::{MeasureState, StateGauges};
use crate::traffic::TrafficSnapshot;

/// The parts of a [`Service`].
pub struct ServiceOptions {
    /// The gate behind its profile, which determines tool names and descriptions.
    pub front: Arc<ProfiledGate>,
    /// The aliases of the mounts whose files are offered as resources, in order.
    pub aliases: Vec<String>,
    /// Stores outputs that are too long for a response.
    pub outputs: OutputStore,
    /// Instructions that clients get at initialisation; `None` uses the default text.
    pub instructions: Option<String>,
    /// Resources in addition to the workspace files.
    pub resources: Vec<Arc<dyn ResourceSource>>,
    /// The servers behind the gate, whose prompts and resources are offered beside their tools.
    pub upstream: Option<Arc<dyn UpstreamResources>>,
    /// The prefixes of the tools of servers that are not loaded yet; `None` if there can be none. A call of a tool with one of them waits for that
    /// server; a list of tools waits for none.
    pub pending: Option<watch::Receiver<Vec<String>>>,
    /// Measures the usage of the state directory, if that is to appear in the metrics.
    pub state: Option<MeasureState>,
}

impl ServiceOptions {
    /// The defaults: no files are offered as resources.
    #[must_use]
    pub fn new(front: Arc<ProfiledGate>, outputs: OutputStore) -> Self {
        Self {
            front,
            aliases: Vec::new(),
            outputs,
            instructions: None,
            resources: Vec::new(),
            upstream: None,
            pending: None,
            state: None,
        }
    }
}

/// The counters of a [`Service`]. Their labels are from fixed sets; nothing that a caller chooses is among them.
#[derive(Clone, Debug)]
pub struct ServiceCounters {
    /// Calls that ended, by class and decision.
    pub calls: Vec<(&'static str, &'static str, u64)>,
    /// Calls that were refused or failed, by stage and code.
    pub refusals: Vec<(&'static str, &'static str, u64)>,
    /// Calls under way.
    pub in_flight: usize,
    /// Whether the last call could be recorded.
    pub can_record: bool,
}

/// The state that all front ends share.
pub struct Service {
    front: Arc<ProfiledGate>,
    pub(crate) aliases: Vec<String>,
    pub(crate) outputs: OutputStore,
    pub(crate) instructions: Option<String>,
    pub(crate) resources: Vec<Arc<dyn ResourceSource>>,
    pub(crate) upstream: Option<Arc<dyn UpstreamResources>>,
    pending: Option<watch::Receiver<Vec<String>>>,
    pub(crate) lists: ToolLists,
    /// Calls that wait for a client to repeat its request with an answer to an elicitation.
    pub(crate) parked: ParkedCalls,
    pub(crate) sealer: StateSealer,
    /// Limits how many calls each caller may have in flight.
    pub(crate) caller_limit: CallerLimit,
    /// Limits the memory of long responses that are not sent yet.
    pub(crate) response_bytes: ResponseBytesLimit,
    /// All calls in flight, from every front end.
    pub(crate) calls: TaskTracker,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) state: StateGauges,
    ending: CancellationToken,
}

impl Service {
    /// Builds the service.
    #[must_use]
    pub fn new(options: ServiceOptions) -> Arc<Self> {
        let ServiceOptions { front, aliases, outputs, instructions, resources, upstream, pending, state } =
            options;
        let metrics = Arc::new(Metrics::default());
        // Calls of conversations do not pass through here, so the gate itself says how each call ended.
        front.gate().observe_calls(Arc::clone(&metrics) as Arc<dyn CallObserver>);
        Arc::new(Self {
            front,
            aliases,
            outputs,
            instructions,
            resources,
            upstream,
            pending,
            lists: ToolLists::default(),
            parked: ParkedCalls::default(),
            sealer: StateSealer::new(),
            caller_limit: CallerLimit::default(),
            response_bytes: ResponseBytesLimit::default(),
            calls: TaskTracker::new(),
            metrics,
            state: StateGauges::new(state),
            ending: CancellationToken::new(),
        })
    }

    /// The gate behind its profile.
    #[must_use]
    pub fn front(&self) -> &Arc<ProfiledGate> {
        &self.front
    }

    /// Makes a call that is not of an MCP client, within the same limits and counters; `None` if too many calls of this caller are under way. Dropping
    /// the future cancels the call.
    pub async fn call(
        &self,
        call: ToolCall,
        credential: Credential,
        caller_key: [u8; 32],
        mut options: CallOptions,
    ) -> Option<CallResponse> {
        let _under_way = self.calls.token();
        let _permit = self.caller_limit.acquire(caller_key, std::future::pending()).await.ok()?;
        self.wait_for_tool(&call.tool).await;
        let cancelled = self.ending.child_token();
        options.cancelled = cancelled.clone();
        let _cancels = cancelled.drop_guard();
        let called = self.front.call(call, credential, options).await;
        self.metrics.answered(&called);
        Some(called)
    }

    /// The counters since the start.
    #[must_use]
    pub fn counters(&self) -> ServiceCounters {
        ServiceCounters {
            calls: self.metrics.calls(),
            refusals: self.metrics.failures(),
            in_flight: self.calls.len(),
            can_record: self.metrics.can_record(),
        }
    }

    /// The calls of the last minute and since the start, by caller, tool and reason. For operators alone: it names callers and tools.
    #[must_use]
    pub fn traffic(&self) -> TrafficSnapshot {
        self.metrics.traffic.snapshot()
    }

    /// Cancels all calls in flight. They still get a response and an audit record.
    pub fn end(&self) {
        self.ending.cancel();
        self.parked.end();
    }

    /// Waits until the tools of the server that this tool would be one of are loaded, or the service ends. A dropped sender counts as loaded.
    pub(crate) async fn wait_for_tool(&self, tool: &str) {
        let is_of = |prefix: &String| tool.starts_with(prefix.as_str());
        if let Some(mut pending) = self.pending.clone() {
            tokio::select! {
                _ = pending.wait_for(|pending| !pending.iter().any(is_of)) => {}
                () = self.ending.cancelled() => {}
            }
        }
    }

    /// Cancelled by [`Service::end`].
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Waits until no call is in flight. Parked calls are cancelled, because their clients are gone. Calls that start afterwards are not awaited.
    pub async fn wait_until_idle(&self) {
        self.parked.end();
        self.calls.close();
        self.calls.wait().await;
        self.calls.reopen();
    }
}
