//! Sockets on loopback that nothing should reach: one for connections, and one for datagrams, such as the question for a name of a host.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How much of what arrives is kept.
const MAX_KEPT_BYTES: u64 = 256;

/// How long a connection may take to say something.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// A listening socket that remembers who came.
pub(crate) struct Canary {
    address: SocketAddr,
    datagrams: UdpSocket,
    seen: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
}

impl Canary {
    /// Listens on a free port.
    pub(crate) fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let datagrams = UdpSocket::bind(("127.0.0.1", 0))?;
        datagrams.set_nonblocking(true)?;
        let (seen, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (theirs, ends) = (Arc::clone(&seen), Arc::clone(&over));
        std::thread::Builder::new().name("canary".to_owned()).spawn(move || {
            for connection in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let mut said = Vec::new();
                let _ = connection.set_read_timeout(Some(READ_TIMEOUT));
                let _ = connection.take(MAX_KEPT_BYTES).read_to_end(&mut said);
                let said = String::from_utf8_lossy(&said).into_owned();
                theirs.lock().unwrap_or_else(PoisonError::into_inner).push(said);
            }
        })?;
        Ok(Self { address, datagrams, seen, over })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port for datagrams.
    pub(crate) fn datagram_port(&self) -> io::Result<u16> {
        Ok(self.datagrams.local_addr()?.port())
    }

    /// What every connection since the last time said.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What every connection and every datagram said.
    pub(crate) fn seen(&self) -> Vec<String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [0; 256];
        while let Ok((size, _)) = self.datagrams.recv_from(&mut buffer) {
            seen.push(String::from_utf8_lossy(buffer.get(..size).unwrap_or_default()).into_owned());
        }
        seen.clone()
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes `accept`.
        let _ = std::net::TcpStream::connect(self.address);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_connection_is_remembered() {
        let canary = Canary::listen().unwrap();
        assert!(canary.seen().is_empty());
        let mut stream = std::net::TcpStream::connect(canary.address()).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        while canary.seen().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(canary.seen(), ["hello"]);
        let port = canary.datagram_port().unwrap();
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"name", ("127.0.0.1", port)).unwrap();
        assert_eq!(canary.seen(), ["hello", "name"]);
    }
}
