//! An established connection.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::SubscriptionFilter;
use rmcp::service::{
    ClientInitializeError, Peer, RoleClient, RunningService, RunningServiceCancellationToken, Subscription,
    serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use toolgate_gate::LogSeverity;
use toolgate_oauth::TokenSource;
use toolgate_types::Sha256;

use super::active_calls::ActiveCalls;
use super::probe::{ProbeTimeout, ProbeTransport};
use super::quarantine_scan::ScannedProcess;
use super::restricted_client::{ProtocolLifecycle, RestrictedClient};
use super::subscriptions::ResourceUpdates;
use super::surface_listing::list_all;
use super::tool_listing::{ToolListing, escape_untrusted};
use super::{Server, locked};
use crate::definition::Definition;
use crate::error::ConnectError;
use crate::launch::{LaunchedServer, ServerLauncher};
use crate::pins::KnownLifecycle;
use crate::settings::{HttpSettings, ProcessSettings, ServerSettings, TransportSettings};
use crate::wire::{CloseReason, GuardedTransport, PipeTransport, ServerEvents, http_transport};

/// After this many consecutive call timeouts, without any response in between, a server counts as hanging.
const MAX_UNANSWERED_CALLS: u32 = 5;

/// Timeout for subscribing to tool list changes.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a process that closed its pipes has to exit, so that its exit status can be reported. It rarely takes that long, and callers wait for the
/// restart in that time.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a process whose pipes were closed has to clean up and exit. Some never do, and shutting down the gate waits for each of them.
const CLEANUP_TIMEOUT: Duration = Duration::from_millis(250);

/// How often the exit status is polled.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A connection to a server.
pub(crate) struct ServerConnection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) protocol: String,
    pub(crate) process: Option<Arc<ScannedProcess>>,
    pub(crate) close_reason: CloseReason,
    /// Limits the calls in flight.
    pub(crate) calls: Semaphore,
    /// The digests of the tools that it last listed.
    offered: Mutex<HashMap<String, Sha256>>,
    unanswered: AtomicU32,
    /// Number of responses to calls.
    answers: AtomicU64,
    /// Notified when the connection must be replaced.
    pub(super) broken: Notify,
    /// Notified when the server reports a change of its tools.
    pub(super) tools_changed: Arc<Notify>,
    /// Its calls in flight.
    pub(super) active: Arc<ActiveCalls>,
    /// The most detailed level of log messages that was asked for (session protocol).
    pub(super) log_level: tokio::sync::Mutex<Option<LogSeverity>>,
    /// Whether it logs.
    pub(super) can_log: bool,
    pub(super) lifecycle: KnownLifecycle,
    /// Open subscriptions to resources (stateless protocol).
    pub(super) listening: Mutex<HashMap<String, Subscription>>,
}

/// A connection with the tasks and the state that keep it open.
pub(super) struct OpenConnection {
    pub(super) connection: Arc<ServerConnection>,
    pub(super) service: RunningService<RoleClient, RestrictedClient>,
    pub(super) listing: ToolListing,
    pub(super) lifecycle: KnownLifecycle,
    /// Dropping it would end the subscription.
    pub(super) _subscription: Option<Subscription>,
}

impl ServerConnection {
    /// The digest of the definition that the server offers now.
    pub(crate) fn offers(&self, tool: &str) -> Option<Sha256> {
        locked(&self.offered).get(tool).copied()
    }

    pub(super) fn set_offered(&self, tools: &[Definition]) {
        *locked(&self.offered) = tools.iter().map(|tool| (tool.name.clone(), tool.digest())).collect();
    }

