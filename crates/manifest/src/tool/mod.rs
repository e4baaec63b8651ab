//! The manifest of one tool.
//!
//! A manifest declares everything that the gate needs to offer and confine a tool: its arguments, the required
//! permissions, the one command behind it, what that command may access, and what of its output may be returned. Nothing
//! in it defaults to allowed. Conditions and field paths are kept as text for the crate that evaluates them.

mod compile;
mod confinement;
mod example;
mod paths;
mod property;
mod read;
mod rendering;
mod schema;
mod skeleton;
mod template;
mod warnings;

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::Value;
use toolgate_types::{AgentName, Failure, FlowSettings, ToolClass, ToolName, Trust};

pub(crate) use confinement::{directory, mounts, network, not_a_host};
pub use confinement::{is_reserved, is_variable};
pub use paths::{Extensions, NamedPath, PathArgument, RealPaths};
pub(crate) use read::{calls, policy};
pub use rendering::WHOLE_WORKTREE;
pub use skeleton::{SkeletonError, quoted, skeleton};
pub use template::{CommandTemplate, TextTemplate};

use crate::decode::{Word, nearest_or_all};
use crate::keyword_enum::words;
use crate::problem::{ConfigProblem, ConfigProblems, ConfigWarning, Located, SourceText, not_text};

/// The manifest of one tool.
#[derive(Clone, Debug)]
pub struct ToolManifest {
    /// `tool`: the name that models use.
    pub name: Located<ToolName>,
    /// `title`: a display name.
    pub title: Option<String>,
    /// `version`: the tool's version, as free text; shown in lists and in the audit log.
    pub version: Option<String>,
    /// `changelog`: changes by version, newest first.
    pub changelog: Vec<String>,
    /// `description`: for models; never empty.
    pub description: Located<String>,
    /// `class`: read, write or destructive.
    pub class: Located<ToolClass>,
    /// `permissions`: all of them are required; empty only if the manifest says `[]`.
    pub permissions: Vec<Located<String>>,
    /// `elevated`: further permissions that are required if a condition holds.
    pub elevated: Option<ElevatedDeclaration>,
    /// `input`: a JSON Schema 2020-12 of an object, closed to unknown properties unless it says otherwise.
    pub input: Value,
    /// `command` and its confinement.
    pub command: CommandDeclaration,
    /// `timeout`: timeout of one call; absent means the profile's.
    pub timeout: Option<Duration>,
    /// `output`: how the output is parsed, and its schema.
    pub output: OutputDeclaration,
    /// `policy`: what of the output may be returned, in file order. What no rule matches is dropped.
    pub policy: Vec<PolicyRule>,
    /// `rate`: rate limit per caller.
    pub rate: Option<Rate>,
    /// `effect`, `output_trust`, `secret`, `directory` and `arguments`: information flow.
    pub flow: FlowSettings,
    /// `breaker: {exit_codes: true}`: an exit code other than success counts as a failure of the tool, not of its input.
    pub exit_codes_break: bool,
    /// `examples`: calls that must be allowed or denied.
    pub examples: Vec<ManifestExample>,
    /// The position of `permissions`.
    permissions_at: Located<()>,
    /// Whether `input` was declared; without it the tool has no arguments.
    declares_input: bool,
    source: SourceText,
}

/// `elevated`: further permissions that are required if a condition holds.
#[derive(Clone, Debug)]
pub struct ElevatedDeclaration {
    /// `when`: a Cedar expression over `input`, `caller` and `session`; not yet checked.
    pub when: Located<String>,
    /// `permissions`: never empty.
    pub permissions: Vec<Located<String>>,
}

/// `command`: the program, its arguments and its confinement.
#[derive(Clone, Debug)]
pub struct CommandDeclaration {
    /// `command`: the argument list, with placeholders.
    pub template: CommandTemplate,
    /// The program, with its position: a name that is looked up in the pinned `PATH`, or an absolute path.
    pub program: Located<String>,
    /// `cwd`: the working directory; absent means outside every mount.
    pub directory: Option<Located<MountPath>>,
    /// `mounts`: the visible mounts; absent means the mount of `cwd`, writable unless the class is `read`.
    pub mounts: Vec<CommandMount>,
    /// `environment`: variables in addition to the sanitised environment.
    pub environment: Vec<(String, String)>,
    /// `network`: hosts that it may connect to through the filtering proxy; empty means no network.
    pub network: Vec<Located<String>>,
    /// `limits`: resource limits of its processes.
    pub limits: CommandLimits,
    /// `stdin`: its standard input; absent means empty.
    pub stdin: Option<TextTemplate>,
    /// The arguments with `x-toolgate-path`, at any depth.
    pub paths: Vec<PathArgument>,
    /// `success_codes`: exit codes that are not failures; never empty, `[0]` by default.
    pub success_codes: Vec<u8>,
    /// `stderr`: who sees the standard error of a failed command.
    pub stderr: StderrRule,
}

