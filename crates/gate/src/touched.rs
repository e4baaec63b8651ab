//! What a call touches, collected for its record.
//!
//! Names only. A call that names a path asks for it; what the journal committed was changed. The operator's setting `audit.details` decides what is
//! collected at all.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolgate_audit::CallDetails;
use toolgate_manifest::AuditDetail;
use toolgate_policy::PathInputs;
use toolgate_text::secret_detection::{redact_command, redact_path};
use toolgate_workspace::{ChangeKind, PlannedChange};

use crate::tool::Tool;

/// How many names of a kind are collected: one more than a record holds, so that it says that some are missing.
const MAX_NAMES: usize = 256;

/// Collects what one call touches. Clones share one collection.
#[derive(Clone, Debug)]
pub struct TouchedNames {
    detail: AuditDetail,
    details: Arc<Mutex<CallDetails>>,
}

impl TouchedNames {
    pub(crate) fn new(detail: AuditDetail) -> Self {
        Self { detail, details: Arc::default() }
    }

    /// The paths and, if the operator wants it, the command that the arguments name. They replace those of arguments that a person changed.
    pub(crate) fn set_named(&self, tool: &dyn Tool, inputs: &PathInputs, arguments: &Value) {
        if self.detail == AuditDetail::Off {
            return;
        }
        let mut details = self.lock();
        details.paths = inputs.named_paths(arguments).take(MAX_NAMES).map(redact_path).collect();
        details.command = match self.detail {
            AuditDetail::Commands => tool.shell_line(arguments).map(redact_command),
            AuditDetail::Paths | AuditDetail::Off => None,
        };
    }

    /// A host that a command connected to.
    pub fn add_host(&self, host: &str) {
        self.add(|details| &mut details.hosts, host);
    }

    /// The hosts of another call: that which started a command, for the one that learns of its end.
    pub fn add_hosts_of(&self, other: &Self) {
        let (hosts, refused) = {
            let details = other.lock();
            (details.hosts.clone(), details.refused_hosts.clone())
        };
        hosts.iter().for_each(|host| self.add_host(host));
        refused.iter().for_each(|host| self.add_refused_host(host));
    }

    /// A host that a command was refused.
    pub fn add_refused_host(&self, host: &str) {
        self.add(|details| &mut details.refused_hosts, host);
    }

    /// A question of a server to the person: what it was about, and how it ended. Recorded whatever the operator has collected.
    pub(crate) fn add_question(&self, words: &str) {
        let mut details = self.lock();
        if details.questions.len() < MAX_NAMES {
            details.questions.push(words.to_owned());
        }
    }

    /// Changes that were made. Their files are left out of the paths that the arguments name.
    pub(crate) fn add_changes(&self, changes: &[NamedChange]) {
        for NamedChange { list, name, paths } in changes {
            self.add(*list, name);
            if self.detail != AuditDetail::Off {
                self.lock().paths.retain(|known| !paths.contains(known));
            }
        }
    }

    fn add(&self, list: fn(&mut CallDetails) -> &mut Vec<String>, name: &str) {
        if self.detail == AuditDetail::Off {
            return;
        }
        let mut details = self.lock();
        let names = list(&mut details);
        let name = redact_path(name.to_owned());
        if names.len() < MAX_NAMES && !names.contains(&name) {
            names.push(name);
        }
    }

    /// What was collected so far.
    pub(crate) fn collected(&self) -> MutexGuard<'_, CallDetails> {
        self.lock()
    }

    /// Every update is complete once the lock is released, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, CallDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One change, as a record names it.
#[derive(Debug)]
pub(crate) struct NamedChange {
    list: fn(&mut CallDetails) -> &mut Vec<String>,
    name: String,
    /// The file, by its old and its new name.
    paths: Vec<String>,
}

impl NamedChange {
    pub(crate) fn of(change: &PlannedChange<'_>) -> Self {
        let path = alias_path(change.alias, change.location);
        let (list, new): (fn(&mut CallDetails) -> &mut Vec<String>, _) = match &change.kind {
            ChangeKind::Create => (|details| &mut details.created, None),
            ChangeKind::Modify => (|details| &mut details.modified, None),
            ChangeKind::Delete => (|details| &mut details.deleted, None),
            ChangeKind::Move { alias, location, .. } => {
                (|details| &mut details.moved, Some(alias_path(alias, location)))
            }
        };
        let name = new.iter().fold(path.clone(), |old, new| format!("{old} -> {new}"));
        Self { list, name, paths: std::iter::once(path).chain(new).collect() }
    }
}

/// `@project/src/a.rs`
fn alias_path(alias: &str, location: &Path) -> String {
    format!("{alias}/{}", location.display())
}
