//! The tools that a server offers, and which of them are approved.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use toolgate_types::Sha256;

use crate::definition::{Definition, Schemas};
use crate::pins::{PinFile, PinState};
use crate::untrusted_schema::{PatternBudget, any_value_schema};

/// The tools of one server, by name.
#[derive(Default)]
pub(crate) struct Catalogue {
    entries: Vec<CatalogueEntry>,
}

/// One tool.
#[derive(Clone)]
pub(crate) struct CatalogueEntry {
    pub(crate) definition: Arc<Definition>,
    pub(crate) digest: Sha256,
    /// Why it must not be used for now.
    pub(crate) suspended: Option<String>,
    checked: Arc<OnceLock<CheckedSchemas>>,
}

/// The result of checking a tool's schemas.
struct CheckedSchemas {
    schemas: Result<Schemas, String>,
    /// The memory of their compiled patterns.
    pattern_bytes: usize,
}

impl Catalogue {
    /// The tools in a pin file.
    pub(super) fn from_pins(pins: &PinFile) -> Self {
        let entries = pins.tools().filter_map(|(_, pinned)| {
            let suspended = match pinned.state() {
                PinState::Gone => return None,
                PinState::Agreed => None,
                PinState::New => Some("nobody has agreed to this tool".to_owned()),
                PinState::Changed => Some(
                    "the server has changed the definition of this tool since it was agreed to".to_owned(),
                ),
            };
            Some(CatalogueEntry::new(pinned.offered()?.clone(), suspended))
        });
        Self { entries: entries.collect() }
    }

    /// The offered tools while the pins cannot be read: all suspended.
    pub(super) fn all_suspended(offered: &[Definition], reason: &str) -> Self {
        let mut entries: Vec<CatalogueEntry> = offered
            .iter()
            .map(|definition| CatalogueEntry::new(definition.clone(), Some(reason.to_owned())))
            .collect();
        entries.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
        Self { entries }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &CatalogueEntry> {
        self.entries.iter()
    }

    /// Takes over the checked schemas of unchanged tools.
    pub(super) fn inherit(&mut self, before: &Self) {
        let known: HashMap<Sha256, &CatalogueEntry> =
            before.entries.iter().map(|entry| (entry.digest, entry)).collect();
        for entry in &mut self.entries {
            if let Some(earlier) = known.get(&entry.digest) {
                entry.checked = Arc::clone(&earlier.checked);
            }
        }
    }

    /// Everything that distinguishes it from another catalogue.
    pub(super) fn fingerprint(&self) -> Vec<(&str, Sha256, Option<&str>)> {
        self.entries
            .iter()
            .map(|entry| (entry.definition.name.as_str(), entry.digest, entry.suspended.as_deref()))
            .collect()
    }

    /// The names of the tools that wait for an operator.
    pub(super) fn unapproved(&self) -> Vec<&str> {
        self.entries
            .iter()
            .filter(|entry| entry.suspended.is_some())
            .map(|entry| entry.definition.name.as_str())
            .collect()
    }
}

impl CatalogueEntry {
    fn new(definition: Definition, suspended: Option<String>) -> Self {
        Self {
            digest: definition.digest(),
            definition: Arc::new(definition),
            suspended,
            checked: Arc::default(),
        }
    }

    /// Its schemas, checked once. A suspended tool gets a schema that accepts anything: it cannot be called, and a server that keeps changing its
    /// definitions must not cause work.
    pub(crate) fn schemas(&self, room: &mut PatternBudget) -> Result<Schemas, String> {
        if self.suspended.is_some() {
            return Ok((any_value_schema().into(), None));
        }
        let seen = self.checked.get_or_init(|| {
            let (mut own, before) = (room.for_tool(), room.for_tool());
            let schemas = self.definition.schemas(&mut own);
            CheckedSchemas { schemas, pattern_bytes: own.used_since(before) }
        });
        room.consume(seen.pattern_bytes);
        seen.schemas.clone()
    }
}
