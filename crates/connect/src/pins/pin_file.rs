//! The pins of one server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_types::Sha256;

use crate::definition::Definition;
use crate::settings::PinPolicy;

/// Maximum number of tools, including ones that the server no longer lists.
const MAX_REMEMBERED_TOOLS: usize = 4_000;

/// The pins of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinFile {
    version: u32,
    /// Whether the server was ever contacted: what it lists later is new.
    met: bool,
    /// The configuration that declares the server, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
    /// The protocol that the server was last spoken to with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifecycle: Option<KnownLifecycle>,
    tools: BTreeMap<String, PinnedTool>,
}

/// The protocol that a server was spoken to with. A later start begins with it, so that a server which does not know the other one is not started
/// twice, or waited for until the probe times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownLifecycle {
    /// With `initialize` (2025-11-25 and before).
    Session,
    /// Without (2026-07-28).
    Stateless,
}

/// The version of the format.
const VERSION: u32 = 1;

/// The pin of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedTool {
    /// The approved definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agreed: Option<Definition>,
    /// The definition that the server offered last, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offered: Option<Definition>,
    /// Whether the server listed it the last time.
    present: bool,
}

/// The state of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    /// Never approved.
    New,
    /// The offered definition is approved.
    Agreed,
    /// Another definition is approved.
    Changed,
    /// The server no longer lists it.
    Gone,
}

impl PinState {
    /// The state as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Agreed => "agreed",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

impl PinnedTool {
    /// The approved definition.
    #[must_use]
    pub fn agreed(&self) -> Option<&Definition> {
        self.agreed.as_ref()
    }

    /// The definition that the server offers.
    #[must_use]
    pub fn offered(&self) -> Option<&Definition> {
        self.offered.as_ref().or(self.agreed.as_ref())
    }

    /// The state of the tool.
    #[must_use]
    pub fn state(&self) -> PinState {
        match (self.present, &self.agreed, &self.offered) {
            (false, ..) => PinState::Gone,
            (true, None, _) => PinState::New,
            (true, Some(_), None) => PinState::Agreed,
            (true, Some(_), Some(_)) => PinState::Changed,
        }
    }

    /// Records the offered definition.
    fn offer(&mut self, definition: &Definition) {
        self.present = true;
        // A return to the approved definition needs no new approval.
        let same = self.agreed.as_ref().is_some_and(|agreed| agreed.digest() == definition.digest());
        self.offered = (!same).then(|| definition.clone());
    }
}

impl PinFile {
    /// The tools, by the server's names for them.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &PinnedTool)> {
        self.tools.iter().map(|(name, pinned)| (name.as_str(), pinned))
    }

    /// One tool.
    #[must_use]
    pub fn get(&self, tool: &str) -> Option<&PinnedTool> {
        self.tools.get(tool)
    }

