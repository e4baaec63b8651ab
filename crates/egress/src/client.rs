//! A client connection while its request is being read.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::host::Host;
use crate::refusal_reason::RefusalReason;
use crate::relay::{RelayError, RelaySocket};
use crate::wire::{ParseStatus, ProxyProtocol, http, socks};

/// Bytes per read until a request is complete.
const READ_BYTES: usize = 4096;

/// A client connection, and the bytes read but not consumed.
pub(crate) struct ClientConnection {
    pub(crate) socket: RelaySocket,
    pub(crate) unread: Vec<u8>,
}

/// A client's request.
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

    /// The protocol of the connection.
    pub(crate) async fn protocol(&mut self) -> Result<ProxyProtocol, RelayError> {
        loop {
            match self.unread.first() {
                Some(first) => return Ok(ProxyProtocol::detect(*first)?),
                None => self.fill().await?,
            };
        }
    }

    /// Reads the whole request. For SOCKS5 it also answers the greeting before it.
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

    /// Reads until `reader` returns a complete value, and consumes it. If only a certain byte can complete it, `reader` is not called before that
    /// byte arrives: otherwise a head that trickles in would be parsed from its start for every byte (quadratic time).
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