words! {
    /// Who sees the standard error of a failed command.
    StderrRule, "a rule for standard error" {
        /// Only the operator.
        Hide = "hide",
        /// The model too: its last part, sanitised.
        Show = "show",
    }
}

/// A directory of a mount, such as `@project/src`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPath {
    /// The alias, such as `@project`.
    pub alias: String,
    /// The path from the mount's root, without `.` and `..`; empty is the root itself.
    pub path: String,
}

impl std::fmt::Display for MountPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.alias)?;
        if self.path.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.path) }
    }
}

impl CommandDeclaration {
    /// The files and directories that a call names.
    ///
    /// # Errors
    /// `invalid_arguments` when one of them is not a path.
    pub fn named_paths(&self, input: &Value) -> Result<Vec<NamedPath>, Failure> {
        let mut named = Vec::new();
        for argument in &self.paths {
            named.extend(argument.named(input)?);
        }
        Ok(named)
    }
}

impl MountPath {
    /// The path inside the sandbox: `/mnt/project/src`.
    #[must_use]
    pub fn inside(&self) -> String {
        let alias = self.alias.trim_start_matches('@');
        if self.path.is_empty() { format!("/mnt/{alias}") } else { format!("/mnt/{alias}/{}", self.path) }
    }
}

/// `mounts`, one entry: a visible mount.
#[derive(Clone, Debug)]
pub struct CommandMount {
    /// The alias, such as `@project`.
    pub alias: Located<String>,
    /// Whether it is writable: `:rw`.
    pub writable: bool,
}

/// Resource limits of a command's processes; absent values come from the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandLimits {
    /// `memory`: bytes.
    pub memory: Option<u64>,
    /// `processes`: concurrent processes and threads.
    pub processes: Option<u64>,
    /// `file_size`: bytes of any file it writes.
    pub file_size: Option<u64>,
    /// `open_files`: open files of one process.
    pub open_files: Option<u64>,
    /// `cpu_time`: CPU time of one process.
    pub cpu_time: Option<Duration>,
    /// `output`: bytes that it may print before it is killed.
    pub output: Option<u64>,
}

/// `output`: how the output is parsed, and its schema.
#[derive(Clone, Debug)]
pub struct OutputDeclaration {
    /// `parse`: `text` by default.
    pub parse: OutputParse,
    /// `schema`: a JSON Schema 2020-12; objects with `properties` are closed unless it says otherwise.
    pub schema: Option<Value>,
    /// `max_bytes`: bytes of the returned output.
    pub max_bytes: Option<u64>,
}

words! {
    /// How a command's output becomes a value.
    OutputParse, "a way to read output" {
        /// One string.
        Text = "text",
        /// One JSON value.
        Json = "json",
        /// A list with one JSON value per line.
        JsonLines = "jsonl",
        /// A list with one string per line.
        Lines = "lines",
    }
}

/// `policy`, one entry: the treatment of the fields that a path matches.
#[derive(Clone, Debug)]
pub struct PolicyRule {
    /// The field path, with globs; not yet checked.
    pub path: Located<String>,
    /// The treatment of the matches.
    pub treatment: Treatment,
}

words! {
    /// The treatment of an output field.
    Treatment, "a rule for a field" {
        /// Returned unchanged.
        Allow = "allow",
        /// Only its first and last character are returned.
        Mask = "mask",
        /// Replaced by a placeholder.
        Redact = "redact",
    }
}

/// A number of calls per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `calls`: the number.
    pub calls: NonZeroU32,
    /// `per`: the period.
    pub per: Duration,
    /// `burst`: maximum calls in immediate succession; absent means `calls`.
    pub burst: Option<NonZeroU32>,
}

/// `examples`, one entry: a call that must be allowed or denied.
#[derive(Clone, Debug)]
pub struct ManifestExample {
    /// `name`: what it shows.
    pub name: Option<String>,
    /// `input`: the arguments, with their position.
    pub input: Located<Value>,
    /// `caller`: absent is a caller with exactly the permissions that the tool's `permissions` and class require.
    pub caller: Option<ExampleCaller>,
    /// `expect`: the expected decision.
    pub expect: Located<Expectation>,
    /// `argv`: the expected arguments, the program first.
    pub argv: Option<Vec<String>>,
}

