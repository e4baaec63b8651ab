//! The egress proxy of a command, if it has network access.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use toolgate_egress::{
    Dial, EgressEvent, EgressProxy, EgressReport, NetworkAllowlist, RefusalReason, RejectedConnection,
};

use crate::command_denial::CommandDenial;

/// Beyond this many, rejected hosts are not listed.
const MAX_LISTED: usize = 8;

/// The hosts that a command may reach, and the configuration key to add one.
#[derive(Clone)]
pub struct Reach {
    /// The allowlist; `None` without a network.
    pub rules: Option<NetworkAllowlist>,
    /// The configuration key, for remedies.
    pub key: &'static str,
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
            let host = refusal.target.rsplit_once(':').map_or(&*refusal.target, |(host, _)| host);
            format!("the operator can add `{host}` to `{key}`")
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
    if wanted_more {
        let (reason, remedy) = match report {
            None => (
                "the command has no network",
                format!("go on without it; the operator can allow hosts with `{key}: [example.com]`"),
            ),
            Some(_) => (
                "the command has no network but its proxy",
                "use the proxy that `https_proxy` names".to_owned(),
            ),
        };
        denials.push(CommandDenial { what: "network", target: None, reason: reason.to_owned(), remedy });
    }
    denials
}
