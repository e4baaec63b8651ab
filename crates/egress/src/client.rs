//! The command's end of a connection while it says what it wants.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::host::Host;
use crate::reason::Reason;
use crate::relay::{Broken, Side};
use crate::wire::{Progress, Protocol, http, socks};

/// Bytes read at once before a request is whole.
const PIECE: usize = 4096;

/// A connection from the command, and what has been read of it but not used.
pub(crate) struct Client {
    pub(crate) side: Side,
    pub(crate) unread: Vec<u8>,
}

/// What a command wants.
pub(crate) enum Wish {
    /// A tunnel.
    Tunnel { host: Host, port: u16 },
    /// One plain request.
    Forward(http::Forward),
}

impl Client {
    pub(crate) fn new(side: Side) -> Self {
        Self { side, unread: Vec::new() }
    }

    /// What the connection speaks.
    pub(crate) async fn protocol(&mut self) -> Result<Protocol, Broken> {
        loop {
            match self.unread.first() {
                Some(first) => return Ok(Protocol::of(*first)?),
                None => self.fill().await?,
            };
        }
    }

    /// The whole request. SOCKS5 has a greeting before it, which is answered here.
    pub(crate) async fn wish(&mut self, protocol: Protocol) -> Result<Wish, Broken> {
        match protocol {
            Protocol::Http => match self.read(http::read_head, Some(b'\n')).await? {
                http::Request::Connect { host, port } => Ok(Wish::Tunnel { host, port }),
                http::Request::Forward(forward) => Ok(Wish::Forward(forward)),
            },
            Protocol::Socks5 => {
                if !self.read(socks::read_greeting, None).await? {
                    return Err(socks::PASSWORD.into());
                }
                self.say(&socks::CHOSEN_METHOD).await?;
                let (host, port) = self.read(socks::read_request, None).await?;
                Ok(Wish::Tunnel { host, port })
            }
        }
    }

    pub(crate) async fn say(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        Ok(self.side.stream.write_all(bytes).await?)
    }

    /// Reads until `reader` has a whole value, and takes it off. Where only a certain byte can complete one,
    /// the reader is not asked before that byte came: a head that trickles in would be read from its
    /// beginning for each byte.
    async fn read<T>(
        &mut self,
        reader: fn(&[u8]) -> Result<Progress<T>, Reason>,
        completed_by: Option<u8>,
    ) -> Result<T, Broken> {
        let mut worth_reading = true;
        loop {
            if worth_reading && let Progress::Done { value, length } = reader(&self.unread)? {
                self.unread.drain(..length.min(self.unread.len()));
                return Ok(value);
            }
            let before = self.unread.len();
            self.fill().await?;
            let new = self.unread.get(before..).unwrap_or_default();
            worth_reading =
                completed_by.is_none_or(|byte| new.contains(&byte)) || self.unread.len() >= http::MAX_HEAD;
        }
    }

    async fn fill(&mut self) -> Result<(), Broken> {
        self.unread.reserve(PIECE);
        let mut limited = (&mut self.side.stream).take(PIECE as u64);
        match limited.read_buf(&mut self.unread).await? {
            0 => Err(Broken::Gone),
            _ => Ok(()),
        }
    }
}
