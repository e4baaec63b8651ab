//! Bytes in both directions: complete, counted, bounded, and cut when the proxy stops.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use toolgate_egress::{ProxyLimits, RefusalReason};

use crate::fixture::{ProxyFixture, TEST_TIMEOUT, echo, read_all, server};

fn world_with(server: std::net::SocketAddr) -> ProxyFixture {
    let world = ProxyFixture::new(&["good.example:7000"]);
    world.network.host("good.example", 7000, server);
    world
}

/// Bytes that differ at every position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from((index * 31 + index / 251) % 256).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn transfers_are_whole_however_they_are_cut(
        length in 0usize..3_000_000, cuts in proptest::collection::vec(1usize..90_000, 1..20),
    ) {
        let world = world_with(echo());
        let mut stream = world.tunnel("good.example:7000");
        let sent = pattern(length);
        let mut writer = stream.try_clone().unwrap();
        let bytes = sent.clone();
        let sending = std::thread::spawn(move || {
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                writer.write_all(piece).unwrap();
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let received = read_all(&mut stream);
        sending.join().unwrap();
        prop_assert!(received == sent, "{} of {length} bytes", received.len());
        let report = world.stop();
        prop_assert_eq!((report.bytes_out, report.bytes_in), (length as u64, length as u64));
    }
}

#[test]
fn either_side_may_end_first() {
    // The client shuts down; the server sees it, and still responds.
    let (sender, heard) = channel();
    let late = server(move |mut stream| {
        sender.send(read_all(&mut stream)).unwrap();
        stream.write_all(b"after the end").unwrap();
    });
    let world = world_with(late);
    let mut stream = world.tunnel("good.example:7000");
    stream.write_all(b"all of it").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(heard.recv_timeout(TEST_TIMEOUT).unwrap(), b"all of it");
    assert_eq!(read_all(&mut stream), b"after the end");

    // The server shuts down; the client sees it, and still sends.
    let (sender, heard) = channel();
    let early = server(move |mut stream| {
        stream.write_all(b"first").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        sender.send(read_all(&mut stream)).unwrap();
    });
    let world = world_with(early);
    let mut stream = world.tunnel("good.example:7000");
    assert_eq!(read_all(&mut stream), b"first");
    stream.write_all(b"after the end").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(heard.recv_timeout(TEST_TIMEOUT).unwrap(), b"after the end");
}

#[test]
fn a_reset_is_not_taken_for_an_end() {
    // The server closes with unread bytes, which resets the connection.
    let rude = server(|mut stream| {
        stream.write_all(b"half of").unwrap();
        assert_ne!(stream.peek(&mut [0]).unwrap(), 0);
    });
    let world = world_with(rude);
    let mut stream = world.tunnel("good.example:7000");
    let mut half = [0; 7];
    stream.read_exact(&mut half).unwrap();
    stream.write_all(b"never read").unwrap();
    assert_eq!(stream.read(&mut half).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn stopping_cuts_everything_at_once() {
    // At an address of its own, where no other process listens once it is gone.
    let [.., high, low] = std::process::id().to_be_bytes();
    let bounds = ProxyLimits { handshake_timeout: TEST_TIMEOUT, ..ProxyLimits::default() };
    let world = ProxyFixture::at(Ipv4Addr::new(127, 77, high, low), bounds, &["good.example:7000"]);
    world.network.host("good.example", 7000, echo());
    let transferring = world.tunnel("good.example:7000");
    let half_asked = world.connect();
    let silent = world.connect();
    (&half_asked).write_all(b"CONNECT good.ex").unwrap();
    let writer = transferring.try_clone().unwrap();
    let (sender, moving) = channel();
    let sending = std::thread::spawn(move || {
        let mut writer: TcpStream = writer;
        let bytes = pattern(100_000);
        loop {
            match writer.write_all(&bytes) {
                Ok(()) => drop(sender.send(())),
                Err(error) => return error.kind(),
            }
        }
    });
    let mut reader = transferring.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut sink = [0; 65_536];
        loop {
            match reader.read(&mut sink) {
                Ok(0) => return ErrorKind::UnexpectedEof,
                Ok(_) => {}
                Err(error) => return error.kind(),
            }
        }
    });
    for _ in 0..20 {
        moving.recv_timeout(TEST_TIMEOUT).unwrap();
    }
    let address = world.address;
    let report = world.stop();
    assert!(report.bytes_out > 0);
    // The kernel reports a reset once, to whichever call comes first.
    let ends = [sending.join().unwrap(), reading.join().unwrap()];
    assert!(ends.contains(&ErrorKind::ConnectionReset), "{ends:?}");
    for mut stream in [half_asked, silent] {
        assert_eq!(read_all(&mut stream), b"");
    }
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn dropping_is_stopping() {
    let world = world_with(echo());
    let mut stream = world.tunnel("good.example:7000");
    drop(world.egress);
    assert_eq!(read_all(&mut stream), b"");
}

#[test]
fn a_flood_is_refused_beyond_the_bound_and_leaves_nothing_behind() {
    let world = world_with(echo());
    let kept: Vec<TcpStream> = (0..64).map(|_| world.tunnel("good.example:7000")).collect();
    for _ in 0..1000 {
        let mut stream = world.connect();
        let _ = stream.write_all(b"CONNECT good.example:7000 HTTP/1.1\r\n\r\n");
        assert_eq!(read_all(&mut stream), b"");
    }
    assert_eq!(world.dialled().len(), 64);
    // The first sixty-four work as before.
    for mut stream in kept {
        stream.write_all(b"still here").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut stream), b"still here");
    }
    // And there is space again as soon as they are closed.
    let answered = (0..10_000).any(|_| world.exchange(b"CONNECT good.example:7000 HTTP/1.1\r\n\r\n") != b"");
    assert!(answered);
    let report = world.stop();
    let flood: Vec<_> =
        report.refused.iter().filter(|line| line.item.reason == RefusalReason::TooManyConnections).collect();
    assert_eq!(flood.len(), 1);
    assert!(flood[0].count >= 1000);
}

