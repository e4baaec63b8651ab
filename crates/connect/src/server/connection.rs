//! A connection that stands.

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
use toolgate_types::Sha256;

use super::client::{Client, Era};
use super::listing::{Listing, list, shown};
use super::probe::{Probed, Silence};
use super::strays::Watched;
use super::{Server, locked};
use crate::definition::Definition;
use crate::error::ConnectError;
use crate::launch::{Launch, Launched};
use crate::settings::{ServerProcess, ServerSettings, TransportSettings};
use crate::wire::{Ending, Guarded, Pipe, http_transport};

/// How many calls in a row may run out of time, with nothing answered meanwhile, before a server counts as hanging.
const MOST_UNANSWERED: u32 = 5;

/// How long a server has to agree to tell when its tools change.
const SUBSCRIBING: Duration = Duration::from_secs(5);

/// How long a connection has to close by itself.
const CLOSING: Duration = Duration::from_secs(3);

/// How long a process that closed its pipes has to be gone, so that it can be told how it ended. It hardly ever needs that: it is about to go, and whoever
/// waits for it waits for a server that is not there.
const LEAVING: Duration = Duration::from_secs(2);

/// How long a process whose pipes were closed has to put its things in order and go. Some never do, and whoever ends the gate waits for each of them.
const TIDYING: Duration = Duration::from_millis(250);

/// How often it is asked whether a process is gone.
const GLANCE: Duration = Duration::from_millis(5);

/// A server that answers.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) protocol: String,
    pub(crate) process: Option<Arc<Watched>>,
    pub(crate) ending: Ending,
    /// Calls under way.
    pub(crate) calls: Semaphore,
    /// What it offers, as it said last.
    offered: Mutex<HashMap<String, Sha256>>,
    unanswered: AtomicU32,
    /// How many calls were answered.
    answers: AtomicU64,
    /// Told when it should be made anew.
    pub(super) broken: Notify,
    /// Told when the server says that its tools are others.
    pub(super) tools_changed: Arc<Notify>,
}

/// A connection with what keeps it.
pub(super) struct Opened {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Client>,
    pub(super) listing: Listing,
    pub(super) era: Era,
    /// Held because dropping it would end it.
    pub(super) _subscription: Option<Subscription>,
}

impl Connection {
    /// The definition of a tool that the server stands by now.
    pub(crate) fn offers(&self, tool: &str) -> Option<Sha256> {
        locked(&self.offered).get(tool).copied()
    }

    pub(super) fn set_offered(&self, tools: &[Definition]) {
        *locked(&self.offered) = tools.iter().map(|tool| (tool.name.clone(), tool.digest())).collect();
    }

    /// Whether nothing more will be answered.
    pub(crate) fn is_over(&self) -> bool {
        self.peer.is_transport_closed() || self.ending.reason().is_some()
    }

    /// A call was answered, whatever the answer.
    pub(crate) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// How many calls were answered so far.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// The time of a call ran out that was sent after so many answers. A server that answered somebody since is slow, and does not hang.
    pub(crate) fn ran_out_of_time(&self, answers_before: u64) {
        if self.answers() == answers_before {
            self.count_unanswered();
        }
    }

    /// A call could not be sent. A process that does not read for a moment is busy; whether it hangs is known once calls run out of time.
    pub(crate) fn could_not_send(&self) {
        if self.process.is_none() || self.unanswered.load(Ordering::Relaxed) > 0 {
            self.count_unanswered();
        }
    }

    fn count_unanswered(&self) {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_UNANSWERED {
            self.give_up_on_it(&format!("it left {MOST_UNANSWERED} calls in a row unanswered"));
        }
    }

    /// The connection is of no use any longer.
    pub(crate) fn give_up_on_it(&self, reason: &str) {
        self.ending.because(reason);
        self.broken.notify_one();
    }

    /// The end of what the process wrote to standard error.
    pub(crate) fn errors(&self) -> String {
        self.process.as_ref().map(|process| process.errors()).unwrap_or_default()
    }
}

/// Starts a server and asks it for its tools, within its time. What was started and is of no use is ended.
pub(super) async fn open(server: &Server, era: Era, silence: &Silence) -> Result<Opened, Over> {
    let (settings, stop) = (server.settings(), &server.stop);
    let limit = settings.startup_timeout;
    match &settings.transport {
        TransportSettings::Http(http) => {
            let opening = async {
                let ending = Ending::new(server.options.patience.forgotten);
                let transport = http_transport(http, settings.most_calls, ending.clone()).await?;
                let begun = Begun { process: None, ending, silence: None };
                greet(transport, begun, &settings, era).await
            };
            Ok(within(limit, stop, opening).await?)
        }
        TransportSettings::Stdio(process) => {
            let Launched { input, output, process } = launch(&server.options.launcher, process).await?;
            let process = Watched::new(process, Arc::clone(&server.voice), server.options.between_looks);
            let ending = Ending::new(server.options.patience.forgotten);
            let begun = Begun {
                process: Some(Arc::clone(&process)),
                ending: ending.clone(),
                // Who is known to be of the newer era is given its time.
                silence: (era == Era::Unknown).then(|| silence.clone()),
            };
            let greeting = async {
                let pipe = Pipe::new(input, output, ending.clone())
                    .map_err(|error| ConnectError::Protocol { reason: error.to_string() })?;
                greet(pipe, begun, &settings, era).await
            };
            let opened = tokio::select! {
                opened = within(limit, stop, greeting) => opened,
                never = process.keep_looking() => match never {},
            };
            match opened {
                Ok(opened) => Ok(opened),
                Err(ConnectError::Protocol { reason }) => {
                    let how = by_itself(&process, &ending).await;
                    let error = ConnectError::Protocol { reason: explained(&reason, how.as_deref()) };
                    Err(Over { error, said: last_words(&process.end().await) })
                }
                Err(error) => {
                    process.end().await;
                    Err(error.into())
                }
            }
        }
    }
}

