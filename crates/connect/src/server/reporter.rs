//! Reports about one server to the operator.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use toolgate_types::Failure;

use super::locked;
use crate::bridge::BridgeOptions;
use crate::settings::ServerName;

/// Maximum number of distinct warnings about one server.
const MAX_WARNINGS: usize = 200;

/// Maximum number of paths in one message.
const MAX_LISTED_PATHS: usize = 20;

/// Reports about one server.
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

    /// Warns the operator, once per text.
    pub(super) fn warn(&self, words: &str) {
        let mut said = locked(&self.reported);
        if said.len() < MAX_WARNINGS && said.insert(words.to_owned()) {
            (self.options.warn)(&format!("mcp server `{}`: {words}", self.name));
        }
    }

    /// Warns about a rejected tool, once, and lists it in the server's health.
    pub(super) fn report_rejected(&self, words: &str) {
        self.warn(words);
        let mut left_out = locked(&self.rejected);
        if left_out.len() < MAX_WARNINGS {
            left_out.insert(words.to_owned());
        }
    }

    /// The rejected tools.
    pub(super) fn rejected(&self) -> Vec<String> {
        locked(&self.rejected).iter().cloned().collect()
    }

    /// Reports quarantined files, every time: they may have been the user's own.
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
