//! A case, as its file declares it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::hostile::HostileSequence;

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name, unique in a suite.
    pub name: String,
    /// What it proves.
    pub kind: CaseKind,
    /// One sentence on what is tried.
    pub about: String,
    /// What the model is asked.
    pub prompt: String,
    /// How the gate is set up.
    #[serde(default)]
    pub(crate) gate: GateSetup,
    /// What is in the workspace beside the sample repository.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// What the scripted model does: the steps of a script.
    #[serde(default)]
    pub(crate) script: Value,
    /// Calls in place of a script and a model, in flight together and while things happen to the gate.
    #[serde(default)]
    pub(crate) sequence: Option<HostileSequence>,
    /// What must be so afterwards.
    pub(crate) expect: Expectations,
    /// The layer that the case tests, and a gate without it: the case must fail there.
    #[serde(default)]
    pub without: Option<Weakening>,
}

/// What a case proves.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// What was not declared does not happen.
    Boundary,
    /// What was declared works.
    Capability,
}

impl CaseKind {
    /// The word in files and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boundary => "boundary",
            Self::Capability => "capability",
        }
    }
}

/// Who makes the calls of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Player {
    /// A scripted model, in the agent loop.
    Script,
    /// A model that was chosen, in the agent loop.
    Model,
    /// A program with a token, over HTTP: no model takes part.
    Caller,
    /// The calls of a sequence, as they are: no model could overlap them in the same way.
    Sequence,
}

impl Player {
    /// The word in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Model => "model",
            Self::Caller => "caller over HTTP",
            Self::Sequence => "sequence",
        }
    }
}

impl Weakening {
    /// What takes the layer out, in a few words.
    #[must_use]
    pub fn means(&self) -> String {
        let given = [
            ("configuration", self.config.is_some()),
            ("manifest", !self.files.is_empty()),
            ("profile", self.profile.is_some()),
            ("caller", self.token.is_some()),
            ("trust", self.trust.is_some()),
            ("`--auth`", self.auth.is_some()),
            ("the person", !self.person.is_empty()),
            ("commands of the host", self.commands.is_some()),
        ];
        given.iter().filter(|(_, given)| *given).map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
    }
}

/// How the gate is set up.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GateSetup {
    /// The profile; `proxy` by default.
    pub(crate) profile: Option<String>,
    /// The trust level; `autonomous` by default, because no person can be asked.
    pub(crate) trust: Option<String>,
    /// `toolgate.yaml`; none by default.
    pub(crate) config: Option<String>,
    /// Files beside it, such as manifests.
    pub(crate) files: BTreeMap<String, String>,
    /// Permissions of the token, if the caller is one over HTTP.
    pub(crate) token: Option<TokenSetup>,
    /// What `serve --auth` is given for a caller over HTTP; `jwt` by default.
    pub(crate) auth: Option<String>,
    /// `toolgate.yaml` is one of the workspace's own files, and named by no option.
    pub(crate) found: bool,
    /// Commands of the binary that the person gives before the model begins.
    pub(crate) person: Vec<Vec<String>>,
    /// What runs commands, if not the gate.
    pub(crate) commands: Option<CaseCommands>,
}

/// What runs commands in place of the gate.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CaseCommands {
    /// The host's shell, as with an agent that has no sandbox.
    Host,
}

/// A caller over HTTP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenSetup {
    pub(crate) subject: String,
    #[serde(default)]
    pub(crate) permissions: Vec<String>,
    /// Sent in place of a token that was signed for this gate.
    pub(crate) forged: Option<String>,
    /// Sent as the name of the host, in place of its address.
    pub(crate) host: Option<String>,
}

/// What must be so afterwards.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expectations {
    pub(crate) outcome: ExpectedOutcome,
    #[serde(default)]
    pub(crate) audit_must_contain: Patterns,
    #[serde(default)]
    pub(crate) audit_must_not_contain: Patterns,
    #[serde(default)]
    pub(crate) audit_may_contain: Patterns,
    /// Globs of workspace files; everything that is not named here must be unchanged.
    #[serde(default)]
    pub(crate) files: ExpectedFiles,
    /// Texts of the final answer.
    #[serde(default)]
    pub(crate) answer_contains: Vec<String>,
    /// Texts of results that the model was given.
    #[serde(default)]
    pub(crate) results_contain: Vec<String>,
    /// Texts of no result and no answer.
    #[serde(default)]
    pub(crate) never_shown: Vec<String>,
}

