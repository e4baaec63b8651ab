//! SOCKS5 (RFC 1928), as far as needed for outgoing connections: no authentication, `CONNECT`, names and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::host::Host;
use crate::refusal_reason::RefusalReason;
use crate::wire::ParseStatus;

/// The response to a greeting: "no authentication".
pub const CHOSEN_METHOD: [u8; 2] = [5, 0];
/// The response if none of the offered methods is acceptable.
pub const NO_METHOD: [u8; 2] = [5, 0xff];
/// The rejection of a SOCKS4 request, in the SOCKS4 format.
pub const SOCKS4_REFUSED: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// Why a greeting without "no authentication" is refused.
pub const PASSWORD: RefusalReason = RefusalReason::Unsupported("SOCKS5 with a password");
/// Why SOCKS4 is refused.
pub const SOCKS4: RefusalReason = RefusalReason::Unsupported("SOCKS4");

/// The reply to a request. Its bound address is always zero, because the real one would reveal the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocksReply {
    /// The tunnel is open.
    Succeeded = 0,
    /// Any other failure.
    Failed = 1,
    /// Refused by the allowlist.
    NotAllowed = 2,
    /// The name has no address, or none could be connected to.
    Unreachable = 4,
    /// Unsupported command: BIND or UDP ASSOCIATE.
    Command = 7,
    /// Unknown address type.
    AddressType = 8,
}

impl SocksReply {
    fn for_reason(reason: RefusalReason) -> Self {
        match reason {
            RefusalReason::Unresolved | RefusalReason::Unreachable => Self::Unreachable,
            RefusalReason::Unsupported(_) => Self::Command,
            RefusalReason::Malformed(ADDRESS_TYPE) => Self::AddressType,
            RefusalReason::Malformed(_) | RefusalReason::TooSlow | RefusalReason::TooLarge => Self::Failed,
            _ => Self::NotAllowed,
        }
    }

    /// The encoded reply.
    #[must_use]
    pub fn bytes(self) -> [u8; 10] {
        [5, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// The response to a greeting or request that is refused or failed.
#[must_use]
pub fn refusal(reason: RefusalReason) -> Vec<u8> {
    match reason {
        PASSWORD => NO_METHOD.to_vec(),
        _ => SocksReply::for_reason(reason).bytes().to_vec(),
    }
}

const ADDRESS_TYPE: &str = "the type of the address is unknown";

/// Parses a greeting; the value is whether it offers "no authentication".
///
/// # Errors
/// When it is not a SOCKS5 greeting.
pub fn read_greeting(bytes: &[u8]) -> Result<ParseStatus<bool>, RefusalReason> {
    match bytes {
        [] | [5] => Ok(ParseStatus::Partial),
        [5, count, methods @ ..] => match methods.get(..usize::from(*count)) {
            Some(methods) => {
                Ok(ParseStatus::Complete { value: methods.contains(&0), length: 2 + methods.len() })
            }
            None => Ok(ParseStatus::Partial),
        },
        _ => Err(RefusalReason::Malformed("the version is not 5")),
    }
}

/// Parses a request.
///
/// # Errors
/// When it is malformed, is not a `CONNECT`, or its host is not in canonical form.
pub fn read_request(bytes: &[u8]) -> Result<ParseStatus<(Host, u16)>, RefusalReason> {
    match bytes {
        [] | [5] | [5, _] | [5, _, 0] => Ok(ParseStatus::Partial),
        [5, 1, 0, kind, rest @ ..] => read_target(*kind, rest),
        [5, 2, 0, ..] => Err(RefusalReason::Unsupported("SOCKS5 BIND")),
        [5, 3, 0, ..] => Err(RefusalReason::Unsupported("SOCKS5 UDP ASSOCIATE")),
        [5, _, 0, ..] => Err(RefusalReason::Unsupported("this SOCKS5 command")),
        [5, ..] => Err(RefusalReason::Malformed("the reserved byte is not zero")),
        _ => Err(RefusalReason::Malformed("the version is not 5")),
    }
}

fn read_target(kind: u8, rest: &[u8]) -> Result<ParseStatus<(Host, u16)>, RefusalReason> {
    let (skipped, length) = match (kind, rest) {
        (1, _) => (0, 4),
        (4, _) => (0, 16),
        (3, [length, ..]) => (1, usize::from(*length)),
        (3, []) => return Ok(ParseStatus::Partial),
        _ => return Err(RefusalReason::Malformed(ADDRESS_TYPE)),
    };
    let end = skipped + length;
    let (Some(host), Some([high, low])) = (rest.get(skipped..end), rest.get(end..end + 2)) else {
        return Ok(ParseStatus::Partial);
    };
    let host = read_host(host, kind)?;
    match u16::from_be_bytes([*high, *low]) {
        0 => Err(RefusalReason::Malformed("the port is zero")),
        port => Ok(ParseStatus::Complete { value: (host, port), length: 4 + end + 2 }),
    }
}

fn read_host(bytes: &[u8], kind: u8) -> Result<Host, RefusalReason> {
    let address = match kind {
        1 => <[u8; 4]>::try_from(bytes).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
        4 => <[u8; 16]>::try_from(bytes).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    };
    match address {
        Some(address) => Ok(Host::from_address(address)?),
        // Invalid UTF-8 becomes U+FFFD, which is not ASCII and is therefore refused.
        None => Ok(Host::parse(&String::from_utf8_lossy(bytes))?),
    }
}
