//! What a server that needs a login is answered with, and the connections of callers that have one of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use toolgate_gate::CallContext;
use toolgate_oauth::{LoginNeed, TokenFailure, TokenSource};
use toolgate_types::{ErrorCode, Failure};

use super::connection::{ConnectionFailure, OpenConnection, close, open_http};
use super::probe::ProbeTimeout;
use super::restricted_client::ProtocolLifecycle;
use super::supervisor::wait_once;
use super::surface_listing::list_all;
use super::{Server, ServerConnection, locked};
use crate::error::ConnectError;
use crate::settings::{HttpSettings, LoginSettings, ServerSettings, TransportSettings};

/// A caller's connection without calls is closed after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// How often it is checked.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum number of callers with a connection to one server.
const MAX_CALLERS: usize = 256;

/// How often the file of a login is checked for changes.
const LOGIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The logins at one server.
pub(super) struct ServerLogins {
    settings: LoginSettings,
    /// The operator's, with which the tools are listed.
    operator: Arc<TokenSource>,
    callers: Mutex<HashMap<String, Arc<CallerSlot>>>,
}

/// The connection of one caller.
struct CallerSlot {
    tokens: Arc<TokenSource>,
    /// Locked while it is opened, so that it is opened once.
    connection: tokio::sync::Mutex<Option<Arc<ServerConnection>>>,
    used: Mutex<Instant>,
}

impl ServerLogins {
    pub(super) fn of(settings: &ServerSettings, store: &Arc<toolgate_oauth::TokenStore>) -> Option<Self> {
        let TransportSettings::Http(HttpSettings { login: Some(login), .. }) = &settings.transport else {
            return None;
        };
        let operator = Arc::new(TokenSource::new(Arc::clone(store), login.binding.clone()));
        Some(Self { settings: login.clone(), operator, callers: Mutex::default() })
    }

    pub(super) fn operator(&self) -> &Arc<TokenSource> {
        &self.operator
    }

    /// Waits until the operator's login is another one.
    pub(super) async fn changed(&self, before: Option<[i64; 4]>) {
        while self.operator.stamp() == before {
            tokio::time::sleep(LOGIN_POLL_INTERVAL).await;
        }
    }

    /// The place of a caller; `None` if there are too many.
    fn slot(&self, caller: &str, store: &Arc<toolgate_oauth::TokenStore>) -> Option<Arc<CallerSlot>> {
        let mut callers = locked(&self.callers);
        if let Some(slot) = callers.get(caller) {
            *locked(&slot.used) = Instant::now();
            return Some(Arc::clone(slot));
        }
        if callers.len() >= MAX_CALLERS {
            callers.retain(|_, slot| locked(&slot.used).elapsed() < IDLE_TIMEOUT);
        }
        if callers.len() >= MAX_CALLERS {
            return None;
        }
        let binding = self.settings.binding.of_caller(caller);
        let slot = Arc::new(CallerSlot {
            tokens: Arc::new(TokenSource::new(Arc::clone(store), binding)),
            connection: tokio::sync::Mutex::default(),
            used: Mutex::new(Instant::now()),
        });
        callers.insert(caller.to_owned(), Arc::clone(&slot));
        Some(slot)
    }
}

