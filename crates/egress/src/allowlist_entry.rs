//! Parses one line of `network:` strictly: an entry that could mean more than it seems to is refused, with a remedy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::address::AddressClass;
use crate::host::{Host, HostError, carries_ipv4, parse_port, split_port};

/// A wider IPv4 network is refused, because it amounts to everything.
const MIN_PREFIX_V4: u32 = 8;
/// The same for IPv6.
const MIN_PREFIX_V6: u32 = 32;
/// Second-level labels below which anyone can register names, such as `co.uk`.
const SHARED_SECOND_LEVEL: &[&str] = &["ac", "co", "com", "edu", "gov", "go", "ne", "net", "or", "org"];

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllowlistEntry {
    pub(crate) host: AllowedHost,
    pub(crate) ports: AllowedPorts,
}

/// What an entry matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllowedHost {
    /// One name.
    Name(String),
    /// Every name with this suffix, which begins with a dot.
    Subdomains(String),
    /// One address.
    Address(IpAddr),
    /// Every address with this prefix.
    Network { base: IpAddr, prefix: u32 },
    /// This machine.
    Localhost,
    /// Every name and address of the internet.
    Public,
}

/// The ports of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedPorts {
    /// 443 and 80.
    HttpAndHttps,
    /// The given port.
    One(u16),
}

impl AllowedPorts {
    pub(crate) fn contains(self, port: u16) -> bool {
        match self {
            Self::HttpAndHttps => port == 443 || port == 80,
            Self::One(one) => port == one,
        }
    }
}

/// An invalid `network` entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the network entry `{entry}` is not taken: {problem}")]
pub struct AllowlistError {
    entry: String,
    problem: EntryProblem,
}

impl AllowlistError {
    /// An entry that names more than one host, or one that is not public, where only one public host is taken.
    pub(crate) fn not_public(entry: &str) -> Self {
        Self { entry: shown(entry), problem: EntryProblem::NotPublic }
    }

    /// The entry, with unprintable characters escaped.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// What is wrong with it.
    #[must_use]
    pub fn problem(&self) -> &EntryProblem {
        &self.problem
    }

