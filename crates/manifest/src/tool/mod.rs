//! What one tool declares.
//!
//! A manifest says everything that the gate needs to offer a tool and to bound it: what it takes, what it needs to be
//! permitted, the one command it stands for, what that command may touch, and what of its answer may leave. Nothing in
//! it defaults to allowed. Conditions and field paths are kept as text for the crate that decides with them.

mod compile;
mod confinement;
mod example;
mod paths;
mod pattern;
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
use toolgate_types::{AgentName, Failure, ToolClass, ToolName, Trust};

pub(crate) use confinement::{
    directory, is_reserved, is_variable, looks_secret, mounts, network, not_a_host,
};
pub use paths::{Extensions, NamedPath, PathArgument, RealPaths};
pub(crate) use read::{calls, policy};
pub use rendering::WHOLE_WORKTREE;
pub(crate) use skeleton::quoted;
pub use skeleton::{SkeletonError, skeleton};
pub use template::{CommandTemplate, TextTemplate};

use crate::decode::{Word, nearest_or_all};
use crate::keyword_enum::words;
use crate::problem::{ConfigProblem, ConfigProblems, ConfigWarning, Located, SourceText, not_text};

/// One tool, as its manifest declares it.
#[derive(Clone, Debug)]
pub struct ToolManifest {
    /// `tool`: the name that models call it by.
    pub name: Located<ToolName>,
    /// `title`: a name for people.
    pub title: Option<String>,
    /// `version`: which edition of the tool this is, in the operator's own words; told in lists and in the record.
    pub version: Option<String>,
    /// `changelog`: what changed from version to version, newest first.
    pub changelog: Vec<String>,
    /// `description`: what models are told about it; never empty.
    pub description: Located<String>,
    /// `class`: what it can do to the world.
    pub class: Located<ToolClass>,
    /// `permissions`: all of these must be held; empty only when the manifest says `[]`.
    pub permissions: Vec<Located<String>>,
    /// `elevated`: what must be held as well when a condition holds.
    pub elevated: Option<ElevatedDeclaration>,
    /// `input`: a JSON Schema 2020-12 of an object, closed against unknown properties unless it says otherwise.
    pub input: Value,
    /// `command` and what bounds it.
    pub command: CommandDeclaration,
    /// `timeout`: time for one call; absent means the profile's.
    pub timeout: Option<Duration>,
    /// `output`: how the answer is read and what it must look like.
    pub output: OutputDeclaration,
    /// `policy`: what of the answer may leave, in the order of the file. What no rule names is dropped.
    pub policy: Vec<PolicyRule>,
    /// `rate`: how often one caller may call it.
    pub rate: Option<Rate>,
    /// `breaker: {exit_codes: true}`: an exit code that is no success counts as a failure of the tool, not of its input.
    pub exit_codes_break: bool,
    /// `examples`: calls that must be allowed or denied.
    pub examples: Vec<ManifestExample>,
    /// Where `permissions` stands.
    permissions_at: Located<()>,
    /// Whether `input` was declared; without it the tool takes no arguments.
    declares_input: bool,
    source: SourceText,
}

/// `elevated`: what must be held as well when a condition holds.
#[derive(Clone, Debug)]
pub struct ElevatedDeclaration {
    /// `when`: a Cedar expression over `input`, `caller` and `session`; not yet checked.
    pub when: Located<String>,
    /// `permissions`: never empty.
    pub permissions: Vec<Located<String>>,
}

/// `command`: the program, its arguments and its bounds.
#[derive(Clone, Debug)]
pub struct CommandDeclaration {
    /// `command`: the argument list, with placeholders.
    pub template: CommandTemplate,
    /// The program, with its place: a name that is looked up in the pinned `PATH`, or an absolute path.
    pub program: Located<String>,
    /// `cwd`: where it runs; absent means outside every mount.
    pub directory: Option<Located<MountPath>>,
    /// `mounts`: what it can see; absent means the mount of `cwd`, writable unless the class is `read`.
    pub mounts: Vec<CommandMount>,
    /// `environment`: variables on top of the cleaned environment.
    pub environment: Vec<(String, String)>,
    /// `network`: hosts that it may reach through the filtering proxy; empty means no network.
    pub network: Vec<Located<String>>,
    /// `limits`: bounds of its processes.
    pub limits: CommandLimits,
    /// `stdin`: what it reads; absent means nothing.
    pub stdin: Option<TextTemplate>,
    /// The arguments with `x-toolgate-path`, wherever they stand.
    pub paths: Vec<PathArgument>,
    /// `success_codes`: exit codes that are not failures; never empty, `[0]` unless said.
    pub success_codes: Vec<u8>,
    /// `stderr`: who is told what a failed command wrote there.
    pub stderr: StderrRule,
}

words! {
    /// Who is told what a failed command wrote to standard error.
    StderrRule, "a rule for standard error" {
        /// The operator alone.
        Hide = "hide",
        /// The model too: the end of it, sanitised.
        Show = "show",
    }
}

