//! Attacks by sockets.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};

use super::{Tried, call, number, stopped};

pub(super) fn run(words: &[&str]) -> Option<Tried> {
    Some(match words {
        ["socket", family, kind, protocol] => {
            call(libc::SYS_socket, [number(family), number(kind), number(protocol), 0, 0, 0]).map(drop)
        }
        ["ask-for-name", port] => ask_for_name(number(port)),
        ["abstract", name] => {
            let address = SocketAddr::from_abstract_name(name).unwrap();
            UnixStream::connect_addr(&address).map(drop).map_err(stopped)
        }
        ["connect", path] => UnixStream::connect(path).map(drop).map_err(stopped),
        ["answer-itself", path] => answer_itself(path),
        ["datagram", path] => {
            let socket = UnixDatagram::unbound().map_err(stopped);
            socket.and_then(|socket| socket.send_to(b"datagram", path).map(drop).map_err(stopped))
        }
        // A socket pair is connected, but `sendto` can address another socket.
        ["datagram-of-a-pair", path] => {
            let pair = UnixDatagram::pair().map_err(stopped);
            pair.and_then(|(socket, _)| socket.send_to(b"datagram", path).map(drop).map_err(stopped))
        }
        _ => return None,
    })
}

/// A server and its client in one process, as in many test suites.
fn answer_itself(path: &str) -> Tried {
    let listener = std::os::unix::net::UnixListener::bind(path).map_err(stopped)?;
    let mut client = UnixStream::connect(path).map_err(stopped)?;
    let (mut server, _) = listener.accept().map_err(stopped)?;
    server.write_all(b"itself").map_err(stopped)?;
    drop(server);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).map_err(stopped)?;
    super::show(&heard);
    Ok(())
}

/// A DNS query that exfiltrates a secret in the name.
fn ask_for_name(port: u16) -> Tried {
    let mut question = vec![0x47, 0x11, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["secret", "example", "com"] {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.as_bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(stopped)?;
    socket.send_to(&question, ("127.0.0.1", port)).map(drop).map_err(stopped)
}
