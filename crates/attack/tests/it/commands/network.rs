//! A command's network access, and how it learns of denials.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use serde_json::json;
use toolgate_egress::{Dial, DialFuture, Resolve};
use toolgate_tools::Profile;

use super::{Desk, native, structured};

#[test]
fn wanting_the_network_is_told_as_data() {
    let desk = Desk::new(Profile::STUDIO);
    let called = desk.run("exec 3<>/dev/tcp/203.0.113.1/80");
    let metadata = structured(&called)["metadata"].clone();
    assert_eq!(metadata["denied"][0]["what"], "network", "{metadata}");
    assert!(metadata["denied"][0]["remedy"].as_str().unwrap().contains("sandbox.network"), "{metadata}");
    assert_eq!(structured(&desk.run("true"))["metadata"]["denied"], json!([]));
}

/// Resolves every name to one server on this machine, by an address that the proxy considers public.
struct ToTest(SocketAddr);

impl Resolve for ToTest {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))])
    }
}

impl Dial for ToTest {
    fn dial(&self, _address: SocketAddr) -> DialFuture {
        let server = self.0;
        Box::pin(tokio::net::TcpStream::connect(server))
    }
}

#[test]
fn named_hosts_are_reached_and_others_are_told_with_a_remedy() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
            .unwrap();
    });
    let desk = Desk::with(Profile::NATIVE, |options| {
        options.config("sandbox: {network: [good.example.com]}").dialer(Arc::new(ToTest(address)))
    });
    let (text, answer) = native(&desk.run(
        "curl -sS http://good.example.com/; curl -sS http://evil.example.com/ -o /dev/null -w '%{http_code}'",
    ));
    serving.join().unwrap();
    assert!(text.starts_with("hello\n403"), "{text}");
    let denied = &answer["denied"][0];
    assert_eq!(
        (&denied["what"], &denied["target"]),
        (&json!("network"), &json!("evil.example.com:80")),
        "{answer}"
    );
    assert_eq!(denied["remedy"], "the operator can add `evil.example.com` to `sandbox.network`");
}
