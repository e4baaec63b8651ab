//! The profiles, one file or directory each.
//!
//! A profile fixes names, schemas, limits and wording; it never decides whether something is allowed. A new one is a name in
//! [`ProfileName`], the only list of them, and a file here that defines a constant of [`Profile`] from a [`ProfileDefinition`], with its `mod` line and
//! its arm in [`Profile::named`]. Everything else asks the constant: no code outside of this directory compares profiles.

mod native;
mod crew;
mod claw;
mod proxy;
mod sidecar;
mod studio;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolgate_command::CommandRunner;
use toolgate_gate::{GateError, Registry, Tool};
use toolgate_manifest::ProfileName;
use toolgate_types::{ErrorCode, Limits, OnFull, OnViolation, Outcome};
use toolgate_workspace::{PathStyle, Workspace};

use crate::background_tools::{CHECK_COMMAND, STOP_COMMAND, background_tools};
use crate::file_tool::ToolDeclaration;
use crate::profiled_gate::ModelAnswer;
use crate::resource_files::ResourceKind;
use crate::shell::{BackgroundAccess, Shell, ShellPresentation};
use crate::web_search::WebSearch;

pub use crew::RunError;

/// One presentation of the gate: the names, schemas, limits and wording of one way to use it.
#[derive(Clone, Copy)]
pub struct Profile(&'static ProfileDefinition);

impl Profile {
    /// The profile of this name.
    #[must_use]
    pub const fn named(name: ProfileName) -> Self {
        match name {
            ProfileName::Native => Self::NATIVE,
            ProfileName::Crew => Self::CREW,
            ProfileName::Claw => Self::CLAW,
            ProfileName::Proxy => Self::PROXY,
            ProfileName::Sidecar => Self::SIDECAR,
            ProfileName::Studio => Self::STUDIO,
        }
    }

    /// All profiles, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        ProfileName::ALL.iter().copied().map(Self::named)
    }
}

/// What a profile decides.
struct ProfileDefinition {
    name: ProfileName,
    /// Its tools over files.
    tools: fn() -> &'static [ToolDeclaration],
    /// Words an outcome of the tool of this name.
    render: fn(&str, Outcome) -> ModelAnswer,
    /// Its name for an error code. A profile with names of its own matches on every code, without a catch-all arm.
    error_code: fn(ErrorCode) -> &'static str,
    answer: AnswerShape,
    /// Whether the text of an answer is JSON.
    text_is_json: bool,
    /// The members of the structured answer that a built-in tool reports beside its text.
    facts: fn(Value) -> Map<String, Value>,
    /// Whether a refusal names the mount, the path and the reason in its details.
    details_refused_paths: bool,
    path_style: PathStyle,
    limits: Limits,
    shell: Option<&'static ShellPresentation>,
    searches_web: bool,
    /// Whether information flow is tracked where a tool sends something out, unless the operator says otherwise.
    tracks_flow: bool,
    max_tools: Option<usize>,
    /// The manifests that apply if the configuration names none: file names and contents.
    shipped: &'static [(&'static str, &'static str)],
    /// Whether a manifest must declare its permissions and its input.
    strict_manifests: bool,
    run: Option<InitialiseRun>,
    conversation: ConversationDefaults,
    approval_timeout: Duration,
}

/// Prepares the directory of a new run; returns whether there was something to do.
type InitialiseRun = fn(&Workspace, &Limits) -> Result<bool, RunError>;

/// What the structured part of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerShape {
    /// What the tool declares.
    Declared,
    /// An envelope with what the tool declares in this property.
    Envelope(&'static str),
    /// Nothing: the answer is text.
    Text,
}

/// The defaults of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationDefaults {
    /// The maximum number of steps with calls in a turn.
    pub max_tool_iterations: u32,
    /// What happens when the context is full.
    pub on_full: OnFull,
    /// What happens after a call that tried to leave its bounds.
    pub on_violation: OnViolation,
}

/// The default limits of most profiles.
const LIMITS: Limits = Limits {
    max_read_bytes: 256 * 1024,
    max_resource_bytes: u64::MAX,
    max_write_bytes: 1024 * 1024,
    max_entries: 1000,
    max_matches: 100,
    max_output_bytes: 100_000,
    timeout: Duration::from_secs(60),
};

