//! The egress proxy of a command, if it has network access.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use toolgate_egress::{
    Dial, EgressEvent, EgressProxy, EgressReport, NetworkAllowlist, RefusalReason, RejectedConnection,
};

use toolgate_gate::TouchedNames;

use crate::command_denial::CommandDenial;

/// Beyond this many, rejected hosts are not listed.
const MAX_LISTED: usize = 8;

/// The hosts that a command may reach, and the configuration key to add one.
#[derive(Clone)]
pub struct Reach {
    /// The allowlist. The proxy of a command runs also without entries, so that a refused connection fails immediately and with the name of its host.
    pub rules: NetworkAllowlist,
    /// The configuration key, for remedies.
    pub key: &'static str,
}

/// Variables that keep package managers from retrying for minutes what no retry will reach: for commands without any host.
pub(super) const NO_RETRIES: [(&str, &str); 8] = [
    ("npm_config_fetch_retries", "0"),
    ("npm_config_update_notifier", "false"),
    ("npm_config_audit", "false"),
    ("npm_config_fund", "false"),
    ("PIP_RETRIES", "0"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("CARGO_NET_RETRY", "0"),
    ("UV_HTTP_RETRIES", "0"),
];

/// A host that a command was refused. Its name is canonical: a DNS name or an address, in ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHost {
    /// The name or address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The reason, as a stable identifier.
    pub reason: &'static str,
    /// The entry of the allowlist that a person could add for one command; `None` if no person may, as for a private address.
    pub entry: Option<String>,
}

impl RefusedHost {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut fields = json!({"host": self.host, "port": self.port, "reason": self.reason});
        if let (Some(entry), Value::Object(fields)) = (&self.entry, &mut fields) {
            fields.insert("entry".to_owned(), json!(entry));
        }
        fields
    }
}

/// The hosts that a command was refused, the first of them.
pub(super) fn refused_hosts(report: Option<&EgressReport>) -> Vec<RefusedHost> {
    let refused = report.into_iter().flat_map(|report| &report.refused);
    let hosts = refused.filter_map(|counted| {
        let (host, port) = counted.item.host()?;
        let reason = counted.item.reason.as_str();
        Some(RefusedHost { host: host.to_string(), port, reason, entry: counted.item.missing_entry() })
    });
    hosts.take(MAX_LISTED).collect()
}

/// Reports the hosts that a command connected to and was refused, for the record of its call.
pub(super) fn note_hosts(report: Option<&EgressReport>, touched: &TouchedNames) {
    let Some(report) = report else { return };
    report.allowed.iter().for_each(|counted| touched.add_host(&counted.item.target));
    report.refused.iter().for_each(|counted| touched.add_refused_host(&counted.item.target));
}

/// A proxy that starts when the sandbox has created the network namespace, and stops before it is removed.
pub(super) struct Proxy {
    rules: NetworkAllowlist,
    dialer: Arc<dyn Dial>,
    report: Arc<Mutex<EgressReport>>,
    on_refusal: Arc<dyn Fn(&RejectedConnection) + Send + Sync>,
}

impl Proxy {
    pub(super) fn new(rules: NetworkAllowlist, dialer: Arc<dyn Dial>) -> Self {
        Self { rules, dialer, report: Arc::default(), on_refusal: Arc::new(|_| {}) }
    }

    /// The same with a callback for every rejected connection as it happens.
    pub(super) fn on_refusal(self, told: Arc<dyn Fn(&RejectedConnection) + Send + Sync>) -> Self {
        Self { on_refusal: told, ..self }
    }

    /// The hosts that may be reached through it.
    pub(super) fn rules(&self) -> &NetworkAllowlist {
        &self.rules
    }

    /// Serves until the returned value is dropped.
    pub(super) fn serve(&self, listener: TcpListener) -> io::Result<Box<dyn Send>> {
        let told = Arc::clone(&self.on_refusal);
        let observer = move |event: &EgressEvent| {
            if let EgressEvent::Refused(refusal) = event {
                told(refusal);
            }
        };
        let egress =
            EgressProxy::start(listener, self.rules.clone(), Arc::clone(&self.dialer), Box::new(observer))?;
        Ok(Box::new(ProxyGuard { egress: Some(egress), report: Arc::clone(&self.report) }))
    }

    /// The report, once the command has ended.
    pub(super) fn report(&self) -> EgressReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct ProxyGuard {
    egress: Option<EgressProxy>,
    report: Arc<Mutex<EgressReport>>,
}

impl Drop for ProxyGuard {
    fn drop(&mut self) {
        if let Some(egress) = self.egress.take() {
            *self.report.lock().unwrap_or_else(PoisonError::into_inner) = egress.stop();
        }
    }
}

/// A rejected connection as one line.
pub(super) fn refused_line(refusal: &RejectedConnection, key: &str) -> String {
    format!("{}\n", denied(refusal, key).to_line())
}

fn denied(refusal: &RejectedConnection, key: &str) -> CommandDenial {
    let remedy = match refusal.reason {
        RefusalReason::NotListed => {
            let entry = refusal.missing_entry().unwrap_or_else(|| refusal.target.clone());
            format!("the operator can add `{entry}` to `{key}`")
        }
        _ => "use the plain name of a host that is allowed".to_owned(),
    };
    CommandDenial {
        what: "network",
        target: Some(refusal.target.clone()),
        reason: refusal.reason.to_string(),
        remedy,
    }
}

/// The network access that was requested and denied.
pub(super) fn denials(reach: &Reach, report: Option<&EgressReport>, wanted_more: bool) -> Vec<CommandDenial> {
    let key = reach.key;
    let refused = report.into_iter().flat_map(|report| &report.refused).take(MAX_LISTED);
    let mut denials: Vec<CommandDenial> = refused.map(|counted| denied(&counted.item, key)).collect();
    // Programs that try the proxy also try without it, which explains nothing more.
    let is_explained = reach.rules.is_empty() && !denials.is_empty();
    if wanted_more && !is_explained {
        let (reason, remedy) = match reach.rules.is_empty() {
            true => (
                "the command has no network",
                format!("go on without it; the operator can allow hosts with `{key}: [example.com]`"),
            ),
            false => (
                "the command has no network but its proxy",
                "use the proxy that `https_proxy` names".to_owned(),
            ),
        };
        denials.push(CommandDenial { what: "network", target: None, reason: reason.to_owned(), remedy });
    }
    denials
}