#[test]
fn a_thousand_connections_at_once_are_served_or_refused() {
    // The first ones must still be within their timeout when the last one connects.
    let bounds = ProxyLimits { handshake_timeout: TEST_TIMEOUT, ..ProxyLimits::default() };
    let world = ProxyFixture::within(bounds, &["good.example:7000"]);
    world.network.host("good.example", 7000, echo());
    let streams: Vec<TcpStream> = (0..1000).map(|_| world.connect()).collect();
    let mut answered = 0;
    for mut stream in streams {
        let _ = stream.write_all(b"CONNECT good.example:7000 HTTP/1.1\r\n\r\n");
        let _ = stream.shutdown(Shutdown::Write);
        answered += usize::from(read_all(&mut stream).starts_with(b"HTTP/1.1 200"));
    }
    assert!(answered >= 64, "{answered}");
    assert!(world.stop().allowed[0].count >= 64);
}

#[test]
fn a_call_moves_no_more_bytes_than_it_may() {
    let bounds = ProxyLimits { max_total_bytes: Some(100_000), ..ProxyLimits::default() };
    let world = ProxyFixture::within(bounds, &["good.example:7000"]);
    let endless = server(|mut stream| while stream.write_all(&[7; 10_000]).is_ok() {});
    world.network.host("good.example", 7000, endless);
    let mut stream = world.tunnel("good.example:7000");
    assert!(read_all(&mut stream).len() <= 100_000);
    assert_eq!(world.refusal(), ("good.example:7000".to_owned(), RefusalReason::TooManyBytes));
}

#[test]
fn a_silent_connection_is_cut() {
    let bounds = ProxyLimits { idle_timeout: Duration::from_millis(50), ..ProxyLimits::default() };
    let world = ProxyFixture::within(bounds, &["good.example:7000", "good.example"]);
    let (sender, gone) = channel();
    let silent = server(move |mut stream| {
        read_all(&mut stream);
        let _ = sender.send(());
    });
    world.network.host("good.example", 7000, silent).host("good.example", 80, silent);
    let mut stream = world.tunnel("good.example:7000");
    assert_eq!(read_all(&mut stream), b"");
    gone.recv_timeout(TEST_TIMEOUT).unwrap();
    // The same for a plain request that is never answered.
    assert_eq!(world.exchange(b"GET http://good.example/ HTTP/1.1\r\n\r\n"), b"");
    gone.recv_timeout(TEST_TIMEOUT).unwrap();
}
