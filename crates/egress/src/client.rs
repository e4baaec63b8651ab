//! The command's end of a connection while it says what it wants.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::host::Host;
use crate::refusal_reason::RefusalReason;
use crate::relay::{RelayError, RelaySocket};
use crate::wire::{ParseStatus, ProxyProtocol, http, socks};

/// Bytes read at once before a request is whole.
const READ_BYTES: usize = 4096;

/// A connection from the command, and what has been read of it but not used.
pub(crate) struct ClientConnection {
    pub(crate) socket: RelaySocket,
    pub(crate) unread: Vec<u8>,
}

/// What a command wants.
pub(crate) enum EgressRequest {
    /// A tunnel.
    Tunnel { host: Host, port: u16 },
    /// One plain request.
    Forward(http::ForwardRequest),
}

impl ClientConnection {
    pub(crate) fn new(socket: RelaySocket) -> Self {
        Self { socket, unread: Vec::new() }
    }

    /// What the connection speaks.
    pub(crate) async fn protocol(&mut self) -> Result<ProxyProtocol, RelayError> {
        loop {
            match self.unread.first() {
                Some(first) => return Ok(ProxyProtocol::detect(*first)?),
                None => self.fill().await?,
            };
        }
    }

    /// The whole request. SOCKS5 has a greeting before it, which is answered here.
    pub(crate) async fn read_request(
        &mut self,
        protocol: ProxyProtocol,
    ) -> Result<EgressRequest, RelayError> {
        match protocol {
            ProxyProtocol::Http => match self.read(http::read_head, Some(b'\n')).await? {
                http::ProxyRequest::Connect { host, port } => Ok(EgressRequest::Tunnel { host, port }),
                http::ProxyRequest::Forward(forward) => Ok(EgressRequest::Forward(forward)),
            },
            ProxyProtocol::Socks5 => {
                if !self.read(socks::read_greeting, None).await? {
                    return Err(socks::PASSWORD.into());
                }
                self.send(&socks::CHOSEN_METHOD).await?;
                let (host, port) = self.read(socks::read_request, None).await?;
                Ok(EgressRequest::Tunnel { host, port })
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), RelayError> {
        Ok(self.socket.stream.write_all(bytes).await?)
    }

    /// Reads until `reader` has a whole value, and takes it off. Where only a certain byte can complete one,
    /// the reader is not asked before that byte came: a head that trickles in would be read from its
    /// beginning for each byte.
    async fn read<T>(
        &mut self,
        reader: fn(&[u8]) -> Result<ParseStatus<T>, RefusalReason>,
        completed_by: Option<u8>,
    ) -> Result<T, RelayError> {
        let mut worth_reading = true;
        loop {
            if worth_reading && let ParseStatus::Complete { value, length } = reader(&self.unread)? {
                self.unread.drain(..length.min(self.unread.len()));
                return Ok(value);
            }
            let before = self.unread.len();
            self.fill().await?;
            let new = self.unread.get(before..).unwrap_or_default();
            worth_reading = completed_by.is_none_or(|byte| new.contains(&byte))
                || self.unread.len() >= http::MAX_HEAD_BYTES;
        }
    }

    async fn fill(&mut self) -> Result<(), RelayError> {
        self.unread.reserve(READ_BYTES);
        let mut limited = (&mut self.socket.stream).take(READ_BYTES as u64);
        match limited.read_buf(&mut self.unread).await? {
            0 => Err(RelayError::Disconnected),
            _ => Ok(()),
        }
    }
}
