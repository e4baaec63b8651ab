//! An independent client that knows the proxy only from its environment.

use std::process::{Command, Output};

use toolgate_egress::{NetworkAllowlist, RefusalReason, environment};

use crate::fixture::{ProxyFixture, read_all, server, web};

/// Which of the two protocols curl is configured for.
#[derive(Clone, Copy)]
enum Told {
    /// The environment of commands.
    AsCommandsAre,
    /// SOCKS on the same port.
    Socks,
}

fn curl(world: &ProxyFixture, told: Told, arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    match told {
        Told::AsCommandsAre => command
            .envs(environment(world.address.port(), &NetworkAllowlist::parse(&["good.example"]).unwrap())),
        Told::Socks => command.env("ALL_PROXY", format!("socks5h://{}", world.address)),
    };
    command.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments).output().unwrap()
}

#[test]
fn plain_requests_go_through_http_and_socks() {
    let (address, received) = web();
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 80, address);
    for told in [Told::AsCommandsAre, Told::Socks] {
        let output = curl(&world, told, &["--data", "name=value", "http://good.example/form?x=1"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok", "{output:?}");
        let request = String::from_utf8(received.recv().unwrap()).unwrap();
        assert!(request.starts_with("POST /form?x=1 HTTP/1.1\r\nHost: good.example\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\nname=value") && !request.contains("Proxy-"), "{request}");
    }
}

#[test]
fn a_refusal_is_shown_to_the_user_of_curl() {
    let world = ProxyFixture::new(&["good.example"]);
    let output = curl(&world, Told::AsCommandsAre, &["--include", "http://evil.example/"]);
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        answer.starts_with("HTTP/1.1 403 Forbidden\r\nX-Toolgate-Refused: host_not_listed\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("the operator can add \"evil.example\" to network:\n"), "{answer}");
    // `CURLE_RECV_ERROR` for a refused tunnel, `CURLE_PROXY` for SOCKS.
    for (told, code) in [(Told::AsCommandsAre, 56), (Told::Socks, 97)] {
        let output = curl(&world, told, &["https://evil.example/"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(world.refusal().1, RefusalReason::NotListed);
    }
    assert_eq!(world.dialled(), []);
}

#[test]
fn its_tls_handshake_is_read() {
    // The server only listens: what matters is whether the ClientHello arrives.
    let (sender, received) = std::sync::mpsc::channel();
    let listening = server(move |mut stream| {
        let mut first = [0; 6];
        let arrived = std::io::Read::read_exact(&mut stream, &mut first).is_ok();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        read_all(&mut stream);
        let _ = sender.send((arrived, first));
    });
    let world = ProxyFixture::new(&["good.example"]);
    world.network.host("good.example", 443, listening);
    for told in [Told::AsCommandsAre, Told::Socks] {
        curl(&world, told, &["https://good.example/"]);
        let (arrived, first) = received.recv().unwrap();
        assert!(arrived && first[0] == 0x16 && first[5] == 1, "{first:?}");
    }
    // One host for the tunnel, another inside it.
    curl(
        &world,
        Told::AsCommandsAre,
        &["--connect-to", "evil.example:443:good.example:443", "https://evil.example/"],
    );
    assert_eq!(world.refusal(), ("evil.example:443".to_owned(), RefusalReason::ServerName));
    assert!(!received.recv().unwrap().0, "the server got nothing");
}