    /// Parses a file, rejecting inconsistent entries.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!("version {} is not known", file.version));
        }
        for (name, pinned) in &file.tools {
            let mut named = pinned.agreed.iter().chain(&pinned.offered);
            if named.clone().next().is_none() || named.any(|definition| definition.name != *name) {
                return Err(format!("the entry `{}` is about something else", name.escape_debug()));
            }
        }
        Ok(file)
    }

    /// The file's content.
    pub(super) fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Whether the server was ever contacted.
    pub(super) fn is_met(&self) -> bool {
        self.met
    }

    /// The protocol that the server was last spoken to with.
    pub(crate) fn lifecycle(&self) -> Option<KnownLifecycle> {
        self.lifecycle
    }

    pub(super) fn set_lifecycle(&mut self, lifecycle: KnownLifecycle) {
        self.lifecycle = Some(lifecycle);
    }

    pub(super) fn set_configuration(&mut self, configuration: &str) {
        self.configuration = Some(configuration.to_owned());
    }

    /// Records what the server offers now.
    pub(super) fn observe(&mut self, policy: PinPolicy, offered: &[Definition]) {
        self.version = VERSION;
        let first = !std::mem::replace(&mut self.met, true);
        self.tools.values_mut().for_each(|pinned| pinned.present = false);
        for definition in offered {
            let name = definition.name.clone();
            let known =
                self.tools.entry(name).or_insert(PinnedTool { agreed: None, offered: None, present: true });
            if first && policy == PinPolicy::FirstUse && known.agreed.is_none() {
                known.agreed = Some(definition.clone());
            }
            known.offer(definition);
        }
        // Tools that were never approved and are no longer listed need not be remembered.
        self.tools.retain(|_, pinned| pinned.present || pinned.agreed.is_some());
        while self.tools.len() > MAX_REMEMBERED_TOOLS {
            let Some(gone) =
                self.tools.iter().find(|(_, pinned)| !pinned.present).map(|(name, _)| name.clone())
            else {
                break;
            };
            self.tools.remove(&gone);
        }
    }

    /// Approves the offered definition, if it has this digest.
    pub(super) fn agree(&mut self, tool: &str, digest: Sha256) -> bool {
        let Some(pinned) = self.tools.get_mut(tool) else { return false };
        if pinned.offered().is_none_or(|offered| offered.digest() != digest) {
            return false;
        }
        if let Some(offered) = pinned.offered.take() {
            pinned.agreed = Some(offered);
        }
        true
    }

    pub(super) fn forget(&mut self, tool: &str) {
        self.tools.remove(tool);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn definition(name: u8, version: u8) -> Definition {
        Definition {
            name: format!("tool{name}"),
            title: None,
            description: Some(format!("version {version}")),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
        }
    }

    /// An event that changes the pins.
    #[derive(Clone, Debug)]
    enum Step {
        /// The server offers these tools in these versions.
        Offers(BTreeMap<u8, u8>),
        /// An operator approves a version of a tool.
        Agrees(u8, u8),
        Forgets(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => prop::collection::btree_map(0u8..4, 0u8..3, 0..4).prop_map(Step::Offers),
            2 => (0u8..4, 0u8..3).prop_map(|(tool, version)| Step::Agrees(tool, version)),
            1 => (0u8..4).prop_map(Step::Forgets),
        ];
        prop::collection::vec(step, 0..20)
    }

    /// The reference model: which version of each tool was approved, and what was offered last.
    #[derive(Default)]
    struct Model {
        met: bool,
        agreed: BTreeMap<u8, u8>,
        offered: BTreeMap<u8, u8>,
        /// The last offered version of approved tools that are gone.
        last: BTreeMap<u8, u8>,
    }

    impl Model {
        fn step(&mut self, step: &Step, policy: PinPolicy) {
            match step {
                Step::Offers(offered) => {
                    if !self.met && policy == PinPolicy::FirstUse {
                        for (tool, version) in offered {
                            self.agreed.entry(*tool).or_insert(*version);
                        }
                    }
                    self.met = true;
                    self.last.extend(offered);
                    self.offered = offered.clone();
                    self.last.retain(|tool, _| offered.contains_key(tool) || self.agreed.contains_key(tool));
                }
                Step::Agrees(tool, version) => {
                    if self.last.get(tool) == Some(version) {
                        self.agreed.insert(*tool, *version);
                    }
                }
                Step::Forgets(tool) => {
                    self.agreed.remove(tool);
                    self.offered.remove(tool);
                    self.last.remove(tool);
                }
            }
        }

        fn state(&self, tool: u8) -> Option<PinState> {
            match (self.offered.get(&tool), self.agreed.get(&tool)) {
                (Some(_), None) => Some(PinState::New),
                (Some(offered), Some(agreed)) if offered == agreed => Some(PinState::Agreed),
                (Some(_), Some(_)) => Some(PinState::Changed),
                (None, Some(_)) => Some(PinState::Gone),
                (None, None) => None,
            }
        }
    }

    proptest! {
        #[test]
        fn pins_stand_as_in_the_model(steps in steps(), first_use in any::<bool>()) {
            let policy = if first_use { PinPolicy::FirstUse } else { PinPolicy::Approved };
            let (mut file, mut model) = (PinFile::default(), Model::default());
            for step in &steps {
                model.step(step, policy);
                match step {
                    Step::Offers(offered) => {
                        let offered: Vec<Definition> = offered.iter().map(|(tool, version)| definition(*tool, *version)).collect();
                        file.observe(policy, &offered);
                    }
                    Step::Agrees(tool, version) => {
                        file.agree(&format!("tool{tool}"), definition(*tool, *version).digest());
                    }
                    Step::Forgets(tool) => file.forget(&format!("tool{tool}")),
                }
                for tool in 0..4 {
                    prop_assert_eq!(file.get(&format!("tool{tool}")).map(PinnedTool::state), model.state(tool), "{:?} after {:?}", tool, steps);
                }
                if file.is_met() {
                    prop_assert_eq!(&PinFile::parse(file.to_text().as_bytes()).unwrap(), &file);
                }
            }
        }
    }
}