    /// Whether there will be no more responses.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed() || self.close_reason.reason().is_some()
    }

    /// A call was answered, successfully or not.
    pub(crate) fn note_answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// The number of responses so far.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// A call timed out that was sent after this many responses. A server that has answered another call since is slow, but does not hang.
    pub(crate) fn note_timed_out(&self, answers_before: u64) {
        if self.answers() == answers_before {
            self.count_unanswered();
        }
    }

    /// A call could not be sent. A process that does not read for a moment is busy; whether it hangs shows once calls time out.
    pub(crate) fn note_send_failed(&self) {
        if self.process.is_none() || self.unanswered.load(Ordering::Relaxed) > 0 {
            self.count_unanswered();
        }
    }

    fn count_unanswered(&self) {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNANSWERED_CALLS {
            self.mark_broken(&format!("it left {MAX_UNANSWERED_CALLS} calls in a row unanswered"));
        }
    }

    /// The connection must be replaced.
    pub(crate) fn mark_broken(&self, reason: &str) {
        self.close_reason.record(reason);
        self.broken.notify_one();
    }

    /// The last bytes of the process's standard error.
    pub(crate) fn stderr_tail(&self) -> String {
        self.process.as_ref().map(|process| process.stderr_tail()).unwrap_or_default()
    }
}

/// Starts a server and lists its tools, within the startup timeout. On failure the process is terminated.
pub(super) async fn open(
    server: &Server,
    era: ProtocolLifecycle,
    silence: &ProbeTimeout,
) -> Result<OpenConnection, ConnectionFailure> {
    let (settings, stop) = (server.settings(), &server.stop);
    let limit = settings.startup_timeout;
    match &settings.transport {
        TransportSettings::Http(http) => {
            let tokens = server.logins.as_ref().map(|logins| Arc::clone(logins.operator()));
            let opened = open_http(server, &settings, http, era, tokens).await;
            opened.map_err(|failure| match server.login_need() {
                Some(need) => {
                    ConnectError::LoginRequired { command: server.login_command(&need, None) }.into()
                }
                None => failure,
            })
        }
        TransportSettings::Stdio(process) => {
            let LaunchedServer { input, output, process } = launch(&server.options.launcher, process).await?;
            let process =
                ScannedProcess::new(process, Arc::clone(&server.reporter), server.options.scan_interval);
            let ending = CloseReason::new(server.options.timeouts.unsolicited_per_second);
            let begun = PendingConnection {
                process: Some(Arc::clone(&process)),
                close_reason: ending.clone(),
                // A server that is known to be stateless gets the whole startup timeout.
                probe: (era == ProtocolLifecycle::Unknown).then(|| silence.clone()),
                updates: server.subscriptions.updates(),
            };
            let greeting = async {
                let pipe = PipeTransport::new(input, output, ending.clone())
                    .map_err(|error| ConnectError::Protocol { reason: error.to_string() })?;
                handshake(pipe, begun, &settings, era).await
            };
            let opened = tokio::select! {
                opened = with_startup_timeout(limit, stop, greeting) => opened,
                never = process.scan_periodically() => match never {},
            };
            match opened {
                Ok(opened) => Ok(opened),
                Err(error) => {
                    let error = match error {
                        ConnectError::Protocol { reason } => {
                            let how = wait_for_exit(&process, &ending).await;
                            ConnectError::Protocol { reason: explained(&reason, how.as_deref()) }
                        }
                        error => error,
                    };
                    Err(ConnectionFailure { error, stderr_end: last_lines(&process.terminate().await) })
                }
            }
        }
    }
}

/// Connects to a server over HTTP with the tokens of one login, and lists its tools.
pub(super) async fn open_http(
    server: &Server,
    settings: &ServerSettings,
    http: &HttpSettings,
    era: ProtocolLifecycle,
    tokens: Option<Arc<TokenSource>>,
) -> Result<OpenConnection, ConnectionFailure> {
    let opening = async {
        let ending = CloseReason::new(server.options.timeouts.unsolicited_per_second);
        let transport = http_transport(http, settings.max_calls, ending.clone(), tokens).await?;
        let updates = server.subscriptions.updates();
        let begun = PendingConnection { process: None, close_reason: ending, probe: None, updates };
        handshake(transport, begun, settings, era).await
    };
    Ok(with_startup_timeout(settings.startup_timeout, &server.stop, opening).await?)
}

