//! An HTTP proxy in front of the hosts.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use toolgate_egress::{Dial, EgressProxy, NetworkAllowlist, ProxiedDialer, RefusalReason, UpstreamProxy};

use crate::fixture::{FakeNetwork, echo, read_all, read_head, server};

/// A proxy whose tunnels all lead to one server, and the requests that it got.
fn upstream(answer: &'static str, to: SocketAddr) -> (SocketAddr, Receiver<String>) {
    let (sender, requests) = channel();
    let sender = Mutex::new(sender);
    let address = server(move |mut stream| {
        let request = read_head(&mut stream);
        sender.lock().unwrap().send(request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        let mut behind = TcpStream::connect(to).unwrap();
        let mut piece = [0; 4];
        if stream.read_exact(&mut piece).is_ok() {
            behind.write_all(&piece).unwrap();
            behind.shutdown(Shutdown::Write).unwrap();
            let _ = stream.write_all(&read_all(&mut behind));
        }
    });
    (address, requests)
}

/// The egress proxy with an upstream, and the network that it would dial without one.
fn proxied(
    entries: &[&str],
    upstream: SocketAddr,
    direct: &[&str],
) -> (SocketAddr, EgressProxy, Arc<FakeNetwork>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let network = Arc::new(FakeNetwork::default());
    network.name("proxy.test", &[&[upstream.ip()]]).route(upstream.ip(), upstream.port(), upstream);
    let url = format!("http://worker:secret@proxy.test:{}", upstream.port());
    let direct = direct.iter().map(|host| (*host).to_owned()).collect();
    let proxy = UpstreamProxy::parse(&url, direct).unwrap();
    let dialer = ProxiedDialer::new(Arc::clone(&network) as Arc<dyn Dial>, proxy);
    let rules = NetworkAllowlist::parse(entries).unwrap();
    let egress = EgressProxy::start(listener, rules, Arc::new(dialer), Box::new(|_| {})).unwrap();
    (address, egress, network)
}

fn connect(proxy: SocketAddr, target: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(proxy).unwrap();
    write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
    let answer = read_head(&mut stream);
    (stream, answer)
}

#[test]
fn an_admitted_host_is_reached_through_the_proxy_which_resolves_its_name() {
    let (upstream, requests) = upstream("HTTP/1.1 200 OK\r\nX: y\r\n\r\n", echo());
    let (proxy, _egress, network) = proxied(&["only.test:7000"], upstream, &[]);
    let (mut stream, answer) = connect(proxy, "only.test:7000");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    stream.write_all(b"tea\n").unwrap();
    assert_eq!(read_all(&mut stream), b"tea\n");
    let request = requests.recv().unwrap();
    assert!(request.starts_with("CONNECT only.test:7000 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("Proxy-Authorization: Basic d29ya2VyOnNlY3JldA==\r\n"), "{request}");
    assert_eq!(*network.resolved.lock().unwrap(), ["proxy.test"]);
}

#[test]
fn what_is_not_admitted_never_reaches_the_proxy() {
    let (upstream, requests) = upstream("HTTP/1.1 200 OK\r\n\r\n", echo());
    let (proxy, egress, network) = proxied(&["only.test:7000"], upstream, &[]);
    for target in ["other.test:7000", "only.test:7001", "10.0.0.1:7000", "169.254.169.254:80"] {
        let (_, answer) = connect(proxy, target);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{target}: {answer}");
    }
    assert!(requests.try_recv().is_err() && network.dialled.lock().unwrap().is_empty());
    assert_eq!(egress.stop().refused.len(), 4);
}

#[test]
fn a_proxy_that_refuses_is_an_unreachable_host() {
    let (upstream, _requests) = upstream("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", echo());
    let (proxy, egress, _) = proxied(&["only.test:7000"], upstream, &[]);
    let (_, answer) = connect(proxy, "only.test:7000");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let report = egress.stop();
    let reasons: Vec<RefusalReason> =
        report.refused.iter().chain(&report.failed).map(|counted| counted.item.reason).collect();
    assert_eq!(reasons, [RefusalReason::Unreachable]);
}

#[test]
fn a_host_without_the_proxy_is_resolved_and_checked_here() {
    let (upstream, requests) = upstream("HTTP/1.1 200 OK\r\n\r\n", echo());
    let (proxy, _egress, network) = proxied(&["inner.test:7000"], upstream, &["inner.test"]);
    network.name("inner.test", &[&["10.0.0.7".parse().unwrap()]]);
    let (_, answer) = connect(proxy, "inner.test:7000");
    assert!(answer.starts_with("HTTP/1.1 403 "), "a private address that is not listed: {answer}");
    assert!(requests.try_recv().is_err());
}