impl ProfileDefinition {
    /// A profile with the gate's own codes and limits, without a shell, a web search or runs.
    const fn new(
        name: ProfileName,
        tools: fn() -> &'static [ToolDeclaration],
        render: fn(&str, Outcome) -> ModelAnswer,
        answer: AnswerShape,
    ) -> Self {
        Self {
            name,
            tools,
            render,
            error_code: ErrorCode::as_str,
            answer,
            text_is_json: true,
            facts: |_| Map::new(),
            details_refused_paths: false,
            path_style: PathStyle::Free,
            limits: LIMITS,
            shell: None,
            searches_web: false,
            tracks_flow: false,
            max_tools: None,
            shipped: &[],
            strict_manifests: false,
            run: None,
            conversation: ConversationDefaults {
                max_tool_iterations: 20,
                on_full: OnFull::Compact,
                on_violation: OnViolation::Answer,
            },
            approval_timeout: Duration::from_secs(600),
        }
    }
}

/// What a registry of tools is built from.
#[derive(Clone)]
pub struct ToolComponents {
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// Runs commands; without it there is no `run_command` and no `bash`.
    pub commands: Option<Arc<CommandRunner>>,
    /// Keeps background commands; without it there are none.
    pub background: Option<BackgroundAccess>,
    /// Searches the web; without it there is no `web_search`.
    pub web_search: Option<Arc<WebSearch>>,
    /// The tools that manifests declare.
    pub declared: Vec<Arc<dyn Tool>>,
}

impl ToolComponents {
    /// File tools only.
    #[must_use]
    pub fn files(workspace: &Arc<Workspace>) -> Self {
        Self {
            workspace: Arc::clone(workspace),
            commands: None,
            background: None,
            web_search: None,
            declared: Vec::new(),
        }
    }
}

/// The names of a profile's tools that read and find files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTools {
    /// Reads one file.
    pub read: &'static str,
    /// Finds files by name, if there is such a tool.
    pub find: Option<&'static str>,
}