/// How the calls of a case end.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExpectedOutcome {
    /// The gate denied a call.
    Denied,
    /// The gate denied a call, or the model made none that had an effect.
    DeniedOrRefused,
    /// The gate does not start.
    NotStarted,
    /// Calls were made, and every one succeeded.
    Completed,
    /// Whatever happens, as long as the checks hold.
    Any,
}

/// Files that may change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExpectedFiles {
    /// These must have changed.
    pub(crate) changed: Vec<String>,
    /// These must not have changed, even if `changed` names them too.
    pub(crate) unchanged: Vec<String>,
}

/// One pattern, or a list of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
pub(crate) enum Patterns {
    #[default]
    None,
    One(RecordPattern),
    Several(Vec<RecordPattern>),
}

impl Patterns {
    pub(crate) fn as_slice(&self) -> &[RecordPattern] {
        match self {
            Self::None => &[],
            Self::One(pattern) => std::slice::from_ref(pattern),
            Self::Several(patterns) => patterns,
        }
    }
}

/// What a record says. Every field that is given must be equal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RecordPattern {
    pub(crate) tool: Option<String>,
    pub(crate) decision: Option<String>,
    pub(crate) stage: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) class: Option<String>,
    pub(crate) caller: Option<String>,
}

/// A gate without the layer that a case tests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weakening {
    /// The stage or the layer that is taken out.
    pub layer: String,
    /// `toolgate.yaml` in place of the case's.
    #[serde(default)]
    pub(crate) config: Option<String>,
    /// Files beside it, over those of the case.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Another profile.
    #[serde(default)]
    pub(crate) profile: Option<String>,
    /// Another caller.
    #[serde(default)]
    pub(crate) token: Option<TokenSetup>,
    /// Another trust level.
    #[serde(default)]
    pub(crate) trust: Option<String>,
    /// Another `serve --auth`.
    #[serde(default)]
    pub(crate) auth: Option<String>,
    /// Further commands of the person.
    #[serde(default)]
    pub(crate) person: Vec<Vec<String>>,
    /// What runs commands in place of the gate.
    #[serde(default)]
    pub(crate) commands: Option<CaseCommands>,
    /// The test that shows that the layer matters, where no configuration takes it out: `FILE::NAME`.
    #[serde(default)]
    pub test: Option<String>,
}

impl Case {
    /// The same case against a gate without the layer that it tests, if a configuration can take that out.
    #[must_use]
    pub fn weakened(&self) -> Option<Self> {
        let without = self.without.clone().filter(|without| without.test.is_none())?;
        let mut case = self.clone();
        case.gate.config = without.config.or(case.gate.config);
        case.gate.files.extend(without.files);
        case.gate.profile = without.profile.or(case.gate.profile);
        case.gate.token = without.token.or(case.gate.token);
        case.gate.trust = without.trust.or(case.gate.trust);
        case.gate.auth = without.auth.or(case.gate.auth);
        case.gate.person.extend(without.person);
        case.gate.commands = without.commands.or(case.gate.commands);
        Some(case)
    }

    /// Who makes its calls, where a model was chosen.
    #[must_use]
    pub fn player(&self, has_model: bool) -> Player {
        match (&self.sequence, &self.gate.token) {
            (Some(_), _) => Player::Sequence,
            (None, Some(_)) => Player::Caller,
            (None, None) if has_model => Player::Model,
            (None, None) => Player::Script,
        }
    }
}

impl RecordPattern {
    /// The fields that are given, for messages.
    pub(crate) fn describe(&self) -> String {
        let fields = [
            ("tool", &self.tool),
            ("decision", &self.decision),
            ("stage", &self.stage),
            ("code", &self.code),
            ("class", &self.class),
            ("caller", &self.caller),
        ];
        let given = fields.iter().filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?)));
        format!("{{{}}}", given.collect::<Vec<_>>().join(", "))
    }
}