/// A folder of a mount, such as `@project/src`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPath {
    /// The alias, such as `@project`.
    pub alias: String,
    /// The way from the mount's root, without `.` and `..`; empty is the root itself.
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
    /// The same place as a command sees it: `/mnt/project/src`.
    #[must_use]
    pub fn inside(&self) -> String {
        let alias = self.alias.trim_start_matches('@');
        if self.path.is_empty() { format!("/mnt/{alias}") } else { format!("/mnt/{alias}/{}", self.path) }
    }
}

/// `mounts`, one entry: a mount that the command can see.
#[derive(Clone, Debug)]
pub struct CommandMount {
    /// The alias, such as `@project`.
    pub alias: Located<String>,
    /// Whether it may change what is there: `:rw`.
    pub writable: bool,
}

/// Bounds of a command's processes; what is absent is decided by the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandLimits {
    /// `memory`: bytes.
    pub memory: Option<u64>,
    /// `processes`: processes and threads at a time.
    pub processes: Option<u64>,
    /// `file_size`: bytes of any file it writes.
    pub file_size: Option<u64>,
    /// `open_files`: open files of one process.
    pub open_files: Option<u64>,
    /// `cpu_time`: processor time of one process.
    pub cpu_time: Option<Duration>,
    /// `output`: bytes that it may print before it is stopped.
    pub output: Option<u64>,
}

/// `output`: how the answer is read and what it must look like.
#[derive(Clone, Debug)]
pub struct OutputDeclaration {
    /// `parse`: `text` unless said.
    pub parse: OutputParse,
    /// `schema`: a JSON Schema 2020-12; objects with `properties` are closed unless it says otherwise.
    pub schema: Option<Value>,
    /// `max_bytes`: bytes of the answer that leaves.
    pub max_bytes: Option<u64>,
}

words! {
    /// How a command's output becomes a value.
    OutputParse, "a way to read output" {
        /// One text.
        Text = "text",
        /// One JSON value.
        Json = "json",
        /// A list with one JSON value for each line.
        JsonLines = "jsonl",
        /// A list with one text for each line.
        Lines = "lines",
    }
}

/// `policy`, one entry: what happens to fields that a path names.
#[derive(Clone, Debug)]
pub struct PolicyRule {
    /// The field path, with globs; not yet checked.
    pub path: Located<String>,
    /// What happens to what it matches.
    pub treatment: Treatment,
}

words! {
    /// What happens to a field of an answer.
    Treatment, "a rule for a field" {
        /// It leaves as it is.
        Allow = "allow",
        /// Its first and last character leave.
        Mask = "mask",
        /// It is replaced by a mark.
        Redact = "redact",
    }
}

/// So many calls in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// `calls`: how many.
    pub calls: NonZeroU32,
    /// `per`: in how much time.
    pub per: Duration,
    /// `burst`: how many at once; absent means all of them.
    pub burst: Option<NonZeroU32>,
}

/// `examples`, one entry: a call that must be allowed or denied.
#[derive(Clone, Debug)]
pub struct ManifestExample {
    /// `name`: what it shows.
    pub name: Option<String>,
    /// `input`: the arguments, with the place to point at.
    pub input: Located<Value>,
    /// `caller`: who calls; absent is a caller who holds exactly what the tool's `permissions` and class ask for.
    pub caller: Option<ExampleCaller>,
    /// `expect`: what must come of it.
    pub expect: Located<Expectation>,
    /// `argv`: the exact arguments, the program first, that it must lead to.
    pub argv: Option<Vec<String>>,
}

/// `caller` of an example.
#[derive(Clone, Debug, Default)]
pub struct ExampleCaller {
    /// `subject`.
    pub subject: Option<String>,
    /// `agent`.
    pub agent: Option<Located<AgentName>>,
    /// `permissions`: everything it holds.
    pub permissions: Vec<Located<String>>,
    /// `trust`.
    pub trust: Option<Trust>,
}

words! {
    /// What must come of an example's call.
    Expectation, "an expectation" {
        /// The caller may make it, and the arguments fit.
        Allowed = "allowed",
        /// The caller may not make it, or the arguments do not fit.
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
    /// Reads a file that declares one tool. `file` is what problems call it; nothing is opened.
    ///
    /// # Errors
    /// Every problem that was found, one of them when the file declares several tools.
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

    /// Reads a file that declares one tool or several, separated by `---`.
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

    /// Mounts that this tool names and that are not among the known aliases.
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

    /// What a manifest may leave unsaid and a gateway should not: who may call the tool, and what it takes.
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

    /// The schema that answers fit: the declared one, or what `parse` alone promises.
    #[must_use]
    pub fn output_schema(&self) -> Value {
        self.output.schema.clone().unwrap_or_else(|| schema::implied_schema(self.output.parse))
    }

    /// A problem with something that this file declared, found by someone who knows more than the file says.
    #[must_use]
    pub fn problem_at<T>(
        &self,
        at: &Located<T>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        self.source.problem(at.position(), at.width, message, help)
    }

    /// A problem at one byte of text that this file declared, such as a condition.
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

    /// A warning about something that this file declared.
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
