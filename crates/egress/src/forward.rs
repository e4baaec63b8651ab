//! One plain HTTP request, passed on.
//!
//! A connection carries one request: the server is told to close after its answer, and nothing behind the
//! request's body is read. A second request, to whatever host, has to come on a connection of its own and is
//! judged there.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::answer;
use crate::bounds::Bounds;
use crate::client::Client;
use crate::ledger::{Direction, Ledger};
use crate::reason::Reason;
use crate::relay::{Activity, Broken, Meter, Side, finish};
use crate::wire::body::Body;
use crate::wire::http;

/// Bytes of a body that are read at once.
const PIECE: usize = 16 << 10;

/// What passing a request on needs to know.
pub(crate) struct Forwarding<'a> {
    pub(crate) request: &'a http::Forward,
    pub(crate) target: &'a str,
    pub(crate) bounds: &'a Bounds,
    pub(crate) ledger: &'a Ledger,
}

impl Forwarding<'_> {
    /// Runs until the server has answered.
    pub(crate) async fn run(&self, mut client: Client, mut server: Side) {
        match self.exchange(&mut client, &mut server).await {
            Ok(()) => {
                server.ended_well = true;
                drop(server);
                finish(&mut client.side, self.bounds.handshake).await;
            }
            Err(Broken::Gone) => {}
            Err(Broken::Refused(reason)) => self.refuse(client, server, reason).await,
        }
    }

    async fn exchange(&self, client: &mut Client, server: &mut Side) -> Result<(), Broken> {
        let activity = Activity::new();
        let meter = Meter { ledger: self.ledger, activity: &activity };
        let unread = std::mem::take(&mut client.unread);
        let (mut from_client, mut to_client) = client.side.stream.split();
        let (mut from_server, mut to_server) = server.stream.split();
        let send = async {
            let mut body = Body::new(self.request.body);
            let mut out = self.request.head.clone();
            body.pass(&unread, &mut out)?;
            meter.pass(Direction::Out, &out, &mut to_server).await?;
            let mut piece = vec![0; PIECE];
            while !body.is_finished() {
                let length = from_client.read(&mut piece).await?;
                let Some(bytes @ [_, ..]) = piece.get(..length) else { return Err(Broken::Gone) };
                out.clear();
                body.pass(bytes, &mut out)?;
                meter.pass(Direction::Out, &out, &mut to_server).await?;
            }
            Ok(())
        };
        tokio::select! {
            answered = meter.copy(Direction::In, &mut from_server, &mut to_client) => answered,
            Err(broken) = send => Err(broken),
            () = activity.silence(self.bounds.idle) => Err(Broken::Gone),
        }
    }

    /// The server never gets the end of a request that was refused in its body.
    async fn refuse(&self, mut client: Client, server: Side, reason: Reason) {
        drop(server);
        self.ledger.refused(self.target, reason, None);
        let _ = client.side.stream.write_all(&answer::http(reason, None)).await;
        finish(&mut client.side, self.bounds.handshake).await;
    }
}
