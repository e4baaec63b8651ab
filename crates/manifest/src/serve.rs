//! `serve`: the HTTP server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::decode::{ConfigField, KeySpec, Section, count, duration, key, list, located_text, size, word};
use crate::keyword_enum::words;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::tool::not_a_host;
use crate::url::url;

const SERVE: &[KeySpec] = &[
    key("listen", "listen: \"127.0.0.1:8420\""),
    key("auth", "auth: token"),
    key("allowed_hosts", "allowed_hosts: [gate.example.com]"),
    key("allowed_origins", "allowed_origins: [\"https://app.example.com\"]"),
    key("public_url", "public_url: https://gate.example.com"),
    key("max_body_bytes", "max_body_bytes: 8MiB"),
    key("max_connections", "max_connections: 512"),
    key("requests_per_second", "requests_per_second: 20"),
    key("grace", "grace: 10s"),
];

/// `serve`: the HTTP server; absent values have its defaults.
#[derive(Clone, Debug, Default)]
pub struct ServeConfig {
    /// `listen`: the address and the port.
    pub listen: Option<Located<SocketAddr>>,
    /// `auth`: how clients authenticate.
    pub auth: Option<Located<ServeAuth>>,
    /// `allowed_hosts`: accepted values of `Host`, in addition to those of this machine.
    pub allowed_hosts: Vec<Located<String>>,
    /// `allowed_origins`: accepted values of `Origin`, in addition to its own.
    pub allowed_origins: Vec<Located<String>>,
    /// `public_url`: the URL that clients use, if there is a reverse proxy.
    pub public_url: Option<Located<String>>,
    /// `max_body_bytes`: bytes of one request.
    pub max_body_bytes: Option<u64>,
    /// `max_connections`: concurrent connections.
    pub max_connections: Option<u64>,
    /// `requests_per_second`: rate limit per caller.
    pub requests_per_second: Option<u64>,
    /// `grace`: how long calls in flight may run on at shutdown.
    pub grace: Option<Duration>,
}

words! {
    /// How clients authenticate.
    ServeAuth, "a way to show who one is" {
        /// One token for the local user.
        Token = "token",
        /// A token from an issuer in `callers`.
        Jwt = "jwt",
        /// Not at all; only on a loopback address.
        None = "none",
    }
}

pub(crate) fn serve(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ServeConfig> {
    let section = Section::read(field, SERVE, report)?;
    let listen = section.get("listen", report, address);
    let auth = section.get("auth", report, word::<ServeAuth>);
    let outside = listen.as_ref().is_some_and(|listen| !listen.value.ip().is_loopback());
    if let Some(auth) = auth.as_ref().filter(|auth| outside && auth.value == ServeAuth::None) {
        let help = "listen on `127.0.0.1`, or use `token` or `jwt`".to_owned();
        report.located(auth, "others could reach a door without a lock", Some(help));
    }
    Some(ServeConfig {
        listen,
        auth,
        allowed_hosts: section.get("allowed_hosts", report, hosts).unwrap_or_default(),
        allowed_origins: section.get("allowed_origins", report, origins).unwrap_or_default(),
        public_url: section.get("public_url", report, public_url),
        max_body_bytes: section.get("max_body_bytes", report, size),
        max_connections: section.get("max_connections", report, count),
        requests_per_second: section.get("requests_per_second", report, count),
        grace: section.get("grace", report, duration),
    })
}

fn address(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<SocketAddr>> {
    let text = located_text(field, report)?;
    let known = text.value.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    match known.as_deref().unwrap_or(&text.value).parse() {
        Ok(address) => Some(text.with(address)),
        Err(_) => {
            let help = "write an address and a port, such as `\"127.0.0.1:8420\"` or `\"[::1]:8420\"`";
            let message = format!("`{}` is not an address to listen on", shown(&text.value));
            report.located(&text, message, Some(help.to_owned()));
            None
        }
    }
}

fn hosts(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    list(field, "host", report, |field, report| {
        let host = located_text(field, report)?;
        let pattern = host.value.contains(['*', '/']).then(|| {
            let help = "name each host, such as `gate.example.com` or `gate.example.com:8443`".to_owned();
            (format!("`{}` is not one host", shown(&host.value)), help)
        });
        if let Some((message, help)) = pattern.or_else(|| not_a_host(&host.value)) {
            report.located(&host, message, Some(help));
        }
        Some(host)
    })
}

fn origins(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    list(field, "origin", report, |field, report| {
        let origin = located_text(field, report)?;
        let host = ["https://", "http://"].iter().find_map(|scheme| origin.value.strip_prefix(scheme));
        let is_host = |host: &str| !host.contains(['*', '/']) && not_a_host(host).is_none();
        if !host.is_some_and(is_host) {
            let help = "write a scheme and a host and nothing behind it, such as `https://app.example.com`";
            let message = format!("`{}` is not an origin", shown(&origin.value));
            report.located(&origin, message, Some(help.to_owned()));
        }
        Some(origin)
    })
}

fn public_url(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let address = url(field, report)?;
    if address.value.contains(['?', '#']) {
        let help = Some(format!("write for example `{}`", field.example));
        report.located(&address, format!("`{}` is more than an address", shown(&address.value)), help);
        return None;
    }
    Some(address)
}
