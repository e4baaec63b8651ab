//! What the operator is told about one server.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use toolgate_types::Failure;

use super::locked;
use crate::bridge::BridgeOptions;
use crate::settings::ServerName;

/// How many different complaints about one server are passed on.
const MOST_COMPLAINTS: usize = 200;

/// How many paths are named at once.
const MOST_NAMED: usize = 20;

/// Speaks about one server.
pub(crate) struct Voice {
    name: ServerName,
    options: Arc<BridgeOptions>,
    said: Mutex<HashSet<String>>,
    left_out: Mutex<BTreeSet<String>>,
}

impl Voice {
    pub(super) fn new(name: ServerName, options: Arc<BridgeOptions>) -> Arc<Self> {
        Arc::new(Self { name, options, said: Mutex::default(), left_out: Mutex::default() })
    }

    /// Tells the operator, once.
    pub(super) fn complain(&self, words: &str) {
        let mut said = locked(&self.said);
        if said.len() < MOST_COMPLAINTS && said.insert(words.to_owned()) {
            (self.options.complain)(&format!("mcp server `{}`: {words}", self.name));
        }
    }

    /// Tells the operator, once, that something of the server's is no tool; it is listed with the server, too.
    pub(super) fn leave_out(&self, words: &str) {
        self.complain(words);
        let mut left_out = locked(&self.left_out);
        if left_out.len() < MOST_COMPLAINTS {
            left_out.insert(words.to_owned());
        }
    }

    /// What was left out.
    pub(super) fn left_out(&self) -> Vec<String> {
        locked(&self.left_out).iter().cloned().collect()
    }

    /// Tells what was taken away, every time: it may have been somebody's own.
    pub(super) fn tell_taken(&self, taken: &Result<Vec<String>, Failure>, kept_in: Option<&str>) {
        match taken {
            Ok(paths) if paths.is_empty() => {}
            Ok(paths) => {
                let place = kept_in.map(|place| format!(" and is kept in `{place}`")).unwrap_or_default();
                (self.options.alarm)(&format!(
                    "mcp server `{}`: what appeared under protected names in its mounts was taken away{place}: {}",
                    self.name,
                    named(paths)
                ));
            }
            Err(failure) => {
                let note =
                    failure.operator_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
                let words = format!("mcp server `{}`: {}{note}", self.name, failure.message);
                if locked(&self.said).insert(words.clone()) {
                    (self.options.alarm)(&words);
                }
            }
        }
    }
}

fn named(paths: &[String]) -> String {
    let more = paths.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    let named = paths.iter().take(MOST_NAMED).cloned().chain(more.map(|more| format!("{more} more")));
    named.collect::<Vec<_>>().join(", ")
}