    /// What to write instead.
    #[must_use]
    pub fn help(&self) -> String {
        self.problem.help()
    }
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EntryProblem {
    /// Not the canonical form of a host or port.
    #[error("{0}")]
    Host(#[from] HostError),
    /// A URL.
    #[error("it holds a scheme or a path")]
    Url,
    /// A star that is not the whole first label.
    #[error("a `*` stands only for everything before a domain")]
    Star,
    /// `*`, `*.com`, `*.co.uk`.
    #[error("it would allow names that belong to everybody")]
    TooWide,
    /// A network whose address has bits set beyond its prefix.
    #[error("the address has bits beyond the prefix")]
    HostBits {
        /// The network that was probably meant.
        network: String,
    },
    /// A prefix that is not a number, or is out of range.
    #[error("the prefix is not a number that fits the address")]
    Prefix,
    /// A network that amounts to everything.
    #[error("the network is too wide")]
    NetworkTooWide,
    /// An unspecified, multicast, broadcast or reserved address.
    #[error("the address is never a destination")]
    Never,
    /// A wildcard, a network, this machine or an address that is not public, where one public host is needed.
    #[error("it is not one public host")]
    NotPublic,
}

impl EntryProblem {
    fn help(&self) -> String {
        match self {
            Self::Host(HostError::NotAscii) => "write the name in punycode, `xn--…`".to_owned(),
            Self::Host(HostError::Embedded) => "write the IPv4 address itself".to_owned(),
            Self::Host(HostError::UserInformation) | Self::Url => {
                "write the host alone, with a port if it is not 443 or 80".to_owned()
            }
            Self::Host(HostError::OddBrackets) => "write IPv6 addresses as `[2001:db8::1]:443`".to_owned(),
            Self::Host(_) => {
                "write a host such as `example.com`, `*.example.com` or `example.com:8443`".to_owned()
            }
            Self::Star => "write `*.example.com` for the names below `example.com`".to_owned(),
            Self::TooWide => "name the domains one by one, such as `*.example.com`".to_owned(),
            Self::HostBits { network } => format!("write `{network}`, or the address without a prefix"),
            Self::Prefix => "write a network such as `10.1.0.0/16` or `fd12::/64`".to_owned(),
            Self::NetworkTooWide => {
                format!("name networks of at least /{MIN_PREFIX_V4} (IPv4) or /{MIN_PREFIX_V6} (IPv6)")
            }
            Self::Never => "name an address that a machine can have".to_owned(),
            Self::NotPublic => {
                "name one host of the internet; the operator can list others in `network`".to_owned()
            }
        }
    }
}

impl AllowlistEntry {
    pub(crate) fn parse(text: &str) -> Result<Self, AllowlistError> {
        read(text).map_err(|problem| AllowlistError { entry: shown(text), problem })
    }
}

/// An entry in an error message.
fn shown(text: &str) -> String {
    text.escape_debug().take(300).collect()
}

fn read(text: &str) -> Result<AllowlistEntry, EntryProblem> {
    if text.contains("://") {
        return Err(EntryProblem::Url);
    }
    let (host, port) = split_entry(text);
    let what = read_host(host)?;
    let ports = match port {
        Some(port) => AllowedPorts::One(parse_port(port)?),
        None => AllowedPorts::HttpAndHttps,
    };
    Ok(AllowlistEntry { host: what, ports })
}

/// An IPv6 network may be written without brackets, because its prefix marks its end. An address may not: in `fd12::5:5432` the port would be
/// ambiguous.
fn split_entry(text: &str) -> (&str, Option<&str>) {
    let network = text.split_once('/').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
    if network { (text, None) } else { split_port(text) }
}

fn read_host(host: &str) -> Result<AllowedHost, EntryProblem> {
    if let Some((address, prefix)) = bare(host).split_once('/') {
        return read_network(address, prefix);
    }
    if let Some(domain) = host.strip_prefix("*.") {
        return read_domain(domain);
    }
    match host {
        "*" => return Err(EntryProblem::TooWide),
        "public" => return Ok(AllowedHost::Public),
        _ if host.contains('*') => return Err(EntryProblem::Star),
        _ => {}
    }
    match Host::parse(host)? {
        Host::Name(name) if name == "localhost" => Ok(AllowedHost::Localhost),
        Host::Name(name) => Ok(AllowedHost::Name(name)),
        Host::Address(address) => destination(address).map(AllowedHost::Address),
    }
}

/// Without the brackets of an IPv6 network.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

fn read_domain(domain: &str) -> Result<AllowedHost, EntryProblem> {
    if domain.contains('*') {
        return Err(EntryProblem::Star);
    }
    let Host::Name(name) = Host::parse(domain)? else { return Err(EntryProblem::Star) };
    let labels: Vec<&str> = name.split('.').collect();
    match labels.as_slice() {
        [] | [_] => Err(EntryProblem::TooWide),
        [second, top] if top.len() == 2 && SHARED_SECOND_LEVEL.contains(second) => Err(EntryProblem::TooWide),
        _ => Ok(AllowedHost::Subdomains(format!(".{name}"))),
    }
}

fn read_network(address: &str, prefix: &str) -> Result<AllowedHost, EntryProblem> {
    let base: IpAddr = address.parse().map_err(|_| EntryProblem::Url)?;
    let (width, widest) = if base.is_ipv4() { (32, MIN_PREFIX_V4) } else { (128, MIN_PREFIX_V6) };
    let plain = prefix.len() <= 3 && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u32 = prefix.parse().ok().filter(|_| plain).ok_or(EntryProblem::Prefix)?;
    if prefix > width {
        return Err(EntryProblem::Prefix);
    }
    if prefix < widest {
        return Err(EntryProblem::NetworkTooWide);
    }
    let network = masked(base, prefix);
    if network != base {
        return Err(EntryProblem::HostBits { network: format!("{network}/{prefix}") });
    }
    destination(base).map(|base| AllowedHost::Network { base, prefix })
}

fn destination(address: IpAddr) -> Result<IpAddr, EntryProblem> {
    match address {
        IpAddr::V6(v6) if carries_ipv4(v6) => Err(EntryProblem::Host(HostError::Embedded)),
        _ if AddressClass::of(address) == AddressClass::Never => Err(EntryProblem::Never),
        _ => Ok(address),
    }
}

/// The address with all bits beyond the prefix cleared.
fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}