impl Profile {
    /// The name in configuration and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name.as_str()
    }

    /// How paths are written.
    #[must_use]
    pub fn path_style(self) -> PathStyle {
        self.0.path_style
    }

    /// The default limits of a call.
    #[must_use]
    pub fn limits(self) -> Limits {
        self.0.limits
    }

    /// The defaults of a conversation.
    #[must_use]
    pub fn conversation(self) -> ConversationDefaults {
        self.0.conversation
    }

    /// How long a question about a call waits, unless the operator says otherwise.
    #[must_use]
    pub fn approval_timeout(self) -> Duration {
        self.0.approval_timeout
    }

    /// Whether it works on runs, each with its own `@state`.
    #[must_use]
    pub fn has_runs(self) -> bool {
        self.0.run.is_some()
    }

    /// Prepares the `@state` of a new run; returns whether there was something to do.
    ///
    /// # Errors
    /// The run cannot start.
    pub fn initialise_run(self, workspace: &Workspace, limits: &Limits) -> Result<bool, RunError> {
        self.0.run.map_or(Ok(false), |initialise| initialise(workspace, limits))
    }

    /// Whether it has `web_search`, if the operator configures an engine.
    #[must_use]
    pub fn searches_web(self) -> bool {
        self.0.searches_web
    }

    /// Whether information flow is tracked where a tool sends something out, unless the operator says otherwise.
    #[must_use]
    pub fn tracks_flow(self) -> bool {
        self.0.tracks_flow
    }

    /// The maximum number of tools for a model of this profile; `None` without a limit.
    #[must_use]
    pub fn most_tools(self) -> Option<usize> {
        self.0.max_tools
    }

    /// Whether its own tools already reach that maximum.
    #[must_use]
    pub fn is_full(self) -> bool {
        self.most_tools().is_some_and(|most| self.tool_names().len() >= most)
    }

    /// The names of its own tools, in order; `web_search` and declared tools come in addition.
    #[must_use]
    pub fn tool_names(self) -> Vec<&'static str> {
        let files = (self.0.tools)().iter().map(|declaration| declaration.name);
        let background = self.0.shell.filter(|shell| shell.has_background);
        let background = background.map(|_| [CHECK_COMMAND, STOP_COMMAND]).into_iter().flatten();
        files.chain(self.0.shell.map(|shell| shell.name)).chain(background).collect()
    }

    /// The manifests that apply if the configuration names none: file names and contents.
    #[must_use]
    pub fn shipped(self) -> &'static [(&'static str, &'static str)] {
        self.0.shipped
    }

    /// Whether a manifest must declare its permissions and its input, where an omission is a warning otherwise.
    #[must_use]
    pub fn has_strict_manifests(self) -> bool {
        self.0.strict_manifests
    }

    /// Its tools, and the declared ones.
    ///
    /// # Errors
    /// Two tools have one name.
    pub fn registry(self, parts: &ToolComponents) -> Result<Registry, GateError> {
        let mut registry = Registry::new();
        let files = (self.0.tools)().iter();
        let files = files.filter_map(|declaration| declaration.bind_to(&parts.workspace, self.path_style()));
        let shell = parts.commands.as_ref().zip(self.0.shell);
        let background =
            parts.background.as_ref().filter(|_| shell.is_some_and(|(_, shell)| shell.has_background));
        let shell = shell.and_then(|(runner, shell)| Shell::bind_to(runner, shell, background.cloned()));
        let background = background.map(|background| background_tools(&background.commands));
        let web_search = parts.web_search.iter().filter(|_| self.searches_web());
        let web_search = web_search.map(|tool| Arc::clone(tool) as Arc<dyn Tool>);
        for tool in files
            .chain(shell)
            .chain(background.into_iter().flatten())
            .chain(web_search)
            .chain(parts.declared.iter().cloned())
        {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// The tools that read and find files on behalf of a client that reads resources instead of calling tools: both take a `path` and support
    /// resource requests.
    pub(crate) fn file_tools(self) -> Option<FileTools> {
        let (mut read, mut find) = (None, None);
        for declaration in (self.0.tools)() {
            match declaration.resource {
                Some(ResourceKind::File(_)) => read = Some(declaration.name),
                Some(ResourceKind::Files) => find = Some(declaration.name),
                None => {}
            }
        }
        read.map(|read| FileTools { read, find })
    }

    /// Whether the structured part of its answers has the shape that the tools declare, rather than an envelope of the profile's own.
    #[must_use]
    pub fn has_native_structure(self) -> bool {
        self.0.answer == AnswerShape::Declared
    }

    /// The property of its answers that holds what the tool declares, if its answers are envelopes.
    pub(crate) fn envelope_property(self) -> Option<&'static str> {
        match self.0.answer {
            AnswerShape::Envelope(property) => Some(property),
            AnswerShape::Declared | AnswerShape::Text => None,
        }
    }

    /// Whether the text of its answers is JSON, rather than text to read.
    #[must_use]
    pub fn answers_json(self) -> bool {
        self.0.text_is_json
    }

    /// The members of a structured answer that a built-in tool reports beside its text.
    pub(crate) fn facts(self, answer: Value) -> Map<String, Value> {
        (self.0.facts)(answer)
    }

    /// Whether a refusal names the mount, the path and the reason in its details.
    pub(crate) fn details_refused_paths(self) -> bool {
        self.0.details_refused_paths
    }

    /// Its name for an error code.
    pub(crate) fn error_code(self, code: ErrorCode) -> &'static str {
        (self.0.error_code)(code)
    }

    /// Words an outcome for the model.
    #[must_use]
    pub fn render(self, tool: &str, outcome: Outcome) -> ModelAnswer {
        (self.0.render)(tool, outcome)
    }
}

/// The members of an answer that are neither objects nor arrays, by the names that they have in events.
fn scalar_members(answer: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = answer else { return Map::new() };
    fields.retain(|_, value| !value.is_object() && !value.is_array());
    camel_case(fields)
}

/// Names in camelCase, as in all JSON of the gate's own.
fn camel_case(fields: Map<String, Value>) -> Map<String, Value> {
    let rename = |name: String| {
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| {
            let mut letters = word.chars();
            let upper = letters.next().map(|letter| letter.to_ascii_uppercase());
            name.chars().chain(upper).chain(letters).collect()
        })
    };
    fields.into_iter().map(|(name, value)| (rename(name), value)).collect()
}

impl Default for Profile {
    fn default() -> Self {
        Self::NATIVE
    }
}

/// Profiles are equal if their names are: a test excludes that two have one.
impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Profile {}

impl fmt::Debug for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Profile").field(&self.name()).finish()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self::named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name() {
        for name in ProfileName::ALL {
            assert_eq!(Profile::named(*name).0.name, *name);
            assert_eq!(name.as_str().parse(), Ok(Profile::named(*name)));
        }
        assert_eq!(Profile::all().count(), ProfileName::ALL.len());
    }
}
