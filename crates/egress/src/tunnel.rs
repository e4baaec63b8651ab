//! A tunnel, forwarded without inspection except for its first message.
//!
//! What it checks: the server name (SNI) of the TLS ClientHello, on every port, against the allowlist. A ClientHello that encrypts its name (ECH) is
//! refused, because many names may share the dialled server; programs that only pretend to encrypt one (GREASE), such as Chromium, have a switch for
//! that (`--disable-features=EncryptedClientHello`). On port 443, a ClientHello for a named host without a server name is refused too: every web
//! client sends it. On other ports it is forwarded.
//!
//! A tunnel that begins with a plain HTTP request becomes one forwarded request, as if it had been sent to the proxy: its `Host` must be allowed, it
//! is rewritten, and nothing after it is forwarded. A request line that arrives in pieces is refused once it is recognised.
//!
//! What it does not see: a `Host` header inside TLS that names another site on the same server (domain fronting).

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout_at};

use crate::allowlist::NetworkAllowlist;
use crate::client::ClientConnection;
use crate::error_response;
use crate::forward::RequestForwarder;
use crate::host::Host;
use crate::ledger::{Ledger, TransferDirection};
use crate::limits::ProxyLimits;
use crate::refusal_reason::RefusalReason;
use crate::relay::{IdleTimer, RelayError, RelayMeter, RelaySocket, drain_and_close};
use crate::wire::ParseStatus;
use crate::wire::client_hello::{ClientHello, read_client_hello};
use crate::wire::http::{ForwardRequest, MAX_HEAD_BYTES, begins_request, read_head_in_tunnel};

/// Bytes per read until the first message is complete.
const READ_BYTES: usize = 4096;
/// A fatal TLS alert `access_denied`, so that a client reports that instead of "connection reset".
const ACCESS_DENIED: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 49];

/// Forwards a tunnel.
pub(crate) struct Tunnel<'a> {
    pub(crate) allowlist: &'a NetworkAllowlist,
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    pub(crate) limits: &'a ProxyLimits,
    pub(crate) ledger: &'a Ledger,
}

/// Why a connection does not continue as a tunnel.
enum TunnelExit {
    Failed(RelayError),
    /// It holds one plain request, already consumed from the unread bytes.
    PlainRequest(ForwardRequest),
}

impl From<RelayError> for TunnelExit {
    fn from(broken: RelayError) -> Self {
        Self::Failed(broken)
    }
}

impl From<RefusalReason> for TunnelExit {
    fn from(reason: RefusalReason) -> Self {
        Self::Failed(reason.into())
    }
}

impl From<io::Error> for TunnelExit {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Tunnel<'_> {
    /// Runs until both sides have finished, or one has disconnected.
    pub(crate) async fn run(&self, mut client: ClientConnection, mut server: RelaySocket) {
        match self.relay(&mut client, &mut server).await {
            Ok(()) => (client.socket.closed_cleanly, server.closed_cleanly) = (true, true),
            Err(TunnelExit::Failed(RelayError::Disconnected)) => {}
            Err(TunnelExit::Failed(RelayError::Refused(reason))) => self.refuse(client, server, reason).await,
            Err(TunnelExit::PlainRequest(request)) => {
                let (target, bounds, ledger) =
                    (format!("{}:{}", self.host, self.port), self.limits, self.ledger);
                RequestForwarder { request: &request, target: &target, limits: bounds, ledger }
                    .run(client, server)
                    .await;
            }
        }
    }

    /// Responds in the protocol that the tunnel began with, so that its client reports the reason instead of "connection reset".
    async fn refuse(&self, mut client: ClientConnection, server: RelaySocket, reason: RefusalReason) {
        let host = self.denied_host(&client.unread, reason);
        self.ledger.refused(&format!("{host}:{}", self.port), reason, None);
        let answer = match reason {
            RefusalReason::ServerName | RefusalReason::HiddenName | RefusalReason::Handshake => {
                ACCESS_DENIED.to_vec()
            }
            reason if begins_request(&client.unread) == Some(true) => {
                error_response::http_response(reason, None)
            }
            _ => return,
        };
        drop(server);
        let _ = client.socket.stream.write_all(&answer).await;
        drain_and_close(&mut client.socket, self.limits.handshake_timeout).await;
    }

    async fn relay(&self, client: &mut ClientConnection, server: &mut RelaySocket) -> Result<(), TunnelExit> {
        let activity = IdleTimer::new();
        let meter = RelayMeter { ledger: self.ledger, activity: &activity };
        let (mut from_client, mut to_client) = client.socket.stream.split();
        let (mut from_server, mut to_server) = server.stream.split();
        let out = async {
            self.inspect_start(&mut client.unread, &mut from_client, &meter, &mut to_server).await?;
            Ok::<(), TunnelExit>(meter.copy(TransferDirection::Out, &mut from_client, &mut to_server).await?)
        };
        let back = async { Ok(meter.copy(TransferDirection::In, &mut from_server, &mut to_client).await?) };
        tokio::select! {
            done = async { tokio::try_join!(out, back) } => done.map(|_| ()),
            () = activity.wait_idle(self.limits.idle_timeout) => Err(RelayError::Disconnected.into()),
        }
    }

