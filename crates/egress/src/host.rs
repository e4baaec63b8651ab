//! Host names and addresses in one canonical form each; any other is refused.
//!
//! Filters are bypassed by names that two programs parse differently: `0177.0.0.1`, `evil\0.good.com`, `a%2ecom`. Only the canonical form of a host
//! is accepted here, so that later resolving or dialling cannot interpret it differently.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// The longest DNS name, without its trailing dot.
const MAX_NAME_BYTES: usize = 253;
/// The longest label.
const MAX_LABEL_BYTES: usize = 63;

/// A host in canonical form: names in lower case without a trailing dot, addresses in binary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name, to be resolved.
    Name(String),
    /// A literal address.
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum HostError {
    /// Empty.
    #[error("the host is empty")]
    Empty,
    /// Longer than DNS allows.
    #[error("the host name is too long")]
    TooLong,
    /// NUL or another control character.
    #[error("the host holds a control character")]
    Control,
    /// White space.
    #[error("the host holds white space")]
    WhiteSpace,
    /// Non-ASCII characters.
    #[error("the host is not ASCII; write it in punycode (`xn--…`)")]
    NotAscii,
    /// A percent sign: `%2e` and the like, or the zone of an IPv6 address.
    #[error("the host holds a percent sign")]
    Percent,
    /// `user@host`.
    #[error("the host holds user information")]
    UserInformation,
    /// Any other character that a host name cannot contain.
    #[error("the host holds a character that no host name has")]
    Character,
    /// Two consecutive dots, or a leading one.
    #[error("the host has an empty label")]
    EmptyLabel,
    /// A label that begins or ends with a hyphen.
    #[error("a label of the host begins or ends with a hyphen")]
    Hyphen,
    /// A number that is not a dotted quad: octal, hexadecimal, shortened or a single number.
    #[error("the host is a number but not an IPv4 address in plain dotted form")]
    OddNumber,
    /// Brackets without an IPv6 address, or an IPv6 address without brackets.
    #[error("the host is not a plain IPv6 address in brackets")]
    OddBrackets,
    /// An IPv6 address that embeds an IPv4 address.
    #[error("the IPv6 address carries an IPv4 address")]
    Embedded,
    /// The port is missing, zero, too large or not plain digits.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

impl Host {
    /// Parses a name or an address; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// When the text is not the canonical form of a host.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        text.chars().try_for_each(check_character)?;
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.contains(['[', ']', ':']) {
            let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let address = inner.and_then(|inner| inner.parse().ok()).ok_or(HostError::OddBrackets)?;
            return Self::from_address(IpAddr::V6(address));
        }
        if ends_in_number(text) {
            let address: Ipv4Addr = text.parse().map_err(|_| HostError::OddNumber)?;
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        parse_name(text).map(Self::Name)
    }

    /// An address in binary form.
    ///
    /// # Errors
    /// When it is an IPv6 address that embeds an IPv4 address: that has a canonical form of its own.
    pub fn from_address(address: IpAddr) -> Result<Self, HostError> {
        match address {
            IpAddr::V6(v6) if carries_ipv4(v6) => Err(HostError::Embedded),
            _ => Ok(Self::Address(address)),
        }
    }

    /// Parses `host:port`; the port is required unless there is a default.
    ///
    /// # Errors
    /// When the host or the port is not in canonical form.
    pub fn parse_with_port(text: &str, default: Option<u16>) -> Result<(Self, u16), HostError> {
        let (host, port) = split_port(text);
        let host = Self::parse(host)?;
        let port = match port {
            Some(port) => parse_port(port)?,
            None => default.ok_or(HostError::Port)?,
        };
        Ok((host, port))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Splits at the colon after the host; colons within brackets belong to the address.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

/// A port without sign, leading zero or white space.
pub(crate) fn parse_port(text: &str) -> Result<u16, HostError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or(HostError::Port)
}

fn check_character(character: char) -> Result<(), HostError> {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | '[' | ']' | ':' => Ok(()),
        ' ' | '\t' => Err(HostError::WhiteSpace),
        '%' => Err(HostError::Percent),
        '@' => Err(HostError::UserInformation),
        _ if character.is_ascii_control() => Err(HostError::Control),
        _ if !character.is_ascii() => Err(HostError::NotAscii),
        _ => Err(HostError::Character),
    }
}

/// Whether a resolver might parse the text as an IPv4 address: the "ends in a number" check of the URL standard.
fn ends_in_number(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let last = text.rsplit('.').next().unwrap_or(text);
    let digits = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match digits {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Underscores are accepted: service and bucket names contain them, and no resolver treats them as ambiguous.
fn parse_name(text: &str) -> Result<String, HostError> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.len() > MAX_NAME_BYTES {
        return Err(HostError::TooLong);
    }
    name.split('.').try_for_each(check_label)?;
    Ok(name.to_ascii_lowercase())
}

fn check_label(label: &str) -> Result<(), HostError> {
    match label {
        "" => Err(HostError::EmptyLabel),
        _ if label.len() > MAX_LABEL_BYTES => Err(HostError::TooLong),
        _ if label.starts_with('-') || label.ends_with('-') => Err(HostError::Hyphen),
        _ => Ok(()),
    }
}

/// IPv4-mapped, -compatible and -translated, NAT64 (including its local-use prefix), 6to4 and Teredo addresses.
pub(crate) fn carries_ipv4(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => false,
        [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0, 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] => true,
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 1, ..] => true,
        [0x2002, ..] | [0x2001, 0, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_read_back_as_the_same_host() {
        for text in ["example.com", "EXAMPLE.com.", "10.0.0.5", "[::1]", "[2606:4700::1]", "a_b.example", "x"]
        {
            let host = Host::parse(text).unwrap();
            assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }

    #[test]
    fn ports_have_one_spelling() {
        assert_eq!(
            Host::parse_with_port("example.com:8443", None),
            Ok((Host::Name("example.com".to_owned()), 8443))
        );
        assert_eq!(Host::parse_with_port("[::1]:1", None).map(|(_, port)| port), Ok(1));
        assert_eq!(Host::parse_with_port("example.com", Some(80)).map(|(_, port)| port), Ok(80));
        for text in
            ["e.com", "e.com:", "e.com:0", "e.com:080", "e.com:+80", "e.com:65536", "e.com:8 0", "[::1]"]
        {
            assert_eq!(Host::parse_with_port(text, None), Err(HostError::Port), "{text}");
        }
        for text in ["::1:80", "[::1:80", "::1]:80", "a:b:80", "[[::1]]:80", "[1.2.3.4]:80"] {
            assert_eq!(Host::parse_with_port(text, None), Err(HostError::OddBrackets), "{text}");
        }
    }
}
