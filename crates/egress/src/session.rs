//! One connection of the command, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::answer;
use crate::bounds::Bounds;
use crate::client::{Client, Wish};
use crate::dial::{Dial, reach};
use crate::forward::Forwarding;
use crate::host::Host;
use crate::ledger::Ledger;
use crate::reason::Reason;
use crate::relay::{Broken, Side, finish};
use crate::rules::Rules;
use crate::tunnel::Tunnel;
use crate::wire::{Protocol, socks};

/// What the connections of one proxy share.
pub(crate) struct Context {
    pub(crate) rules: Rules,
    pub(crate) dialer: Arc<dyn Dial>,
    pub(crate) bounds: Bounds,
    pub(crate) ledger: Ledger,
}

/// What a connection asked for, and how it is answered.
struct Asked<'a> {
    protocol: Option<Protocol>,
    target: Option<(&'a Host, u16)>,
}

impl Context {
    pub(crate) async fn serve(&self, stream: TcpStream) {
        let mut client = Client::new(Side::new(stream));
        let mut protocol = None;
        let wish = timeout(self.bounds.handshake, async {
            let spoken = client.protocol().await?;
            protocol = Some(spoken);
            client.wish(spoken).await
        });
        let asked = |protocol| Asked { protocol, target: None };
        match (wish.await, protocol) {
            (Ok(Ok(wish)), Some(spoken)) => self.grant(client, spoken, wish).await,
            (Ok(Err(Broken::Refused(reason))), _) => {
                self.refuse(client, asked(protocol), reason, None).await;
            }
            // Who connects and says nothing has asked for nothing, but a request left hanging is told of.
            (Err(_), Some(_)) => self.refuse(client, asked(protocol), Reason::TooSlow, None).await,
            _ => client.side.ended_well = true,
        }
    }

    async fn grant(&self, mut client: Client, protocol: Protocol, wish: Wish) {
        let (host, port) = match &wish {
            Wish::Tunnel { host, port } => (host, *port),
            Wish::Forward(forward) => (&forward.host, forward.port),
        };
        let target = format!("{host}:{port}");
        let server = match self.reach(host, port).await {
            Ok(stream) => Side::new(stream),
            Err((reason, address)) => {
                let asked = Asked { protocol: Some(protocol), target: Some((host, port)) };
                return self.refuse(client, asked, reason, address).await;
            }
        };
        self.ledger.allowed(&target);
        let (bounds, ledger, target) = (&self.bounds, &self.ledger, target.as_str());
        match &wish {
            Wish::Forward(request) => {
                Forwarding { request, target, bounds, ledger }.run(client, server).await;
            }
            Wish::Tunnel { host, .. } if client.say(&opened(protocol)).await.is_ok() => {
                Tunnel { rules: &self.rules, host, port, bounds, ledger }.run(client, server).await;
            }
            Wish::Tunnel { .. } => {}
        }
    }

    /// The name is judged, then resolved once, then its addresses are judged, then one of those is dialled.
    async fn reach(&self, host: &Host, port: u16) -> Result<TcpStream, (Reason, Option<IpAddr>)> {
        let admitted = self.rules.admit(host.clone(), port).map_err(|reason| (reason, None))?;
        reach(&admitted, &self.dialer, &self.bounds).await
    }

    async fn refuse(&self, mut client: Client, asked: Asked<'_>, reason: Reason, address: Option<IpAddr>) {
        let target = asked.target.map(|(host, port)| format!("{host}:{port}"));
        self.ledger.refused(&target.unwrap_or_default(), reason, address);
        let answer = match asked.protocol {
            Some(Protocol::Http) => answer::http(reason, asked.target),
            Some(Protocol::Socks5) => socks::refusal(reason),
            None if reason == socks::SOCKS4 => socks::SOCKS4_REFUSED.to_vec(),
            None => Vec::new(),
        };
        let _ = timeout(self.bounds.handshake, client.say(&answer)).await;
        finish(&mut client.side, self.bounds.handshake).await;
    }
}

fn opened(protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::Http => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
        Protocol::Socks5 => socks::Reply::Succeeded.bytes().to_vec(),
    }
}
