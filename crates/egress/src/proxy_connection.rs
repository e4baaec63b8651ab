//! One client connection, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::allowlist::NetworkAllowlist;
use crate::client::{ClientConnection, EgressRequest};
use crate::dial::{Dial, dial_host};
use crate::error_response;
use crate::forward::RequestForwarder;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::limits::ProxyLimits;
use crate::refusal_reason::RefusalReason;
use crate::relay::{RelayError, RelaySocket, drain_and_close};
use crate::tunnel::Tunnel;
use crate::wire::{ProxyProtocol, socks};

/// State shared by the connections of one proxy.
pub(crate) struct ProxyState {
    pub(crate) allowlist: NetworkAllowlist,
    pub(crate) dialer: Arc<dyn Dial>,
    pub(crate) limits: ProxyLimits,
    pub(crate) ledger: Ledger,
}

/// The requested target, and the protocol to respond in.
struct RequestedTarget<'a> {
    protocol: Option<ProxyProtocol>,
    target: Option<(&'a Host, u16)>,
}

impl ProxyState {
    pub(crate) async fn serve(&self, stream: TcpStream) {
        let mut client = ClientConnection::new(RelaySocket::new(stream));
        let mut protocol = None;
        let wish = timeout(self.limits.handshake_timeout, async {
            let spoken = client.protocol().await?;
            protocol = Some(spoken);
            client.read_request(spoken).await
        });
        let asked = |protocol| RequestedTarget { protocol, target: None };
        match (wish.await, protocol) {
            (Ok(Ok(wish)), Some(spoken)) => self.serve_request(client, spoken, wish).await,
            (Ok(Err(RelayError::Refused(reason))), _) => {
                self.refuse(client, asked(protocol), reason, None).await;
            }
            // A client that sends nothing has requested nothing, but an incomplete request gets an error.
            (Err(_), Some(_)) => self.refuse(client, asked(protocol), RefusalReason::TooSlow, None).await,
            _ => client.socket.closed_cleanly = true,
        }
    }

    async fn serve_request(
        &self,
        mut client: ClientConnection,
        protocol: ProxyProtocol,
        wish: EgressRequest,
    ) {
        let (host, port) = match &wish {
            EgressRequest::Tunnel { host, port } => (host, *port),
            EgressRequest::Forward(forward) => (&forward.host, forward.port),
        };
        let target = format!("{host}:{port}");
        let server = match self.dial_host(host, port).await {
            Ok(stream) => RelaySocket::new(stream),
            Err((reason, address)) => {
                let asked = RequestedTarget { protocol: Some(protocol), target: Some((host, port)) };
                return self.refuse(client, asked, reason, address).await;
            }
        };
        self.ledger.allowed(&target);
        let (bounds, ledger, target) = (&self.limits, &self.ledger, target.as_str());
        match &wish {
            EgressRequest::Forward(request) => {
                RequestForwarder { request, target, limits: bounds, ledger }.run(client, server).await;
            }
            EgressRequest::Tunnel { host, .. } if client.send(&success_reply(protocol)).await.is_ok() => {
                Tunnel { allowlist: &self.allowlist, host, port, limits: bounds, ledger }
                    .run(client, server)
                    .await;
            }
            EgressRequest::Tunnel { .. } => {}
        }
    }

    /// The name is checked, then resolved once, then its addresses are checked, then one of them is dialled.
    async fn dial_host(&self, host: &Host, port: u16) -> Result<TcpStream, (RefusalReason, Option<IpAddr>)> {
        let admitted = self.allowlist.admit(host.clone(), port).map_err(|reason| (reason, None))?;
        dial_host(&admitted, &self.dialer, &self.limits).await
    }

    async fn refuse(
        &self,
        mut client: ClientConnection,
        asked: RequestedTarget<'_>,
        reason: RefusalReason,
        address: Option<IpAddr>,
    ) {
        let target = asked.target.map(|(host, port)| format!("{host}:{port}"));
        self.ledger.refused(&target.unwrap_or_default(), reason, address);
        let answer = match asked.protocol {
            Some(ProxyProtocol::Http) => error_response::http_response(reason, asked.target),
            Some(ProxyProtocol::Socks5) => socks::refusal(reason),
            None if reason == socks::SOCKS4 => socks::SOCKS4_REFUSED.to_vec(),
            None => Vec::new(),
        };
        let _ = timeout(self.limits.handshake_timeout, client.send(&answer)).await;
        drain_and_close(&mut client.socket, self.limits.handshake_timeout).await;
    }
}

fn success_reply(protocol: ProxyProtocol) -> Vec<u8> {
    match protocol {
        ProxyProtocol::Http => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
        ProxyProtocol::Socks5 => socks::SocksReply::Succeeded.bytes().to_vec(),
    }
}
