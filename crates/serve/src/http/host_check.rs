//! The allowlists for `Host` and `Origin`, against DNS rebinding and cross-site requests.
//!
//! A web page can make a browser send requests to this machine, and can point a DNS name of its own at it. The browser still sends the true name in
//! `Host` and the true page in `Origin`. Both are checked before anything else of a request, and unknown values are rejected.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::error::HttpError;

/// The names of the loopback interface.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostRejection {
    /// `Host` is missing, repeated or malformed.
    NoHost,
    /// `Host` or the request target names another host.
    OtherHost,
    /// `Origin` is not allowed.
    OtherOrigin,
}

/// A host, and a port if the port must match too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

/// The origin of a page (RFC 6454).
#[derive(Clone, Debug, PartialEq, Eq)]
struct WebOrigin {
    scheme: String,
    host: String,
    port: u16,
}

/// The accepted hosts and origins.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    hosts: Vec<Authority>,
    origins: Vec<WebOrigin>,
}

impl AllowedHosts {
    /// The allowlists: the loopback names if listening on loopback or on all interfaces, the address itself, and what the operator configured.
    pub(crate) fn new(
        listening: SocketAddr,
        hosts: &[String],
        origins: &[String],
        public_url: Option<&str>,
    ) -> Result<Self, HttpError> {
        let mut own = own_hosts(listening);
        let mut pages: Vec<WebOrigin> = own
            .iter()
            .map(|host| WebOrigin { scheme: "http".to_owned(), host: host.clone(), port: listening.port() })
            .collect();
        if let Some(url) = public_url {
            let origin = public_origin(url).ok_or_else(|| HttpError::BadUrl(url.to_owned()))?;
            own.push(origin.host.clone());
            pages.push(origin);
        }
        let mut named: Vec<Authority> = own.into_iter().map(|host| Authority { host, port: None }).collect();
        for host in hosts {
            named.push(authority(host).ok_or_else(|| HttpError::BadHost(host.clone()))?);
        }
        for origin in origins {
            pages.push(self::origin(origin).ok_or_else(|| HttpError::BadOrigin(origin.clone()))?);
        }
        Ok(Self { hosts: named, origins: pages })
    }

    /// Checks `Host`, the request target and `Origin`.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HostRejection> {
        if self.other_host(uri, headers)?.is_some() {
            return Err(HostRejection::OtherHost);
        }
        let Some(page) = only(headers, &ORIGIN).map_err(|()| HostRejection::OtherOrigin)? else {
            return Ok(());
        };
        let page = origin(page).ok_or(HostRejection::OtherOrigin)?;
        if self.origins.contains(&page) { Ok(()) } else { Err(HostRejection::OtherOrigin) }
    }

    /// The host that a request is for, if it is not allowed.
    pub(crate) fn other_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<String>, HostRejection> {
        let host = only(headers, &HOST).map_err(|()| HostRejection::NoHost)?.ok_or(HostRejection::NoHost)?;
        let host = authority(host).ok_or(HostRejection::NoHost)?;
        // For an absolute-form target, proxies ignore `Host` and use the target (RFC 9112, section 3.2.2), so both must be allowed.
        let target = uri.authority().map(|target| authority(target.as_str()).ok_or(HostRejection::NoHost));
        for asked in [Some(Ok(host)), target].into_iter().flatten() {
            let asked = asked?;
            if !self.hosts.iter().any(|known| known.covers(&asked)) {
                return Ok(Some(asked.host));
            }
        }
        Ok(None)
    }
}

impl Authority {
    fn covers(&self, asked: &Self) -> bool {
        self.host == asked.host && (self.port.is_none() || self.port == asked.port)
    }
}

/// Whether an address is on the loopback interface, IPv4-mapped IPv6 included.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn own_hosts(listening: SocketAddr) -> Vec<String> {
    let ip = listening.ip().to_canonical();
    let mut own = Vec::new();
    if ip.is_loopback() || ip.is_unspecified() {
        own.extend(LOOPBACK.map(str::to_owned));
    }
    let shown = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    if !ip.is_unspecified() && !own.contains(&shown) {
        own.push(shown);
    }
    own
}

