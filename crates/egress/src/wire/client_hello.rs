//! The server name (SNI) in a TLS ClientHello.
//!
//! If many names share one server, a tunnel to an allowed host may still request another name from it. The ClientHello names it in clear, and is
//! parsed here. It may span several records and arrive in any number of pieces.

use crate::refusal_reason::RefusalReason;
use crate::wire::ParseStatus;

/// Maximum size of a ClientHello.
pub const MAX_CLIENT_HELLO_BYTES: usize = 16 << 10;

const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// The first bytes of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientHello {
    /// Not TLS.
    NotTls,
    /// TLS without a server name.
    NoServerName,
    /// TLS for this server name, as sent.
    ServerName(String),
}

/// Parses the first bytes of a tunnel.
///
/// # Errors
/// When they begin like TLS, and contain no single server name or encrypt it.
pub fn read_client_hello(bytes: &[u8]) -> Result<ParseStatus<ClientHello>, RefusalReason> {
    match bytes {
        [] | [0x14..=0x17] => Ok(ParseStatus::Partial),
        [0x16, 3, ..] => read_records(bytes),
        // A record of another type before the ClientHello would hide it from this parser, and some servers skip such a record.
        [0x14 | 0x15 | 0x17, 3, ..] => Err(RefusalReason::Handshake),
        _ => Ok(ParseStatus::Complete { value: ClientHello::NotTls, length: 0 }),
    }
}

/// Reassembles the message from its records.
fn read_records(bytes: &[u8]) -> Result<ParseStatus<ClientHello>, RefusalReason> {
    let mut message = Vec::new();
    let mut rest = bytes;
    let mut length = 0;
    loop {
        if let Some(whole) = whole_message(&message)? {
            return Ok(ParseStatus::Complete { value: read_message(whole)?, length });
        }
        let [kind, major, _minor, high, low, after @ ..] = rest else { break };
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != 0x16 || *major != 3 || size == 0 {
            return Err(RefusalReason::Handshake);
        }
        let Some((fragment, after)) = after.split_at_checked(size) else { break };
        message.extend_from_slice(fragment);
        length += 5 + size;
        rest = after;
    }
    if bytes.len() < MAX_CLIENT_HELLO_BYTES {
        Ok(ParseStatus::Partial)
    } else {
        Err(RefusalReason::Handshake)
    }
}

/// The body of the message, once it is complete.
fn whole_message(message: &[u8]) -> Result<Option<&[u8]>, RefusalReason> {
    match message {
        [1, a, b, c, body @ ..] => {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if length > MAX_CLIENT_HELLO_BYTES {
                Err(RefusalReason::Handshake)
            } else {
                Ok(body.get(..length))
            }
        }
        [] | [1, ..] => Ok(None),
        _ => Err(RefusalReason::Handshake),
    }
}

fn read_message(body: &[u8]) -> Result<ClientHello, RefusalReason> {
    find_name(&mut ByteCursor(body)).ok_or(RefusalReason::Handshake)?
}

/// `None` if the message is truncated or has trailing bytes.
fn find_name(reader: &mut ByteCursor<'_>) -> Option<Result<ClientHello, RefusalReason>> {
    reader.take(2 + 32)?; // version and random
    reader.block8()?; // session
    reader.block16()?; // ciphers
    reader.block8()?; // compression
    if reader.0.is_empty() {
        return Some(Ok(ClientHello::NoServerName));
    }
    let mut extensions = ByteCursor(reader.block16()?);
    let mut hello = ClientHello::NoServerName;
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let content = extensions.block16()?;
        match kind {
            ENCRYPTED_CLIENT_HELLO => return Some(Err(RefusalReason::HiddenName)),
            SERVER_NAME if hello != ClientHello::NoServerName => return None,
            SERVER_NAME => hello = ClientHello::ServerName(sole_server_name(content)?),
            _ => {}
        }
    }
    reader.0.is_empty().then_some(Ok(hello))
}

/// The list could hold several names and other types; no honest client sends them.
fn sole_server_name(content: &[u8]) -> Option<String> {
    let mut content = ByteCursor(content);
    let mut list = ByteCursor(content.block16()?);
    let kind = list.take(1)?;
    let name = list.block16()?;
    let alone = content.0.is_empty() && list.0.is_empty() && kind == [0];
    alone.then(|| String::from_utf8(name.to_vec()).ok()).flatten()
}

/// Consumes bytes from the front.
struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }

    fn block8(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?.first().copied()?;
        self.take(usize::from(length))
    }

    fn block16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.take(usize::from(length))
    }
}
