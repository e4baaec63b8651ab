//! Names that resolve to internal addresses.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use toolgate_egress::{AddressClass, Dial, DialFuture, EgressEvent, ProxyLimits, RefusalReason, Resolve};

use crate::fixture::{PUBLIC, ProxyFixture, echo};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_name_opens_no_address_but_public_ones() {
    let cases = [
        ("127.0.0.1", AddressClass::Loopback),
        ("::1", AddressClass::Loopback),
        ("10.0.0.7", AddressClass::Private),
        ("192.168.0.1", AddressClass::Private),
        ("fd12::1", AddressClass::Private),
        ("169.254.1.1", AddressClass::LinkLocal),
        ("fe80::1", AddressClass::LinkLocal),
        ("100.64.0.1", AddressClass::Shared),
        ("169.254.169.254", AddressClass::Metadata),
        ("fd00:ec2::254", AddressClass::Metadata),
        ("198.18.0.1", AddressClass::Special),
        ("0.0.0.0", AddressClass::Never),
        ("255.255.255.255", AddressClass::Never),
        ("ff02::1", AddressClass::Never),
        ("::ffff:127.0.0.1", AddressClass::Never),
        ("64:ff9b::7f00:1", AddressClass::Never),
    ];
    for (inside, class) in cases {
        let world = ProxyFixture::new(&["good.example"]);
        // Alone, and hidden behind a public address.
        for answer in [&[address(inside)][..], &[PUBLIC, address(inside)]] {
            world.network.name("good.example", &[answer]).route(PUBLIC, 443, echo());
            world.exchange(b"CONNECT good.example:443 HTTP/1.1\r\n\r\n");
            match world.events.recv().unwrap() {
                EgressEvent::Refused(refusal) => {
                    assert_eq!(refusal.reason, RefusalReason::Address(class));
                    assert_eq!(refusal.address, Some(address(inside)));
                }
                event => panic!("{inside}: {event:?}"),
            }
        }
        assert_eq!(world.dialled(), []);
    }
}

#[test]
fn public_is_the_internet_and_nothing_behind_it() {
    for inside in ["127.0.0.1", "10.0.0.7", "192.168.0.1", "169.254.169.254", "100.64.0.1", "fd12::1"] {
        let world = ProxyFixture::new(&["public"]);
        world.network.name("any.example", &[&[address(inside)]]).route(PUBLIC, 443, echo());
        world.exchange(b"CONNECT any.example:443 HTTP/1.1\r\n\r\n");
        assert!(matches!(world.events.recv().unwrap(), EgressEvent::Refused(_)), "{inside}");
        let named = if inside.contains(':') { format!("[{inside}]") } else { inside.to_owned() };
        world.exchange(format!("CONNECT {named}:443 HTTP/1.1\r\n\r\n").as_bytes());
        assert!(matches!(world.events.recv().unwrap(), EgressEvent::Refused(_)), "{inside}");
        assert_eq!(world.dialled(), []);
    }
    for (target, expected) in [("any.example:443", true), ("any.example:22", false), ("localhost:443", false)]
    {
        let world = ProxyFixture::new(&["public"]);
        world.network.name("any.example", &[&[PUBLIC]]).route(PUBLIC, 443, echo());
        world.exchange(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes());
        let is_refused = matches!(world.events.recv().unwrap(), EgressEvent::Refused(_));
        assert_eq!(!is_refused, expected, "{target}");
    }
}

#[test]
fn an_entry_for_the_address_opens_it_on_its_port() {
    let entries = ["inside.example", "other.example:8443", "10.0.0.0/24"];
    for (target, inside, allowed) in [
        ("inside.example:443", "10.0.0.7", true),
        ("inside.example:443", "10.0.1.7", false),
        ("other.example:8443", "10.0.0.7", false),
    ] {
        let world = ProxyFixture::new(&entries);
        let (name, port) = target.split_once(':').unwrap();
        let network = &world.network;
        network.name(name, &[&[address(inside)]]).route(address(inside), port.parse().unwrap(), echo());
        let answer = world.exchange(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes());
        assert_eq!(answer.starts_with(b"HTTP/1.1 200"), allowed, "{target} at {inside}");
    }
}

#[test]
fn a_name_that_answers_differently_the_second_time_gains_nothing() {
    let world = ProxyFixture::new(&["rebind.example"]);
    let inside = address("127.0.0.1");
    world.network.name("rebind.example", &[&[PUBLIC], &[inside]]);
    world.network.route(PUBLIC, 443, echo()).route(inside, 443, echo());
    let request = b"CONNECT rebind.example:443 HTTP/1.1\r\n\r\n";
    assert!(world.exchange(request).starts_with(b"HTTP/1.1 200"));
    assert_eq!(*world.network.resolved.lock().unwrap(), ["rebind.example"], "a name is resolved once");
    assert!(world.exchange(request).starts_with(b"HTTP/1.1 403"));
    assert_eq!(world.dialled(), [(PUBLIC, 443).into()]);
}

#[test]
fn localhost_is_never_asked_of_dns() {
    let world = ProxyFixture::new(&["localhost:3000"]);
    world.network.name("localhost", &[&[PUBLIC]]).route(address("127.0.0.1"), 3000, echo());
    assert!(world.exchange(b"CONNECT localhost:3000 HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 200"));
    assert!(world.network.resolved.lock().unwrap().is_empty());
    assert_eq!(world.dialled(), [(address("127.0.0.1"), 3000).into()]);
}

#[test]
fn the_next_address_is_tried_when_one_does_not_answer() {
    let world = ProxyFixture::new(&["good.example"]);
    let other = address("93.184.216.35");
    world.network.name("good.example", &[&[PUBLIC, other]]).route(other, 443, echo());
    assert!(world.exchange(b"CONNECT good.example:443 HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 200"));
    assert_eq!(world.dialled(), [(PUBLIC, 443).into(), (other, 443).into()]);
}

/// A network in which nothing ever responds while the test waits.
struct Silent {
    until: Mutex<Receiver<()>>,
}

impl Resolve for Silent {
    fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        if name == "unresolved.example" {
            let _ = self.until.lock().unwrap().recv();
        }
        Ok(vec![PUBLIC])
    }
}

impl Dial for Silent {
    fn dial(&self, _: std::net::SocketAddr) -> DialFuture {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_network_that_never_answers_is_not_waited_for() {
    // Long enough for a name that is resolved immediately.
    let bounds = ProxyLimits { connect_timeout: Duration::from_secs(1), ..ProxyLimits::default() };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rules =
        toolgate_egress::NetworkAllowlist::parse(&["unresolved.example", "unreached.example"]).unwrap();
    let (waiting, until) = channel();
    let dialer = Arc::new(Silent { until: Mutex::new(until) });
    let egress =
        toolgate_egress::EgressProxy::start_with_limits(bounds, listener, rules, dialer, Box::new(|_| {}))
            .unwrap();
    for name in ["unresolved.example", "unreached.example"] {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut stream, format!("CONNECT {name}:443 HTTP/1.1\r\n\r\n").as_bytes())
            .unwrap();
        assert!(crate::fixture::read_head(&mut stream).starts_with("HTTP/1.1 502 "));
    }
    drop(waiting);
    let report = egress.stop();
    let reasons: Vec<RefusalReason> = report.failed.iter().map(|line| line.item.reason).collect();
    assert_eq!(reasons, [RefusalReason::Unresolved, RefusalReason::Unreachable]);
}
