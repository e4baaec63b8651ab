//! A connection passed through unread, but for the name at the beginning of TLS.
//!
//! What this sees: the server name of the first TLS message, on every port; the rules must name it. A hello
//! that encrypts its name (ECH) is refused, since many names may share the server that was dialled. Programs
//! that only pretend to encrypt one, such as Chromium, have a switch for that
//! (`--disable-features=EncryptedClientHello`). So is, on port 443, a hello for a named host that leaves the
//! name out: every web client writes it. On other ports it is passed on.
//!
//! A tunnel that begins with a plain HTTP request becomes one forwarded request, as if it had been asked of the
//! proxy: the rules must name its `Host`, it is written anew, and nothing behind it is passed on. A request line
//! that comes in pieces is refused once it is known to be one.
//!
//! What this does not see: a `Host` header inside TLS, for another name that the same server answers to.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout_at};

use crate::answer;
use crate::bounds::Bounds;
use crate::client::Client;
use crate::forward::Forwarding;
use crate::host::Host;
use crate::ledger::{Direction, Ledger};
use crate::reason::Reason;
use crate::relay::{Activity, Broken, Meter, Side, finish};
use crate::rules::Rules;
use crate::wire::Progress;
use crate::wire::hello::{Hello, read_hello};
use crate::wire::http::{Forward, MAX_HEAD, begins_request, read_head_in_tunnel};

/// Bytes read at once while the first message is not whole.
const PIECE: usize = 4096;
/// A fatal alert "access denied", so that a client says so instead of "connection reset".
const ACCESS_DENIED: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 49];

/// What a tunnel needs to know.
pub(crate) struct Tunnel<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    pub(crate) bounds: &'a Bounds,
    pub(crate) ledger: &'a Ledger,
}

/// Why a connection does not go on as a tunnel.
enum Turn {
    Broken(Broken),
    /// It holds one plain request, which is not in what is unread any more.
    Plain(Forward),
}

impl From<Broken> for Turn {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Reason> for Turn {
    fn from(reason: Reason) -> Self {
        Self::Broken(reason.into())
    }
}

impl From<io::Error> for Turn {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl Tunnel<'_> {
    /// Runs until both sides have ended, or one is gone.
    pub(crate) async fn run(&self, mut client: Client, mut server: Side) {
        match self.relay(&mut client, &mut server).await {
            Ok(()) => (client.side.ended_well, server.ended_well) = (true, true),
            Err(Turn::Broken(Broken::Gone)) => {}
            Err(Turn::Broken(Broken::Refused(reason))) => self.refuse(client, server, reason).await,
            Err(Turn::Plain(request)) => {
                let (target, bounds, ledger) =
                    (format!("{}:{}", self.host, self.port), self.bounds, self.ledger);
                Forwarding { request: &request, target: &target, bounds, ledger }.run(client, server).await;
            }
        }
    }

    /// In the protocol that the tunnel began with, so that its client says why instead of "connection reset".
    async fn refuse(&self, mut client: Client, server: Side, reason: Reason) {
        let host = self.denied_host(&client.unread, reason);
        self.ledger.refused(&format!("{host}:{}", self.port), reason, None);
        let answer = match reason {
            Reason::ServerName | Reason::HiddenName | Reason::Handshake => ACCESS_DENIED.to_vec(),
            reason if begins_request(&client.unread) == Some(true) => answer::http(reason, None),
            _ => return,
        };
        drop(server);
        let _ = client.side.stream.write_all(&answer).await;
        finish(&mut client.side, self.bounds.handshake).await;
    }

    async fn relay(&self, client: &mut Client, server: &mut Side) -> Result<(), Turn> {
        let activity = Activity::new();
        let meter = Meter { ledger: self.ledger, activity: &activity };
        let (mut from_client, mut to_client) = client.side.stream.split();
        let (mut from_server, mut to_server) = server.stream.split();
        let out = async {
            self.begin(&mut client.unread, &mut from_client, &meter, &mut to_server).await?;
            Ok::<(), Turn>(meter.copy(Direction::Out, &mut from_client, &mut to_server).await?)
        };
        let back = async { Ok(meter.copy(Direction::In, &mut from_server, &mut to_client).await?) };
        tokio::select! {
            done = async { tokio::try_join!(out, back) } => done.map(|_| ()),
            () = activity.silence(self.bounds.idle) => Err(Broken::Gone.into()),
        }
    }