/// The state before the handshake.
struct PendingConnection {
    process: Option<Arc<ScannedProcess>>,
    close_reason: CloseReason,
    /// Records that `server/discover` was not answered in time; `None` if it is not sent, or its response is awaited without a timeout.
    probe: Option<ProbeTimeout>,
    /// Receives changes of resources.
    updates: ResourceUpdates,
}

/// Waits for a future until the startup timeout or until the server is stopped.
async fn with_startup_timeout<T>(
    limit: Duration,
    stop: &CancellationToken,
    something: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    tokio::select! {
        done = tokio::time::timeout(limit, something) => {
            done.unwrap_or_else(|_| Err(ConnectError::Startup { seconds: limit.as_secs() }))
        }
        () = stop.cancelled() => Err(ConnectError::Ended { reason: "it was stopped".to_owned() }),
    }
}

async fn launch(
    launcher: &Arc<dyn ServerLauncher>,
    process: &ProcessSettings,
) -> Result<LaunchedServer, ConnectError> {
    let (launcher, process) = (Arc::clone(launcher), process.clone());
    let launched = tokio::task::spawn_blocking(move || launcher.launch(&process)).await;
    let launched = launched
        .map_err(|_| ConnectError::Protocol { reason: "starting it ended unexpectedly".to_owned() })?;
    launched.map_err(|failure| {
        let note = failure.operator_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        ConnectError::Launch { reason: format!("{failure}{note}"), code: failure.code }
    })
}

/// The exit status of a process whose pipes are closed, if it exits by itself: the pipes are closed before it is gone.
async fn wait_for_exit(process: &ScannedProcess, ending: &CloseReason) -> Option<String> {
    let patience = if ending.is_closed_by_peer() { EXIT_TIMEOUT } else { CLEANUP_TIMEOUT };
    // Polls are counted instead of measuring time: on a slow machine the process is slow too.
    for _ in 0..patience.as_millis() / EXIT_POLL_INTERVAL.as_millis() {
        if let Some(how) = process.exit_status() {
            return Some(how);
        }
        tokio::time::sleep(EXIT_POLL_INTERVAL).await;
    }
    None
}

async fn handshake<T: Transport<RoleClient> + 'static>(
    transport: T,
    begun: PendingConnection,
    settings: &ServerSettings,
    era: ProtocolLifecycle,
) -> Result<OpenConnection, ConnectError> {
    let PendingConnection { process, close_reason: ending, probe: silence, updates } = begun;
    let tools_changed = Arc::new(Notify::new());
    let active = Arc::<ActiveCalls>::default();
    let events = ServerEvents {
        server: settings.name.to_string(),
        tools_changed: Arc::clone(&tools_changed),
        active: Arc::clone(&active),
        updates,
    };
    let guarded = GuardedTransport::new(transport, events, ending.clone());
    let client = RestrictedClient {
        server: settings.name.to_string(),
        may_elicit: settings.elicitation,
        calls: Arc::clone(&active),
    };
    let service = serve_client_with_lifecycle(client, ProbeTransport::new(guarded, silence), era.lifecycle())
        .await
        .map_err(|error| ConnectError::Protocol { reason: handshake_error(&error, &ending) })?;
    let listing = list_all(settings, service.peer()).await.map_err(|error| match ending.reason() {
        Some(reason) => ConnectError::Protocol { reason },
        None => error,
    })?;
    let version = service.peer().peer_info().map(|info| info.protocol_version.clone()).unwrap_or_default();
    let lifecycle = ProtocolLifecycle::established(&version);
    let subscription =
        if lifecycle == KnownLifecycle::Stateless { subscribe(service.peer()).await } else { None };
    let connection = ServerConnection {
        peer: service.peer().clone(),
        protocol: version.to_string(),
        process,
        close_reason: ending,
        calls: Semaphore::new(settings.max_calls.clamp(1, Semaphore::MAX_PERMITS)),
        offered: Mutex::default(),
        unanswered: AtomicU32::new(0),
        answers: AtomicU64::new(0),
        broken: Notify::new(),
        tools_changed,
        active,
        log_level: tokio::sync::Mutex::default(),
        can_log: service.peer().peer_info().is_some_and(|info| info.capabilities.logging.is_some()),
        lifecycle,
        listening: Mutex::default(),
    };
    connection.set_offered(&listing.tools);
    Ok(OpenConnection {
        connection: Arc::new(connection),
        service,
        listing,
        lifecycle,
        _subscription: subscription,
    })
}

