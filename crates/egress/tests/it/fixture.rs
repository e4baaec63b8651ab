//! A proxy, the fake network behind it, and servers on loopback.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream as TokioStream;
use toolgate_egress::{
    Dial, DialFuture, EgressEvent, EgressProxy, EgressReport, NetworkAllowlist, ProxyLimits, RefusalReason,
    Resolve,
};

/// A public address that no test ever dials: the fake network maps it to loopback.
pub(crate) const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
/// Longer than any step takes; a test that waits this long has failed.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Names and addresses of a fake network.
#[derive(Default)]
pub(crate) struct FakeNetwork {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    routes: Mutex<HashMap<SocketAddr, SocketAddr>>,
    pub(crate) resolved: Mutex<Vec<String>>,
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

impl FakeNetwork {
    /// A name with a different answer each time; the last answer stays.
    pub(crate) fn name(&self, name: &str, answers: &[&[IpAddr]]) -> &Self {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
        self
    }

    pub(crate) fn route(&self, address: IpAddr, port: u16, server: SocketAddr) -> &Self {
        assert!(server.ip().is_loopback());
        self.routes.lock().unwrap().insert(SocketAddr::new(address, port), server);
        self
    }

    /// A name with a public address, and the server behind one of its ports.
    pub(crate) fn host(&self, name: &str, port: u16, server: SocketAddr) -> &Self {
        self.name(name, &[&[PUBLIC]]).route(PUBLIC, port, server)
    }
}

impl Resolve for FakeNetwork {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.resolved.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answers = answers.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

impl Dial for FakeNetwork {
    fn dial(&self, address: SocketAddr) -> DialFuture {
        self.dialled.lock().unwrap().push(address);
        let route = self.routes.lock().unwrap().get(&address).copied();
        Box::pin(async move { TokioStream::connect(route.ok_or(io::ErrorKind::ConnectionRefused)?).await })
    }
}

/// A proxy on loopback, with all its events recorded.
pub(crate) struct ProxyFixture {
    pub(crate) network: Arc<FakeNetwork>,
    pub(crate) address: SocketAddr,
    pub(crate) egress: EgressProxy,
    pub(crate) events: Receiver<EgressEvent>,
}

impl ProxyFixture {
    pub(crate) fn new(entries: &[&str]) -> Self {
        Self::within(ProxyLimits::default(), entries)
    }

    pub(crate) fn within(bounds: ProxyLimits, entries: &[&str]) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, bounds, entries)
    }

    /// The same at another address of this machine.
    pub(crate) fn at(address: Ipv4Addr, bounds: ProxyLimits, entries: &[&str]) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(FakeNetwork::default());
        let (sender, events) = channel();
        let observer = Box::new(move |event: &EgressEvent| drop(sender.send(event.clone())));
        let rules = NetworkAllowlist::parse(entries).unwrap();
        let dialer: Arc<dyn Dial> = Arc::clone(&network) as Arc<dyn Dial>;
        let egress = EgressProxy::start_with_limits(bounds, listener, rules, dialer, observer).unwrap();
        Self { network, address, egress, events }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// Sends everything, shuts down, and reads the whole response.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The proxy may refuse, and close, before it has everything.
        let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        read_all(&mut stream)
    }

    /// A tunnel opened by CONNECT.
    pub(crate) fn tunnel(&self, target: &str) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
        let answer = read_head(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        stream
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.network.dialled.lock().unwrap().clone()
    }

    /// Waits for the next refusal.
    pub(crate) fn refusal(&self) -> (String, RefusalReason) {
        loop {
            match self.events.recv_timeout(TEST_TIMEOUT).unwrap() {
                EgressEvent::Refused(refusal) | EgressEvent::Failed(refusal) => {
                    return (refusal.target, refusal.reason);
                }
                EgressEvent::Allowed(_) => {}
            }
        }
    }

    pub(crate) fn stop(self) -> EgressReport {
        self.egress.stop()
    }
}

/// Everything received until end of file or a reset.
pub(crate) fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "nothing came for too long");
    }
    all
}

/// Reads up to the empty line, and not one byte more.
pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).unwrap() {
            0 => break,
            _ => head.push(byte[0]),
        }
    }
    String::from_utf8(head).unwrap()
}

/// A server that runs `serve` for every connection on its own thread.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Echoes what it receives, then closes.
pub(crate) fn echo() -> SocketAddr {
    server(|mut stream| {
        let mut writer = stream.try_clone().unwrap();
        let _ = io::copy(&mut stream, &mut writer);
        let _ = writer.shutdown(Shutdown::Write);
    })
}

/// Answers the first request with `ok`, and reports every byte received until the connection closed.
pub(crate) fn web() -> (SocketAddr, Receiver<Vec<u8>>) {
    let (sender, received) = channel();
    (server(move |stream| answer_once(stream, &sender)), received)
}

fn answer_once(mut stream: TcpStream, sender: &Sender<Vec<u8>>) {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while !is_whole(&all) {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return drop(sender.send(all)),
            Ok(length) => all.extend_from_slice(&piece[..length]),
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let _ = stream.shutdown(Shutdown::Write);
    all.extend(read_all(&mut stream));
    let _ = sender.send(all);
}

/// Whether a request with its body is complete; good enough for what the proxy itself writes.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None => !head.contains("Transfer-Encoding: chunked") || body.ends_with("0\r\n\r\n"),
    }
}
