//! What every door serves: one gate, and what is kept between its calls.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_tools::ProfiledGate;

use crate::mcp::{
    OutputStore, ParkedCalls, PerCallerConcurrency, ResourceSource, ResponseMemoryBudget, StateSealer,
    ToolLists,
};
use crate::metrics::Metrics;
use crate::state_usage::{MeasureState, StateGauges};

/// What a service is made of.
pub struct ServiceOptions {
    /// The gate, in the words of its profile.
    pub front: Arc<ProfiledGate>,
    /// The aliases of the mounts whose files are offered as resources, in their order.
    pub aliases: Vec<String>,
    /// Where outputs go that are too long for an answer.
    pub outputs: OutputStore,
    /// What clients are told about the tools as a whole, in place of the usual words.
    pub instructions: Option<String>,
    /// Resources beside the files of the workspace.
    pub resources: Vec<Arc<dyn ResourceSource>>,
    /// Becomes true once all tools are there; nothing, where they are from the beginning. Whoever asks for tools, or for one that is not there, waits for it.
    pub complete: Option<watch::Receiver<bool>>,
    /// How much there is in the state directory, where somebody wants to know.
    pub state: Option<MeasureState>,
}

impl ServiceOptions {
    /// The usual: no files are offered as resources.
    #[must_use]
    pub fn new(front: Arc<ProfiledGate>, outputs: OutputStore) -> Self {
        Self {
            front,
            aliases: Vec::new(),
            outputs,
            instructions: None,
            resources: Vec::new(),
            complete: None,
            state: None,
        }
    }
}

/// What every door of the gate serves.
pub struct Service {
    front: Arc<ProfiledGate>,
    pub(crate) aliases: Vec<String>,
    pub(crate) outputs: OutputStore,
    pub(crate) instructions: Option<String>,
    pub(crate) resources: Vec<Arc<dyn ResourceSource>>,
    complete: Option<watch::Receiver<bool>>,
    pub(crate) lists: ToolLists,
    /// Calls whose clients have to come again with an answer.
    pub(crate) parked: ParkedCalls,
    pub(crate) sealer: StateSealer,
    /// How much each caller may have under way.
    pub(crate) concurrency: PerCallerConcurrency,
    /// Long answers that are on their way.
    pub(crate) response_memory: ResponseMemoryBudget,
    /// Every call that is under way, whichever door it came through.
    pub(crate) calls: TaskTracker,
    pub(crate) metrics: Metrics,
    pub(crate) state: StateGauges,
    ending: CancellationToken,
}

impl Service {
    /// A service.
    #[must_use]
    pub fn new(options: ServiceOptions) -> Arc<Self> {
        let ServiceOptions { front, aliases, outputs, instructions, resources, complete, state } = options;
        Arc::new(Self {
            front,
            aliases,
            outputs,
            instructions,
            resources,
            complete,
            lists: ToolLists::default(),
            parked: ParkedCalls::default(),
            sealer: StateSealer::new(),
            concurrency: PerCallerConcurrency::default(),
            response_memory: ResponseMemoryBudget::default(),
            calls: TaskTracker::new(),
            metrics: Metrics::default(),
            state: StateGauges::new(state),
            ending: CancellationToken::new(),
        })
    }

    /// The gate that is served, in the words of its profile.
    #[must_use]
    pub fn front(&self) -> &Arc<ProfiledGate> {
        &self.front
    }

    /// Ends every call that is under way. They are still answered and recorded.
    pub fn end(&self) {
        self.ending.cancel();
        self.parked.end();
    }

    /// Waits until all tools are there. Whoever was to say so and is gone has said it.
    pub(crate) async fn wait_for_tools(&self) {
        if let Some(mut complete) = self.complete.clone() {
            tokio::select! {
                _ = complete.wait_for(|complete| *complete) => {}
                () = self.ending.cancelled() => {}
            }
        }
    }

    /// Resolves once the service was told to end.
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Waits until no call is under way. Calls that wait for an answer are ended: their clients are gone. Calls that begin afterwards are not waited for.
    pub async fn wait_until_idle(&self) {
        self.parked.end();
        self.calls.close();
        self.calls.wait().await;
        self.calls.reopen();
    }
}