/// The only value of a header. A repeated header is an error, because a proxy might use another of the values.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => HeaderValue::to_str(value).map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// `name`, `name:port`, `[address]` or `[address]:port`, and nothing else.
fn authority(text: &str) -> Option<Authority> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            let address: std::net::Ipv6Addr = address.parse().ok()?;
            (format!("[{address}]"), port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => {
            let (name, port) = text.split_once(':').map_or((text, ""), |(name, port)| (name, port));
            (name.to_ascii_lowercase(), Some(port))
        }
    };
    let port = match port? {
        "" if text.ends_with(':') => return None,
        "" => None,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        _ => return None,
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let good = host.starts_with('[') || (!host.is_empty() && host.bytes().all(is_name));
    good.then_some(Authority { host, port })
}

/// `scheme://host` or `scheme://host:port`, and nothing else.
fn origin(text: &str) -> Option<WebOrigin> {
    let (scheme, rest) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let Authority { host, port } = authority(rest)?;
    let usual = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port.or(usual)?;
    let good = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    good.then_some(WebOrigin { scheme, host, port })
}

/// The origin of a URL that may have a path.
fn public_origin(url: &str) -> Option<WebOrigin> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next()?;
    matches!(scheme, "http" | "https").then(|| origin(&format!("{scheme}://{host}"))).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn names() -> AllowedHosts {
        let hosts = ["gate.example".to_owned(), "exact.example:9000".to_owned()];
        let origins = ["https://app.example".to_owned(), "http://other.example:8080".to_owned()];
        AllowedHosts::new(
            "127.0.0.1:8420".parse().unwrap(),
            &hosts,
            &origins,
            Some("https://public.example/gate"),
        )
        .unwrap()
    }

    #[test]
    fn hosts_are_those_of_this_machine_and_those_that_were_named() {
        for (host, expected) in [
            ("localhost", Ok(())),
            ("LocalHost:8420", Ok(())),
            ("localhost:1", Ok(())),
            ("127.0.0.1:8420", Ok(())),
            ("[::1]:8420", Ok(())),
            ("[0:0:0:0:0:0:0:1]", Ok(())),
            ("gate.example", Ok(())),
            ("gate.example:443", Ok(())),
            ("public.example", Ok(())),
            ("exact.example:9000", Ok(())),
            ("exact.example", Err(HostRejection::OtherHost)),
            ("exact.example:9001", Err(HostRejection::OtherHost)),
            ("evil.example", Err(HostRejection::OtherHost)),
            ("localhost.evil.example", Err(HostRejection::OtherHost)),
            ("evil-localhost", Err(HostRejection::OtherHost)),
            ("localhost.", Err(HostRejection::OtherHost)),
            ("127.0.0.2", Err(HostRejection::OtherHost)),
            ("127.1", Err(HostRejection::OtherHost)),
            ("2130706433", Err(HostRejection::OtherHost)),
            ("[::ffff:127.0.0.1]", Err(HostRejection::OtherHost)),
            ("[::1", Err(HostRejection::NoHost)),
            ("[::1]x", Err(HostRejection::NoHost)),
            ("localhost@evil.example", Err(HostRejection::NoHost)),
            ("user@localhost", Err(HostRejection::NoHost)),
            ("localhost:", Err(HostRejection::NoHost)),
            ("localhost:99999", Err(HostRejection::NoHost)),
            ("localhost:+80", Err(HostRejection::NoHost)),
            ("localhost:80:80", Err(HostRejection::NoHost)),
            ("localhost/x", Err(HostRejection::NoHost)),
            ("localhost evil", Err(HostRejection::NoHost)),
            ("localhöst", Err(HostRejection::NoHost)),
            ("", Err(HostRejection::NoHost)),
        ] {
            let found = names().check(&Uri::from_static("/mcp"), &headers(&[(HOST, host)]));
            assert_eq!(found, expected, "{host}");
        }
        let check = |headers| names().check(&Uri::from_static("/mcp"), &headers);
        assert_eq!(check(headers(&[])), Err(HostRejection::NoHost));
        assert_eq!(check(headers(&[(HOST, "localhost"), (HOST, "localhost")])), Err(HostRejection::NoHost));
    }

    #[test]
    fn a_target_in_full_must_be_ours_as_well() {
        let ours = headers(&[(HOST, "localhost:8420")]);
        let check = |uri: &'static str| names().check(&Uri::from_static(uri), &ours);
        assert_eq!(check("http://localhost:8420/mcp"), Ok(()));
        assert_eq!(check("http://evil.example/mcp"), Err(HostRejection::OtherHost));
        assert_eq!(check("http://evil@localhost/mcp"), Err(HostRejection::NoHost));
    }

    #[test]
    fn origins_are_equal_or_strange() {
        for (origin, good) in [
            ("http://localhost:8420", true),
            ("HTTP://LOCALHOST:8420", true),
            ("http://127.0.0.1:8420", true),
            ("http://[::1]:8420", true),
            ("https://app.example", true),
            ("https://app.example:443", true),
            ("http://other.example:8080", true),
            ("https://public.example", true),
            ("http://localhost", false),
            ("http://localhost:8421", false),
            ("https://localhost:8420", false),
            ("http://app.example", false),
            ("https://app.example:8443", false),
            ("https://app.example.evil.example", false),
            ("https://evil.example", false),
            ("https://app.example/", false),
            ("https://app.example@evil.example", false),
            ("null", false),
            ("NULL", false),
            ("", false),
            ("*", false),
            ("file://", false),
            ("localhost:8420", false),
        ] {
            let found = names()
                .check(&Uri::from_static("/mcp"), &headers(&[(HOST, "localhost:8420"), (ORIGIN, origin)]));
            assert_eq!(found.is_ok(), good, "{origin}: {found:?}");
        }
        let twice = headers(&[
            (HOST, "localhost"),
            (ORIGIN, "https://app.example"),
            (ORIGIN, "https://evil.example"),
        ]);
        assert_eq!(names().check(&Uri::from_static("/"), &twice), Err(HostRejection::OtherOrigin));
    }

    #[test]
    fn whoever_listens_elsewhere_is_not_called_localhost() {
        let outside = AllowedHosts::new("192.0.2.7:80".parse().unwrap(), &[], &[], None).unwrap();
        let check = |host| outside.check(&Uri::from_static("/"), &headers(&[(HOST, host)]));
        assert_eq!(check("192.0.2.7"), Ok(()));
        assert_eq!(check("localhost"), Err(HostRejection::OtherHost));
        let everywhere = AllowedHosts::new("0.0.0.0:80".parse().unwrap(), &[], &[], None).unwrap();
        let check = |host| everywhere.check(&Uri::from_static("/"), &headers(&[(HOST, host)]));
        assert_eq!(check("localhost"), Ok(()));
        assert_eq!(check("0.0.0.0"), Err(HostRejection::OtherHost));
        assert_eq!(check("192.0.2.7"), Err(HostRejection::OtherHost));
    }

    #[test]
    fn what_an_operator_names_wrongly_is_refused_at_the_start() {
        let at = "127.0.0.1:1".parse().unwrap();
        let one = |text: &str| vec![text.to_owned()];
        for host in ["", "*", "https://gate.example", "gate.example/"] {
            assert!(
                matches!(AllowedHosts::new(at, &one(host), &[], None), Err(HttpError::BadHost(_))),
                "{host}"
            );
        }
        for origin in ["", "*", "null", "app.example", "https://app.example/"] {
            assert!(
                matches!(AllowedHosts::new(at, &[], &one(origin), None), Err(HttpError::BadOrigin(_))),
                "{origin}"
            );
        }
        for url in ["", "gate.example", "ftp://gate.example", "https://"] {
            assert!(matches!(AllowedHosts::new(at, &[], &[], Some(url)), Err(HttpError::BadUrl(_))), "{url}");
        }
    }

    proptest! {
        /// Whatever is sent, it is accepted only if it is one of the names, in any case, with at most a port.
        #[test]
        fn nothing_but_a_name_is_let_in(host in "(localhost|127\\.0\\.0\\.1|\\[::1\\]|[a-z.@:/\\[\\]]{0,8}){1,2}(:[0-9]{0,5})?") {
            let plain = host.rsplit_once(':').filter(|(name, port)| {
                (!name.contains(':') || name.ends_with(']')) && port.parse::<u16>().is_ok()
            });
            let plain = plain.map_or(host.as_str(), |(name, _)| name);
            let expected = ["localhost", "127.0.0.1", "[::1]"].contains(&plain);
            let names = AllowedHosts::new("127.0.0.1:8420".parse().unwrap(), &[], &[], None).unwrap();
            let found = names.check(&Uri::from_static("/"), &headers(&[(HOST, &host)]));
            prop_assert_eq!(found.is_ok(), expected, "{}", host);
        }
    }
}
