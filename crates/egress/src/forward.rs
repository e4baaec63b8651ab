//! Forwards one plain HTTP request.
//!
//! A connection carries one request: the server is sent `Connection: close`, and nothing after the request's body is read. A second request, to
//! whatever host, needs its own connection and is checked there.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::ClientConnection;
use crate::error_response;
use crate::ledger::{Ledger, TransferDirection};
use crate::limits::ProxyLimits;
use crate::refusal_reason::RefusalReason;
use crate::relay::{IdleTimer, RelayError, RelayMeter, RelaySocket, drain_and_close};
use crate::wire::body::BodyReframer;
use crate::wire::http;

/// Bytes of a body per read.
const READ_BYTES: usize = 16 << 10;

/// Forwards a request.
pub(crate) struct RequestForwarder<'a> {
    pub(crate) request: &'a http::ForwardRequest,
    pub(crate) target: &'a str,
    pub(crate) limits: &'a ProxyLimits,
    pub(crate) ledger: &'a Ledger,
}

impl RequestForwarder<'_> {
    /// Runs until the server has responded.
    pub(crate) async fn run(&self, mut client: ClientConnection, mut server: RelaySocket) {
        match self.exchange(&mut client, &mut server).await {
            Ok(()) => {
                server.closed_cleanly = true;
                drop(server);
                drain_and_close(&mut client.socket, self.limits.handshake_timeout).await;
            }
            Err(RelayError::Disconnected) => {}
            Err(RelayError::Refused(reason)) => self.refuse(client, server, reason).await,
        }
    }

    async fn exchange(
        &self,
        client: &mut ClientConnection,
        server: &mut RelaySocket,
    ) -> Result<(), RelayError> {
        let activity = IdleTimer::new();
        let meter = RelayMeter { ledger: self.ledger, activity: &activity };
        let unread = std::mem::take(&mut client.unread);
        let (mut from_client, mut to_client) = client.socket.stream.split();
        let (mut from_server, mut to_server) = server.stream.split();
        let send = async {
            let mut body = BodyReframer::new(self.request.body);
            let mut out = self.request.head.clone();
            body.pass(&unread, &mut out)?;
            meter.forward(TransferDirection::Out, &out, &mut to_server).await?;
            let mut piece = vec![0; READ_BYTES];
            while !body.is_finished() {
                let length = from_client.read(&mut piece).await?;
                let Some(bytes @ [_, ..]) = piece.get(..length) else { return Err(RelayError::Disconnected) };
                out.clear();
                body.pass(bytes, &mut out)?;
                meter.forward(TransferDirection::Out, &out, &mut to_server).await?;
            }
            Ok(())
        };
        tokio::select! {
            answered = meter.copy(TransferDirection::In, &mut from_server, &mut to_client) => answered,
            Err(broken) = send => Err(broken),
            () = activity.wait_idle(self.limits.idle_timeout) => Err(RelayError::Disconnected),
        }
    }

    /// The server never receives the end of a request whose body was refused.
    async fn refuse(&self, mut client: ClientConnection, server: RelaySocket, reason: RefusalReason) {
        drop(server);
        self.ledger.refused(self.target, reason, None);
        let _ = client.socket.stream.write_all(&error_response::http_response(reason, None)).await;
        drain_and_close(&mut client.socket, self.limits.handshake_timeout).await;
    }
}