/// If the server does not support subscriptions, its tools are listed again only after a restart.
async fn subscribe(peer: &Peer<RoleClient>) -> Option<Subscription> {
    let mut filter = SubscriptionFilter::builder().tools_list_changed().build();
    let offers = peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
    filter.prompts_list_changed = offers.prompts.is_some().then_some(true);
    filter.resources_list_changed = offers.resources.is_some().then_some(true);
    let changes = peer.listen(filter);
    tokio::time::timeout(SUBSCRIBE_TIMEOUT, changes).await.ok()?.ok()
}

fn handshake_error(error: &ClientInitializeError, ending: &CloseReason) -> String {
    if let Some(reason) = ending.reason() {
        return reason;
    }
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused: {}", escape_untrusted(&error.message))
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no revision of the protocol that the gate does".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => escape_untrusted(&root_cause(error)),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_error(fallback, ending),
        _ => "it did not answer as a server does".to_owned(),
    }
}

/// The innermost cause.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Why the connection ended.
pub(super) struct ConnectionFailure {
    pub(super) error: ConnectError,
    /// The last lines of the process's standard error. They may contain anything, call arguments included: they are shown to the operator, and not stored.
    pub(super) stderr_end: Option<String>,
}

impl From<ConnectError> for ConnectionFailure {
    fn from(error: ConnectError) -> Self {
        Self { error, stderr_end: None }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.error)?;
        let last = self.stderr_end.as_ref().and_then(|said| said.lines().last());
        last.map_or(Ok(()), |said| write!(formatter, "; it last said: {said}"))
    }
}

/// The reason, and the exit status of the process.
pub(super) fn explained(reason: &str, how: Option<&str>) -> String {
    let reason = escape_untrusted(reason);
    how.map_or(reason.clone(), |how| format!("{reason} ({})", escape_untrusted(how)))
}

/// How many lines of standard error explain a failure: the trace of an exception has its reason last.
const MAX_STDERR_LINES: usize = 12;

/// The last non-empty lines of a text, each escaped.
fn last_lines(said: &str) -> Option<String> {
    let lines = said.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let lines: Vec<String> = lines.map(escape_untrusted).collect();
    let end = lines.get(lines.len().saturating_sub(MAX_STDERR_LINES)..).unwrap_or_default();
    (!end.is_empty()).then(|| end.join("\n"))
}

/// The exit status of a process that exited by itself, and its last lines.
#[derive(Default)]
pub(super) struct ProcessExit {
    pub(super) exit_status: Option<String>,
    pub(super) stderr_end: Option<String>,
}

/// Closes a connection and terminates its process.
pub(super) async fn close(
    connection: &ServerConnection,
    token: RunningServiceCancellationToken,
    closed: impl Future,
) -> ProcessExit {
    token.cancel();
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
    let Some(process) = &connection.process else { return ProcessExit::default() };
    // A server whose input is closed cleans up and exits; a signal would interrupt that.
    let how = wait_for_exit(process, &connection.close_reason).await;
    ProcessExit { exit_status: how, stderr_end: last_lines(&Arc::clone(process).terminate().await) }
}