/// `caller` of an example.
#[derive(Clone, Debug, Default)]
pub struct ExampleCaller {
    /// `subject`.
    pub subject: Option<String>,
    /// `agent`.
    pub agent: Option<Located<AgentName>>,
    /// `permissions`: all that it has.
    pub permissions: Vec<Located<String>>,
    /// `trust`.
    pub trust: Option<Trust>,
}

words! {
    /// The expected decision for an example's call.
    Expectation, "an expectation" {
        /// The caller may make it, and the arguments are valid.
        Allowed = "allowed",
        /// The caller may not make it, or the arguments are invalid.
        Denied = "denied",
        /// The condition of `elevated` holds, so that a caller without those permissions is denied.
        Elevated = "elevated",
    }
}

impl Word for ToolClass {
    const WHAT: &'static str = "a class";
    const WORDS: &'static [(&'static str, Self)] =
        &[("read", Self::Read), ("write", Self::Write), ("destructive", Self::Destructive)];
}

impl ToolManifest {
    /// Parses a file that declares one tool. `file` is the name for problems; nothing is opened.
    ///
    /// # Errors
    /// Every problem that was found, one of them if the file declares several tools.
    pub fn parse_bytes(file: &str, bytes: &[u8]) -> Result<(Self, Vec<ConfigWarning>), ConfigProblems> {
        let (tools, warnings) = Self::parse_all_bytes(file, bytes)?;
        let mut tools = tools.into_iter();
        match (tools.next(), tools.next()) {
            (Some(_), Some(extra)) => {
                let help = Some("keep one tool in this file".to_owned());
                Err(ConfigProblems(vec![extra.problem_at(&extra.name, "this is a second tool", help)]))
            }
            (Some(tool), None) => Ok((tool, warnings)),
            (None, _) => Err(read::no_tool(&SourceText::new(file, ""))),
        }
    }

    /// Parses a file that declares one tool or several, separated by `---`.
    ///
    /// # Errors
    /// Every problem that was found.
    pub fn parse_all_bytes(
        file: &str,
        bytes: &[u8],
    ) -> Result<(Vec<Self>, Vec<ConfigWarning>), ConfigProblems> {
        match std::str::from_utf8(bytes) {
            Ok(text) => read::tools(&SourceText::new(file, text), text),
            Err(error) => Err(not_text(file, bytes, error.valid_up_to())),
        }
    }

    /// Mounts of this tool that are not among the known aliases.
    #[must_use]
    pub fn check_mounts(&self, known: &[&str]) -> Vec<ConfigProblem> {
        let unknown = self.command.mounts.iter().filter(|mount| !known.contains(&mount.alias.value.as_str()));
        unknown
            .map(|mount| {
                let help = nearest_or_all(&mount.alias.value, known.iter().copied());
                self.problem_at(&mount.alias, format!("`{}` is not mounted", mount.alias.value), Some(help))
            })
            .collect()
    }

    /// What a manifest may omit but a gateway should not: the required permissions, and the arguments.
    #[must_use]
    pub fn unsaid(&self) -> Vec<ConfigProblem> {
        let permissions = self.permissions.is_empty().then(|| {
            let help = "name what a caller must hold, such as `permissions: [git:read]`".to_owned();
            let message = "`permissions: []` lets every caller use this tool";
            self.problem_at(&self.permissions_at, message, Some(help))
        });
        let input = (!self.declares_input).then(|| {
            let help =
                "declare its arguments, or write `input: {properties: {}}` if it takes none".to_owned();
            self.problem_at(&self.name, "a tool without `input` has no schema for its arguments", Some(help))
        });
        permissions.into_iter().chain(input).collect()
    }

    /// The schema of the output: the declared one, or what `parse` alone implies.
    #[must_use]
    pub fn output_schema(&self) -> Value {
        self.output.schema.clone().unwrap_or_else(|| schema::implied_schema(self.output.parse))
    }

    /// A problem with a value of this file that was found by a later check.
    #[must_use]
    pub fn problem_at<T>(
        &self,
        at: &Located<T>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        self.source.problem(at.position(), at.width, message, help)
    }

    /// A problem at a byte offset of a text in this file, such as a condition.
    #[must_use]
    pub fn problem_within(
        &self,
        at: &Located<String>,
        offset: usize,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        self.source.problem_within(at, offset, message, help)
    }

    /// A warning about a value of this file.
    #[must_use]
    pub fn warning_at<T>(
        &self,
        at: &Located<T>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigWarning {
        ConfigWarning(self.problem_at(at, message, help))
    }
}
