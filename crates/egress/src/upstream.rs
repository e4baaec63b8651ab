//! An HTTP proxy between this machine and the hosts: the connection to an admitted host is a tunnel through it.
//!
//! The name is resolved by that proxy, so the addresses of a name are not checked here: the operator chose the proxy, and where its network ends is its
//! decision. What is admitted is decided before, and the same.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::dial::{Dial, DialFuture, Resolve};
use crate::host::Host;

/// Maximum size of the proxy's answer to CONNECT.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// An HTTP proxy that the operator's network requires.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    host: Host,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    /// Hosts that are reached without it.
    direct: Vec<String>,
}

/// A URL that names no HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proxy in front of the registries has to be an `http://` URL")]
pub struct UnusableProxy;

impl std::fmt::Debug for UpstreamProxy {
    /// Without the password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "UpstreamProxy({}:{})", self.host, self.port)
    }
}

impl UpstreamProxy {
    /// The proxy at a URL such as `http://user:password@proxy.example:3128`; `direct` are hosts that are reached without it, as in `NO_PROXY`.
    ///
    /// # Errors
    /// It is not an `http://` URL.
    pub fn parse(url: &str, direct: Vec<String>) -> Result<Self, UnusableProxy> {
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(UnusableProxy),
            None => url,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| UnusableProxy)?),
            _ => (place, 80),
        };
        let host = Host::parse(host).map_err(|_| UnusableProxy)?;
        let authorization = user.map(|user| {
            let user = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
            format!("Basic {}", STANDARD.encode(percent_decoded(&user)))
        });
        Ok(Self { host, port, authorization, direct })
    }

    /// Whether this host is reached without it: this machine, and what `NO_PROXY` names. A name there covers what is below it.
    fn exempts(&self, host: &Host, port: u16) -> bool {
        let shown = host.to_string();
        let is_own = match host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        };
        is_own
            || self.direct.iter().any(|entry| {
                let entry = entry.trim().to_ascii_lowercase();
                let (name, only) = match entry.rsplit_once(':') {
                    Some((name, only)) if only.parse::<u16>().is_ok() && !name.contains(':') => {
                        (name, only.parse().ok())
                    }
                    _ => (entry.as_str(), None),
                };
                let name = name.trim_start_matches('*').trim_start_matches('.');
                let is_below =
                    shown.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                entry == "*" || (!name.is_empty() && is_below && only.is_none_or(|only: u16| only == port))
            })
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut rest = bytes.clone();
        let escaped = (byte == b'%').then(|| {
            let digits = [rest.next()?, rest.next()?].map(char::from);
            Some(digits.map(|digit| digit.to_digit(16)))
        });
        match escaped.flatten() {
            Some([Some(high), Some(low)]) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                bytes = rest;
            }
            _ => decoded.push(byte),
        }
    }
    decoded
}

/// Dials through a proxy; the proxy itself, and what it does not serve, through another dialer.
pub struct ProxiedDialer {
    dialer: Arc<dyn Dial>,
    proxy: UpstreamProxy,
}

impl ProxiedDialer {
    /// Dials through this proxy.
    #[must_use]
    pub fn new(dialer: Arc<dyn Dial>, proxy: UpstreamProxy) -> Self {
        Self { dialer, proxy }
    }
}

impl Resolve for ProxiedDialer {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.dialer.resolve(name)
    }
}

impl Dial for ProxiedDialer {
    fn dial(&self, address: SocketAddr) -> DialFuture {
        self.dialer.dial(address)
    }

    fn dial_host(&self, host: &Host, port: u16) -> Option<DialFuture> {
        if self.proxy.exempts(host, port) {
            return None;
        }
        let (dialer, proxy, target) =
            (Arc::clone(&self.dialer), self.proxy.clone(), format!("{host}:{port}"));
        Some(Box::pin(async move {
            let mut stream = connect(dialer, &proxy).await?;
            let authorization = proxy.authorization.iter();
            let authorization: String =
                authorization.map(|value| format!("Proxy-Authorization: {value}\r\n")).collect();
            let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
            stream.write_all(request.as_bytes()).await?;
            read_answer(&mut stream).await?;
            Ok(stream)
        }))
    }
}

/// A connection to the proxy. The person configured it, so it may be on a private address.
async fn connect(dialer: Arc<dyn Dial>, proxy: &UpstreamProxy) -> io::Result<TcpStream> {
    let addresses = match &proxy.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let (dialer, name) = (Arc::clone(&dialer), name.clone());
            tokio::task::spawn_blocking(move || dialer.resolve(&name)).await.map_err(io::Error::other)??
        }
    };
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match dialer.dial(SocketAddr::new(address, proxy.port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads the answer to CONNECT to its empty line, byte by byte: what follows is the host's.
async fn read_answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        answer.push(stream.read_u8().await?);
    }
    let status = answer.split(|byte| *byte == b' ').nth(1);
    match status.is_some_and(|status| status.starts_with(b"2")) {
        true => Ok(()),
        false => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_http_url() {
        let proxy = UpstreamProxy::parse("http://a%40b:p%3Aw@proxy.example:3128/", Vec::new()).unwrap();
        assert_eq!((proxy.host.to_string().as_str(), proxy.port), ("proxy.example", 3128));
        assert_eq!(proxy.authorization.as_deref(), Some("Basic YUBiOnA6dw=="));
        assert!(!format!("{proxy:?}").contains("YUBi"));
        assert_eq!(UpstreamProxy::parse("10.0.0.1:8080", Vec::new()).unwrap().port, 8080);
        for url in ["https://proxy.example", "socks5://proxy.example", "http://", "http://x:port"] {
            assert_eq!(UpstreamProxy::parse(url, Vec::new()), Err(UnusableProxy), "{url}");
        }
        assert_eq!(percent_decoded("a%zz%4"), b"a%zz%4");
    }

    #[test]
    fn hosts_that_no_proxy_names_are_reached_directly() {
        let direct = ["internal.example", ".corp", "*.lab.example", "10.0.0.9", "port.example:8443"];
        let direct = direct.map(str::to_owned).to_vec();
        let proxy = UpstreamProxy::parse("http://proxy.example", direct).unwrap();
        for (host, port, expected) in [
            ("internal.example", 443, true),
            ("a.internal.example", 443, true),
            ("notinternal.example", 443, false),
            ("a.corp", 443, true),
            ("a.lab.example", 443, true),
            ("10.0.0.9", 443, true),
            ("110.0.0.9", 443, false),
            ("port.example", 8443, true),
            ("port.example", 443, false),
            ("localhost", 80, true),
            ("127.0.0.1", 80, true),
            ("other.example", 443, false),
        ] {
            assert_eq!(proxy.exempts(&Host::parse(host).unwrap(), port), expected, "{host}:{port}");
        }
        let all = UpstreamProxy::parse("http://proxy.example", vec!["*".to_owned()]).unwrap();
        assert!(all.exempts(&Host::parse("other.example").unwrap(), 443));
    }
}
