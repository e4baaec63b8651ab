//! Information flow: what a tool declares about the data that it returns and the places that it reaches, and the labels of a session.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a call does to the world outside of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowEffect {
    /// Reads; no argument leaves the machine.
    Read,
    /// Changes something that can be undone.
    Write,
    /// Changes something that may be lost for good.
    Destroy,
    /// Sends something out. A GET is egress: its URL is data.
    Egress,
}

impl FlowEffect {
    /// The word used in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destroy => "destroy",
            Self::Egress => "egress",
        }
    }
}

/// Labels of a session: what its model has seen. There is no operation that removes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowLabels(u8);

impl FlowLabels {
    /// Nothing seen.
    pub const NONE: Self = Self(0);
    /// Content that others wrote, which may hold instructions for the model.
    pub const UNTRUSTED: Self = Self(1);
    /// Content that must not leave.
    pub const SECRET: Self = Self(2);
    /// Both.
    pub const ALL: Self = Self(3);

    /// With those of another.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has every label of another.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The words, in a fixed order.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let known = [(Self::UNTRUSTED, "untrusted"), (Self::SECRET, "secret")];
        known.into_iter().filter(move |(label, _)| self.contains(*label)).map(|(_, word)| word)
    }

    /// The label of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::UNTRUSTED, Self::SECRET].into_iter().find(|label| label.words().any(|known| known == word))
    }
}

impl fmt::Display for FlowLabels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("none");
        }
        for (number, word) in self.words().enumerate() {
            if number > 0 {
                formatter.write_str(", ")?;
            }
            formatter.write_str(word)?;
        }
        Ok(())
    }
}

/// What an argument is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentRole {
    /// It names where something goes or what is changed. The values that the operator listed pass.
    Target(Vec<String>),
    /// It is what is sent or stored.
    Content,
}

/// The mounts that a call can read besides its declared output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FlowMounts {
    /// None.
    #[default]
    None,
    /// Those that its path arguments lie in.
    Located,
    /// These.
    Named(Vec<String>),
    /// Any.
    All,
}

/// What the operator declared about a tool; absent values have a default that depends on the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSettings {
    /// `effect`.
    pub effect: Option<FlowEffect>,
    /// `output_trust: untrusted` is `Some(true)`.
    pub untrusted: Option<bool>,
    /// `secret`.
    pub secret: Option<bool>,
    /// `directory`: its output endorses targets.
    pub directory: bool,
    /// `arguments`, by name, by path (`message.to`), and `*` for all others.
    pub arguments: BTreeMap<String, ArgumentRole>,
}

impl FlowSettings {
    /// These, with the values of a more general declaration where there are none.
    #[must_use]
    pub fn or(&self, general: &Self) -> Self {
        Self {
            effect: self.effect.or(general.effect),
            untrusted: self.untrusted.or(general.untrusted),
            secret: self.secret.or(general.secret),
            directory: self.directory || general.directory,
            arguments: if self.arguments.is_empty() { &general.arguments } else { &self.arguments }.clone(),
        }
    }

    /// Over the defaults of a tool.
    #[must_use]
    pub fn over(&self, default: FlowDeclaration) -> FlowDeclaration {
        let label = |declared: Option<bool>, label: FlowLabels| {
            if declared.unwrap_or(default.output.contains(label)) { label } else { FlowLabels::NONE }
        };
        let untrusted = label(self.untrusted, FlowLabels::UNTRUSTED);
        FlowDeclaration {
            effect: self.effect.unwrap_or(default.effect),
            output: untrusted.union(label(self.secret, FlowLabels::SECRET)),
            // Only a trusted output endorses.
            directory: self.directory && untrusted.is_empty(),
            arguments: self.arguments.clone(),
            mounts: default.mounts,
        }
    }
}

/// What a tool declares about information flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowDeclaration {
    /// What its calls do.
    pub effect: FlowEffect,
    /// The labels of its output.
    pub output: FlowLabels,
    /// Whether the values of its output may be targets.
    pub directory: bool,
    /// The roles of its arguments; an argument without a role is content.
    pub arguments: BTreeMap<String, ArgumentRole>,
    /// The mounts whose labels its output has as well.
    pub mounts: FlowMounts,
}

impl FlowDeclaration {
    /// With this effect and these labels, and no target.
    #[must_use]
    pub fn new(effect: FlowEffect, output: FlowLabels) -> Self {
        let (arguments, mounts) = (BTreeMap::new(), FlowMounts::None);
        Self { effect, output, directory: false, arguments, mounts }
    }

    /// The same, whose calls read these mounts.
    #[must_use]
    pub fn reading(self, mounts: FlowMounts) -> Self {
        Self { mounts, ..self }
    }

    /// Whether an argument is a target.
    #[must_use]
    pub fn has_target(&self) -> bool {
        self.arguments.values().any(|role| matches!(role, ArgumentRole::Target(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back() {
        for label in [FlowLabels::UNTRUSTED, FlowLabels::SECRET] {
            let words: Vec<_> = label.words().collect();
            assert_eq!(
                words.iter().filter_map(|word| FlowLabels::from_word(word)).collect::<Vec<_>>(),
                [label]
            );
        }
        assert_eq!(FlowLabels::ALL.to_string(), "untrusted, secret");
        assert_eq!(FlowLabels::NONE.to_string(), "none");
        assert_eq!(FlowLabels::from_word("public"), None);
    }

    #[test]
    fn an_untrusted_output_is_no_directory() {
        let default = FlowDeclaration::new(FlowEffect::Egress, FlowLabels::UNTRUSTED);
        let settings = FlowSettings { directory: true, ..FlowSettings::default() };
        assert!(!settings.over(default.clone()).directory);
        let trusted = FlowSettings { untrusted: Some(false), ..settings };
        assert!(trusted.over(default).directory);
    }
}