    /// Holds the first bytes back until they are known to be harmless. A server that speaks first is heard
    /// meanwhile.
    async fn begin(
        &self,
        first: &mut Vec<u8>,
        from_client: &mut ReadHalf<'_>,
        meter: &Meter<'_>,
        to_server: &mut WriteHalf<'_>,
    ) -> Result<(), Turn> {
        first.reserve(PIECE);
        if first.is_empty() && from_client.read_buf(first).await? == 0 {
            return Ok(());
        }
        let deadline = Instant::now() + self.bounds.handshake;
        let hello = loop {
            match read_hello(first)? {
                Progress::Done { value, .. } => {
                    self.check(&value)?;
                    break value;
                }
                Progress::Partial => first.reserve(PIECE),
            }
            match timeout_at(deadline, from_client.read_buf(first)).await {
                Err(_) => return Err(Reason::TooSlow.into()),
                // A lone byte that might have begun TLS and did not.
                Ok(Ok(0)) if first.len() < 2 => break Hello::Other,
                Ok(Ok(0)) => return Err(Reason::Handshake.into()),
                Ok(read) => read?,
            };
        };
        if hello == Hello::Other && begins_request(first) == Some(true) {
            return Err(Turn::Plain(self.plain_request(first, from_client, deadline).await?));
        }
        meter.pass(Direction::Out, first, to_server).await?;
        if hello == Hello::Other {
            self.watch_line(first, from_client, meter, to_server).await?;
        }
        *first = Vec::new();
        Ok(())
    }

    /// Reads the rest of a request's head, and takes it off.
    async fn plain_request(
        &self,
        first: &mut Vec<u8>,
        from_client: &mut ReadHalf<'_>,
        deadline: Instant,
    ) -> Result<Forward, Broken> {
        loop {
            if let Progress::Done { value, length } = read_head_in_tunnel(first, self.host, self.port)? {
                if value.host != *self.host && self.rules.admit(value.host.clone(), self.port).is_err() {
                    return Err(Reason::HostHeader.into());
                }
                first.drain(..length.min(first.len()));
                return Ok(value);
            }
            first.reserve(PIECE);
            match timeout_at(deadline, from_client.read_buf(first)).await {
                Err(_) => return Err(Reason::TooSlow.into()),
                Ok(Ok(0)) => return Err(Broken::Gone),
                Ok(read) => read?,
            };
        }
    }

    /// A protocol whose first line is not whole yet: its client may wait for an answer to what it has sent, so nothing is held back; but should the line
    /// become that of an HTTP request, its end never reaches the server.
    async fn watch_line(
        &self,
        line: &mut Vec<u8>,
        from_client: &mut ReadHalf<'_>,
        meter: &Meter<'_>,
        to_server: &mut WriteHalf<'_>,
    ) -> Result<(), Broken> {
        while begins_request(line).is_none() {
            let passed = line.len();
            line.reserve(PIECE);
            if from_client.read_buf(line).await? == 0 {
                break;
            }
            if begins_request(line) == Some(true) {
                return Err(Reason::Malformed("a request line inside a tunnel came in pieces").into());
            }
            if line.len() > MAX_HEAD {
                return Err(Reason::TooLarge.into());
            }
            meter.pass(Direction::Out, line.get(passed..).unwrap_or_default(), to_server).await?;
        }
        Ok(())
    }

    fn check(&self, hello: &Hello) -> Result<(), Reason> {
        match (hello, self.host) {
            (Hello::Named(name), _) => {
                let host = Host::parse(name).map_err(|_| Reason::ServerName)?;
                self.rules.admit(host, self.port).map(|_| ()).map_err(|_| Reason::ServerName)
            }
            (Hello::Nameless, Host::Name(_)) if self.port == 443 => Err(Reason::HiddenName),
            (Hello::Nameless | Hello::Other, _) => Ok(()),
        }
    }

    /// A refused server name or `Host` is reported as the host that was asked for; anything else as the tunnel's own.
    fn denied_host(&self, first: &[u8], reason: Reason) -> Host {
        let named = match reason {
            Reason::ServerName => match read_hello(first) {
                Ok(Progress::Done { value: Hello::Named(name), .. }) => Host::parse(&name).ok(),
                _ => None,
            },
            Reason::HostHeader => match read_head_in_tunnel(first, self.host, self.port) {
                Ok(Progress::Done { value, .. }) => Some(value.host),
                _ => None,
            },
            _ => None,
        };
        named.unwrap_or_else(|| self.host.clone())
    }
}
