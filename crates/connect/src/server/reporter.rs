//! What the operator is told about one server.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use toolgate_types::Failure;

use super::locked;
use crate::bridge::BridgeOptions;
use crate::settings::ServerName;

/// How many different complaints about one server are passed on.
const MAX_WARNINGS: usize = 200;

/// How many paths are named at once.
const MAX_LISTED_PATHS: usize = 20;

/// Speaks about one server.
pub(crate) struct ServerReporter {
    name: ServerName,
    options: Arc<BridgeOptions>,
    reported: Mutex<HashSet<String>>,
    rejected: Mutex<BTreeSet<String>>,
}

impl ServerReporter {
    pub(super) fn new(name: ServerName, options: Arc<BridgeOptions>) -> Arc<Self> {
        Arc::new(Self { name, options, reported: Mutex::default(), rejected: Mutex::default() })
    }

    /// Tells the operator, once.
    pub(super) fn warn(&self, words: &str) {
        let mut said = locked(&self.reported);
        if said.len() < MAX_WARNINGS && said.insert(words.to_owned()) {
            (self.options.warn)(&format!("mcp server `{}`: {words}", self.name));
        }
    }

    /// Tells the operator, once, that something of the server's is no tool; it is listed with the server, too.
    pub(super) fn report_rejected(&self, words: &str) {
        self.warn(words);
        let mut left_out = locked(&self.rejected);
        if left_out.len() < MAX_WARNINGS {
            left_out.insert(words.to_owned());
        }
    }

    /// What was left out.
    pub(super) fn rejected(&self) -> Vec<String> {
        locked(&self.rejected).iter().cloned().collect()
    }

    /// Tells what was taken away, every time: it may have been somebody's own.
    pub(super) fn report_quarantined(&self, taken: &Result<Vec<String>, Failure>, kept_in: Option<&str>) {
        match taken {
            Ok(paths) if paths.is_empty() => {}
            Ok(paths) => {
                let place = kept_in.map(|place| format!(" and is kept in `{place}`")).unwrap_or_default();
                (self.options.error)(&format!(
                    "mcp server `{}`: what appeared under protected names in its mounts was taken away{place}: {}",
                    self.name,
                    list_paths(paths)
                ));
            }
            Err(failure) => {
                let note =
                    failure.operator_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
                let words = format!("mcp server `{}`: {}{note}", self.name, failure.message);
                if locked(&self.reported).insert(words.clone()) {
                    (self.options.error)(&words);
                }
            }
        }
    }
}

fn list_paths(paths: &[String]) -> String {
    let more = paths.len().checked_sub(MAX_LISTED_PATHS).filter(|more| *more > 0);
    let named = paths.iter().take(MAX_LISTED_PATHS).cloned().chain(more.map(|more| format!("{more} more")));
    named.collect::<Vec<_>>().join(", ")
}