/// What is there before a server was greeted.
struct Begun {
    process: Option<Arc<Watched>>,
    ending: Ending,
    /// Where it is noted that it did not say which era it is of; `None` where that is not asked, or an answer is certain.
    silence: Option<Silence>,
}

/// Waits for something for so long, or until it is no longer wanted.
async fn within<T>(
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

async fn launch(launcher: &Arc<dyn Launch>, process: &ServerProcess) -> Result<Launched, ConnectError> {
    let (launcher, process) = (Arc::clone(launcher), process.clone());
    let launched = tokio::task::spawn_blocking(move || launcher.launch(&process)).await;
    let launched = launched
        .map_err(|_| ConnectError::Protocol { reason: "starting it ended unexpectedly".to_owned() })?;
    launched.map_err(|failure| {
        let note = failure.operator_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        ConnectError::Launch { reason: format!("{failure}{note}"), code: failure.code }
    })
}

/// How a process ended whose pipes are closed, where it does so by itself: they are closed before it is gone.
async fn by_itself(process: &Watched, ending: &Ending) -> Option<String> {
    let patience = if ending.was_left() { LEAVING } else { TIDYING };
    // Counted rather than timed: where everything is slow, so is the process.
    for _ in 0..patience.as_millis() / GLANCE.as_millis() {
        if let Some(how) = process.ended() {
            return Some(how);
        }
        tokio::time::sleep(GLANCE).await;
    }
    None
}

async fn greet<T: Transport<RoleClient> + 'static>(
    transport: T,
    begun: Begun,
    settings: &ServerSettings,
    era: Era,
) -> Result<Opened, ConnectError> {
    let Begun { process, ending, silence } = begun;
    let tools_changed = Arc::new(Notify::new());
    let guarded = Guarded::new(transport, Arc::clone(&tools_changed), ending.clone());
    let service = serve_client_with_lifecycle(Client, Probed::new(guarded, silence), era.lifecycle())
        .await
        .map_err(|error| ConnectError::Protocol { reason: greeting_failed(&error, &ending) })?;
    let listing = list(service.peer()).await.map_err(|error| match ending.reason() {
        Some(reason) => ConnectError::Protocol { reason },
        None => error,
    })?;
    let version = service.peer().peer_info().map(|info| info.protocol_version.clone()).unwrap_or_default();
    let era = if version.has_initialize() { Era::Older } else { Era::Newer };
    let subscription = if era == Era::Newer { subscribe(service.peer()).await } else { None };
    let connection = Connection {
        peer: service.peer().clone(),
        protocol: version.to_string(),
        process,
        ending,
        calls: Semaphore::new(settings.most_calls.clamp(1, Semaphore::MAX_PERMITS)),
        offered: Mutex::default(),
        unanswered: AtomicU32::new(0),
        answers: AtomicU64::new(0),
        broken: Notify::new(),
        tools_changed,
    };
    connection.set_offered(&listing.tools);
    Ok(Opened { connection: Arc::new(connection), service, listing, era, _subscription: subscription })
}

/// A server that cannot tell when its tools change is asked again when it is started again.
async fn subscribe(peer: &Peer<RoleClient>) -> Option<Subscription> {
    let changes = peer.listen(SubscriptionFilter::builder().tools_list_changed().build());
    tokio::time::timeout(SUBSCRIBING, changes).await.ok()?.ok()
}

fn greeting_failed(error: &ClientInitializeError, ending: &Ending) -> String {
    if let Some(reason) = ending.reason() {
        return reason;
    }
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("it refused: {}", shown(&error.message)),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no revision of the protocol that the gate does".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => shown(&innermost(error)),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => greeting_failed(fallback, ending),
        _ => "it did not answer as a server does".to_owned(),
    }
}

/// The innermost reason.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Why there is no connection any longer.
pub(super) struct Over {
    pub(super) error: ConnectError,
    /// The last line that the process wrote to standard error. It may be about anything, the calls that it was made included: it is shown to the operator,
    /// and kept nowhere.
    pub(super) said: Option<String>,
}

impl From<ConnectError> for Over {
    fn from(error: ConnectError) -> Self {
        Self { error, said: None }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.error)?;
        self.said.as_ref().map_or(Ok(()), |said| write!(formatter, "; it last said: {said}"))
    }
}

/// What went wrong, and how the process ended.
pub(super) fn explained(reason: &str, how: Option<&str>) -> String {
    let reason = shown(reason);
    how.map_or(reason.clone(), |how| format!("{reason} ({})", shown(how)))
}

/// The last line among what a process wrote.
fn last_words(said: &str) -> Option<String> {
    said.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(shown)
}

/// How a process ended, where it did so by itself, and what it last said.
#[derive(Default)]
pub(super) struct Last {
    pub(super) how: Option<String>,
    pub(super) said: Option<String>,
}

/// Closes a connection and ends what it led to.
pub(super) async fn close(
    connection: &Connection,
    token: RunningServiceCancellationToken,
    closed: impl Future,
) -> Last {
    token.cancel();
    let _ = tokio::time::timeout(CLOSING, closed).await;
    let Some(process) = &connection.process else { return Last::default() };
    // A server that finds its input closed puts its things in order and goes; a signal would come in between.
    let how = by_itself(process, &connection.ending).await;
    Last { how, said: last_words(&Arc::clone(process).end().await) }
}
