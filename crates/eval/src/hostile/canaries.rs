//! Sockets that nothing should reach: TCP and UDP on loopback, and Unix sockets beside the workspace and in it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::canary::Canary;

pub(super) struct Canaries {
    tcp: Canary,
    udp: UdpSocket,
    beside: UnixListener,
    inside: Option<UnixListener>,
}

impl Canaries {
    pub(super) fn listen(socket: &Path) -> io::Result<Self> {
        let udp = UdpSocket::bind(("127.0.0.1", 0))?;
        udp.set_nonblocking(true)?;
        let beside = UnixListener::bind(socket)?;
        beside.set_nonblocking(true)?;
        Ok(Self { tcp: Canary::listen()?, udp, beside, inside: None })
    }

    /// Listens in the workspace too, where what was there is gone.
    pub(super) fn listen_in(&mut self, socket: &Path) -> io::Result<()> {
        let listener = UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        self.inside = Some(listener);
        Ok(())
    }

    pub(super) fn tcp(&self) -> SocketAddr {
        self.tcp.address()
    }

    pub(super) fn udp(&self) -> SocketAddr {
        self.udp.local_addr().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 9)))
    }

    /// What was reached since the last time.
    pub(super) fn reached(&self) -> Vec<String> {
        let mut reached: Vec<String> = self.tcp.take().iter().map(|text| format!("TCP: {text}")).collect();
        let mut datagram = [0; 64];
        if let Ok((size, _)) = self.udp.recv_from(&mut datagram) {
            reached
                .push(format!("UDP: {}", String::from_utf8_lossy(datagram.get(..size).unwrap_or_default())));
        }
        if self.beside.accept().is_ok() {
            reached.push("the Unix socket beside the workspace".to_owned());
        }
        if self.inside.as_ref().is_some_and(|listener| listener.accept().is_ok()) {
            reached.push("the Unix socket in the workspace".to_owned());
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn every_socket_notices_who_came() {
        let place = tempfile::tempdir().unwrap();
        let (beside, inside) = (place.path().join("a"), place.path().join("b"));
        let mut canaries = Canaries::listen(&beside).unwrap();
        canaries.listen_in(&inside).unwrap();
        assert!(canaries.reached().is_empty());
        let (one, other) = (UnixStream::connect(&beside).unwrap(), UnixStream::connect(&inside).unwrap());
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", canaries.udp()).unwrap();
        drop(std::net::TcpStream::connect(canaries.tcp()).unwrap());
        let mut reached = Vec::new();
        while reached.len() < 4 {
            reached.extend(canaries.reached());
        }
        assert_eq!(reached.iter().filter(|text| text.contains("Unix")).count(), 2);
        drop((one, other));
        assert!(canaries.reached().is_empty());
    }
}