impl Server {
    /// The caller whose own login a call needs; `None` if it is made with the operator's. Only a token proves who a caller is.
    pub(super) fn caller_with_own_login<'c>(&self, context: &'c CallContext) -> Option<&'c str> {
        let is_needed = self.logins.as_ref().is_some_and(|logins| logins.settings.per_caller);
        (is_needed && context.by_token).then_some(context.caller.subject.as_str())
    }

    /// The connection of a caller, made with its login. No other caller's, and not the operator's, is ever used in its place.
    pub(super) async fn caller_connection(
        self: &Arc<Self>,
        caller: &str,
    ) -> Result<Arc<ServerConnection>, Failure> {
        let Some(logins) = &self.logins else {
            return Err(self.login_failure(&LoginNeed::NoLogin, Some(caller)));
        };
        let slot = logins.slot(caller, &self.options.tokens).ok_or_else(|| {
            let message = format!("the server `{}` has too many callers", self.name);
            Failure::new(ErrorCode::ServerUnavailable, message).help("try again later")
        })?;
        let mut connection = slot.connection.lock().await;
        match slot.tokens.token().await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(self.login_failure(&LoginNeed::NoLogin, Some(caller))),
            Err(TokenFailure::Login(need)) => return Err(self.login_failure(&need, Some(caller))),
            Err(error) => return Err(self.unavailable(&error.to_string(), None, None)),
        }
        if let Some(open) = connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok(Arc::clone(open));
        }
        let opened = self.open_for(&slot.tokens).await.map_err(|failure| match slot.tokens.need() {
            Some(need) => self.login_failure(&need, Some(caller)),
            None => {
                let public = failure.error.public_reason();
                self.unavailable(&failure.error.to_string(), Some(&public), None)
            }
        })?;
        let open = Arc::clone(&opened.connection);
        *connection = Some(Arc::clone(&open));
        let keeper = Arc::clone(self).keep_open(opened, Arc::clone(&slot));
        drop(self.options.runtime.spawn(keeper));
        Ok(open)
    }

    async fn open_for(&self, tokens: &Arc<TokenSource>) -> Result<OpenConnection, ConnectionFailure> {
        let settings = self.settings();
        let TransportSettings::Http(http) = &settings.transport else {
            let reason = "it is not a remote server".to_owned();
            return Err(ConnectError::Http { reason }.into());
        };
        let lifecycle = self.remembered;
        let opened = open_http(self, &settings, http, lifecycle, Some(Arc::clone(tokens))).await;
        match opened {
            Err(ConnectionFailure { error: ConnectError::Protocol { .. }, .. })
                if tokens.need().is_none() =>
            {
                let silence = ProbeTimeout::new(self.options.timeouts.probe_timeout);
                let other: ProtocolLifecycle = lifecycle.fallback(silence.has_elapsed());
                open_http(self, &settings, http, other, Some(Arc::clone(tokens))).await
            }
            opened => opened,
        }
    }

    /// Keeps a caller's connection until it is idle, broken, or the server is stopped. Its tools are listed again when they change: what was agreed to is
    /// compared with what this caller is offered.
    async fn keep_open(self: Arc<Self>, opened: OpenConnection, slot: Arc<CallerSlot>) {
        let OpenConnection { connection, service, _subscription, .. } = opened;
        let token = service.cancellation_token();
        let mut closed = Some(Box::pin(service.waiting()));
        let mut idle = tokio::time::interval(IDLE_CHECK_INTERVAL);
        loop {
            tokio::select! {
                () = wait_once(&mut closed) => break,
                () = self.stop.cancelled() => break,
                () = connection.broken.notified() => break,
                () = connection.tools_changed.notified() => {
                    match list_all(&self.settings(), &connection.peer).await {
                        Ok(listing) => connection.set_offered(&listing.tools),
                        Err(_) => break,
                    }
                }
                _ = idle.tick() => {
                    let is_idle = connection.calls.available_permits() >= self.settings().max_calls
                        && locked(&slot.used).elapsed() > IDLE_TIMEOUT;
                    if is_idle {
                        break;
                    }
                }
            }
        }
        connection.close_reason.record("the connection was closed");
        close(&connection, token, wait_once(&mut closed)).await;
    }

    /// Why the operator's login cannot be used, if that is so.
    pub(super) fn login_need(&self) -> Option<LoginNeed> {
        self.logins.as_ref().and_then(|logins| logins.operator.need())
    }

    /// The command that logs in.
    pub(super) fn login_command(&self, need: &LoginNeed, caller: Option<&str>) -> String {
        let mut command = format!("toolgate mcp login {}", self.name);
        if let Some(caller) = caller {
            command.push_str(&format!(" --caller {}", shell_word(caller)));
        }
        if let LoginNeed::Scopes(scopes) = need {
            scopes.iter().for_each(|scope| command.push_str(&format!(" --scope {}", shell_word(scope))));
        }
        command
    }

    /// What a call is answered with that needs a login.
    pub(super) fn login_failure(&self, need: &LoginNeed, caller: Option<&str>) -> Failure {
        let (name, command) = (&self.name, self.login_command(need, caller));
        let message = match need {
            LoginNeed::NoLogin => format!("the server `{name}` needs a login"),
            LoginNeed::Withdrawn => format!("the login at the server `{name}` has expired or was withdrawn"),
            LoginNeed::NotOurs => format!("the login at the server `{name}` is for another address of it"),
            LoginNeed::Scopes(_) => {
                format!("the login at the server `{name}` has too few scopes for this call")
            }
        };
        Failure::new(ErrorCode::ServerUnavailable, message)
            .help(format!("the operator runs `{command}`; go on without this tool until then"))
            .detail("server", name.as_str())
            .detail("login", command)
    }
}

/// A word of a command line: quoted where it is more than plain characters.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@+,=%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_are_quoted() {
        for (word, quoted) in [
            ("alice", "alice"),
            ("alice@example.com", "alice@example.com"),
            ("a b", "'a b'"),
            ("$(id)", "'$(id)'"),
            ("it's", "'it'\\''s'"),
            ("-x", "'-x'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }
}
