//! A connection passed through unread, but for the name at the beginning of TLS.
//!
//! What this sees: the server name of the first TLS message, on every port; the rules must name it. A hello
//! that encrypts its name (ECH) is refused, since many names may share the server that was dialled. Programs
//! that only pretend to encrypt one, such as Chromium, have a switch for that
//! (`--disable-features=EncryptedClientHello`). So is, on port 443, a hello for a named host that leaves the
//! name out: every web client writes it. On other ports it is passed on.
//!
//! What this does not see: a `Host` header, inside TLS or in a plain tunnel, for another name that the same
//! server answers to. Whoever shares a server with strangers can keep plain HTTP out by naming the port:
//! `example.com:443`.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout_at};

use crate::bounds::Bounds;
use crate::client::Client;
use crate::host::Host;
use crate::ledger::{Direction, Ledger};
use crate::reason::Reason;
use crate::relay::{Activity, Broken, Meter, Side, finish};
use crate::rules::Rules;
use crate::wire::Progress;
use crate::wire::hello::{Hello, read_hello};

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

impl Tunnel<'_> {
    /// Runs until both sides have ended, or one is gone.
    pub(crate) async fn run(&self, mut client: Client, mut server: Side) {
        match self.relay(&mut client, &mut server).await {
            Ok(()) => (client.side.ended_well, server.ended_well) = (true, true),
            Err(Broken::Gone) => {}
            Err(Broken::Refused(reason)) => {
                let host = self.denied_host(&client.unread, reason);
                self.ledger.refused(&format!("{host}:{}", self.port), reason, None);
                if matches!(reason, Reason::ServerName | Reason::HiddenName | Reason::Handshake) {
                    drop(server);
                    let _ = client.side.stream.write_all(&ACCESS_DENIED).await;
                    finish(&mut client.side, self.bounds.handshake).await;
                }
            }
        }
    }

    async fn relay(&self, client: &mut Client, server: &mut Side) -> Result<(), Broken> {
        let activity = Activity::new();
        let meter = Meter { ledger: self.ledger, activity: &activity };
        let (mut from_client, mut to_client) = client.side.stream.split();
        let (mut from_server, mut to_server) = server.stream.split();
        let out = async {
            self.begin(&mut client.unread, &mut from_client, &meter, &mut to_server).await?;
            meter.copy(Direction::Out, &mut from_client, &mut to_server).await
        };
        let back = meter.copy(Direction::In, &mut from_server, &mut to_client);
        tokio::select! {
            done = async { tokio::try_join!(out, back) } => done.map(|_| ()),
            () = activity.silence(self.bounds.idle) => Err(Broken::Gone),
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
    ) -> Result<(), Broken> {
        first.reserve(PIECE);
        if first.is_empty() && from_client.read_buf(first).await? == 0 {
            return Ok(());
        }
        let deadline = Instant::now() + self.bounds.handshake;
        loop {
            match read_hello(first)? {
                Progress::Done { value, .. } => {
                    self.check(&value)?;
                    break;
                }
                Progress::Partial => first.reserve(PIECE),
            }
            match timeout_at(deadline, from_client.read_buf(first)).await {
                Err(_) => return Err(Reason::TooSlow.into()),
                // A lone byte that might have begun TLS and did not.
                Ok(Ok(0)) if first.len() < 2 => break,
                Ok(Ok(0)) => return Err(Reason::Handshake.into()),
                Ok(read) => read?,
            };
        }
        meter.pass(Direction::Out, first, to_server).await?;
        *first = Vec::new();
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

    /// A refused server name is reported as the host that was asked for; anything else as the tunnel's own.
    fn denied_host(&self, first: &[u8], reason: Reason) -> Host {
        let named = match read_hello(first) {
            Ok(Progress::Done { value: Hello::Named(name), .. }) if reason == Reason::ServerName => {
                Host::parse(&name).ok()
            }
            _ => None,
        };
        named.unwrap_or_else(|| self.host.clone())
    }
}