    /// Holds the first bytes back until they are checked. A server that sends first is forwarded in the meantime.
    async fn inspect_start(
        &self,
        first: &mut Vec<u8>,
        from_client: &mut ReadHalf<'_>,
        meter: &RelayMeter<'_>,
        to_server: &mut WriteHalf<'_>,
    ) -> Result<(), TunnelExit> {
        first.reserve(READ_BYTES);
        if first.is_empty() && from_client.read_buf(first).await? == 0 {
            return Ok(());
        }
        let deadline = Instant::now() + self.limits.handshake_timeout;
        let hello = loop {
            match read_client_hello(first)? {
                ParseStatus::Complete { value, .. } => {
                    self.check(&value)?;
                    break value;
                }
                ParseStatus::Partial => first.reserve(READ_BYTES),
            }
            match timeout_at(deadline, from_client.read_buf(first)).await {
                Err(_) => return Err(RefusalReason::TooSlow.into()),
                // A single byte that might have begun TLS and did not.
                Ok(Ok(0)) if first.len() < 2 => break ClientHello::NotTls,
                Ok(Ok(0)) => return Err(RefusalReason::Handshake.into()),
                Ok(read) => read?,
            };
        };
        if hello == ClientHello::NotTls && begins_request(first) == Some(true) {
            return Err(TunnelExit::PlainRequest(self.plain_request(first, from_client, deadline).await?));
        }
        meter.forward(TransferDirection::Out, first, to_server).await?;
        if hello == ClientHello::NotTls {
            self.inspect_first_line(first, from_client, meter, to_server).await?;
        }
        *first = Vec::new();
        Ok(())
    }

    /// Reads the rest of a request's head, and consumes it.
    async fn plain_request(
        &self,
        first: &mut Vec<u8>,
        from_client: &mut ReadHalf<'_>,
        deadline: Instant,
    ) -> Result<ForwardRequest, RelayError> {
        loop {
            if let ParseStatus::Complete { value, length } = read_head_in_tunnel(first, self.host, self.port)?
            {
                if value.host != *self.host && self.allowlist.admit(value.host.clone(), self.port).is_err() {
                    return Err(RefusalReason::HostHeader.into());
                }
                first.drain(..length.min(first.len()));
                return Ok(value);
            }
            first.reserve(READ_BYTES);
            match timeout_at(deadline, from_client.read_buf(first)).await {
                Err(_) => return Err(RefusalReason::TooSlow.into()),
                Ok(Ok(0)) => return Err(RelayError::Disconnected),
                Ok(read) => read?,
            };
        }
    }

    /// A protocol whose first line is still incomplete: its client may wait for a response to what it has sent, so nothing is held back; but if the
    /// line turns out to be an HTTP request, its end never reaches the server.
    async fn inspect_first_line(
        &self,
        line: &mut Vec<u8>,
        from_client: &mut ReadHalf<'_>,
        meter: &RelayMeter<'_>,
        to_server: &mut WriteHalf<'_>,
    ) -> Result<(), RelayError> {
        while begins_request(line).is_none() {
            let passed = line.len();
            line.reserve(READ_BYTES);
            if from_client.read_buf(line).await? == 0 {
                break;
            }
            if begins_request(line) == Some(true) {
                return Err(RefusalReason::Malformed("a request line inside a tunnel came in pieces").into());
            }
            if line.len() > MAX_HEAD_BYTES {
                return Err(RefusalReason::TooLarge.into());
            }
            let new = line
                .get(passed..)
                .ok_or(RefusalReason::Malformed("a line inside a tunnel became shorter"))?;
            meter.forward(TransferDirection::Out, new, to_server).await?;
        }
        Ok(())
    }

    fn check(&self, hello: &ClientHello) -> Result<(), RefusalReason> {
        match (hello, self.host) {
            (ClientHello::ServerName(name), _) => {
                let host = Host::parse(name).map_err(|_| RefusalReason::ServerName)?;
                self.allowlist.admit(host, self.port).map(|_| ()).map_err(|_| RefusalReason::ServerName)
            }
            (ClientHello::NoServerName, Host::Name(_)) if self.port == 443 => Err(RefusalReason::HiddenName),
            (ClientHello::NoServerName | ClientHello::NotTls, _) => Ok(()),
        }
    }

    /// For a refused server name or `Host`, reports the host it names; otherwise the tunnel's own.
    fn denied_host(&self, first: &[u8], reason: RefusalReason) -> Host {
        let named = match reason {
            RefusalReason::ServerName => match read_client_hello(first) {
                Ok(ParseStatus::Complete { value: ClientHello::ServerName(name), .. }) => {
                    Host::parse(&name).ok()
                }
                _ => None,
            },
            RefusalReason::HostHeader => match read_head_in_tunnel(first, self.host, self.port) {
                Ok(ParseStatus::Complete { value, .. }) => Some(value.host),
                _ => None,
            },
            _ => None,
        };
        named.unwrap_or_else(|| self.host.clone())
    }
}
