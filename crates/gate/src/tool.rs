//! The interface between a tool and the gate.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_policy::{OutputPolicy, PathInputs, Requirements};
use toolgate_types::{
    CallId, Caller, Category, Deadline, Escalation, Failure, FlowDeclaration, FlowEffect, FlowLabels,
    FlowMounts, Limits, Sha256, ToolClass, ToolName, ToolOutput,
};
use toolgate_workspace::{PathGrant, Recorder};

use crate::approved_changes::ExpectedChange;
use crate::blocking::BlockingStrategy;
use crate::caller::SessionCaller;
use crate::elicitation::CallElicitor;
use crate::escalation::LackReporter;
use crate::gate::unrecorded;
use crate::judged_paths::{CallPath, JudgedPaths};
use crate::stages::ApprovedCall;
use crate::tool_schema::ToolSchema;
use crate::touched::TouchedNames;

/// What a tool declares about itself.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// The name that models use.
    pub name: ToolName,
    /// A short name for people.
    pub title: String,
    /// What it does, for the model.
    pub description: String,
    /// What effect it can have.
    pub class: ToolClass,
    /// Its category.
    pub category: Category,
    /// JSON Schema 2020-12 of its arguments; an object that refuses unknown properties.
    pub input_schema: ToolSchema,
    /// JSON Schema 2020-12 of its structured answer.
    pub output_schema: ToolSchema,
    /// What it requires of its caller. `None` for a built-in tool, for which the agent's scope alone decides.
    pub requirements: Option<Requirements>,
    /// Which parts of its output may leave. `None` for a built-in tool, whose whole output may. With a policy, the text for the model is made from
    /// the filtered output; the tool's own text is discarded.
    pub output_policy: Option<OutputPolicy>,
    /// Timeout of one call, in place of the gate's default; an agent's configuration may override it.
    pub timeout: Option<Duration>,
    /// Why the tool is suspended, for the operator: it no longer is what the operator agreed to. It is shown to no model.
    pub suspended: Option<String>,
}

impl ToolSpec {
    /// Whether the tool is part of the gate: neither declared in a manifest nor offered by an MCP server.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.requirements.is_none() && self.output_policy.is_none()
    }

    /// What a tool does to information unless more is known: a search of the web and a server that may leave the machine send something out, and what
    /// servers and the web return was written by others. Built-in tools read the mounts.
    #[must_use]
    pub fn default_flow(&self, leaves_the_machine: bool) -> FlowDeclaration {
        let by_class = match self.class {
            ToolClass::Read => FlowEffect::Read,
            ToolClass::Write => FlowEffect::Write,
            ToolClass::Destructive => FlowEffect::Destroy,
        };
        match self.category {
            Category::Web => FlowDeclaration::new(FlowEffect::Egress, FlowLabels::UNTRUSTED),
            Category::Mcp => {
                let effect = if leaves_the_machine { FlowEffect::Egress } else { by_class };
                FlowDeclaration::new(effect, FlowLabels::UNTRUSTED)
            }
            Category::Exec => FlowDeclaration::new(by_class, FlowLabels::NONE).reading(FlowMounts::All),
            Category::File | Category::Search => {
                FlowDeclaration::new(by_class, FlowLabels::NONE).reading(FlowMounts::Located)
            }
        }
    }

    /// Whether it is a built-in tool over files, whose whole output may leave.
    #[must_use]
    pub fn is_built_in_file_tool(&self) -> bool {
        self.is_built_in() && matches!(self.category, Category::File | Category::Search)
    }
}

/// How durable the write-ahead intent of a call must be before the call starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntentDurability {
    /// No intent.
    None,
    /// Written: survives a crash of this process.
    Written,
    /// Fsynced: survives a power failure.
    Fsynced,
}

impl IntentDurability {
    /// Fsynced for every tool with an effect, and for commands and tools that leave the machine whatever their class says: what was sent to others
    /// cannot be taken back. The gate cannot know what a local MCP server does with a call. Where the operator declares such a tool read-only, the
    /// intent is only written: a killed gate still leaves a trace, and the call does not wait for an fsync, which takes longer than most such calls.
    pub(crate) fn required_by(tool: &dyn Tool) -> Self {
        let spec = tool.spec();
        match spec.category {
            _ if spec.class.has_effect() => Self::Fsynced,
            Category::Exec | Category::Web => Self::Fsynced,
            Category::Mcp if tool.leaves_the_machine() => Self::Fsynced,
            Category::Mcp => Self::Written,
            Category::File | Category::Search => Self::None,
        }
    }
}

/// What calls of a tool do to existing state, as a guarantee that clients may rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Anything that its class allows.
    #[default]
    Any,
    /// Only adds; what exists is unchanged.
    Adds,
    /// May replace what exists, and is idempotent.
    Sets,
}

/// How clients reach a tool of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surface {
    /// As a tool.
    #[default]
    Tool,
    /// As a prompt of a server behind the gate.
    Prompt,
    /// By the URIs of resources of a server behind the gate.
    Resource,
    /// By completing arguments of prompts and URI templates.
    Completion,
    /// By subscribing to the URIs of resources.
    Subscription,
}

/// The pending result of a tool.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, Failure>> + Send>>;

/// A small raster image beside the name of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolIcon {
    /// A `data:` URI.
    pub src: Arc<str>,
    /// Its sizes, such as `48x48`.
    pub sizes: Vec<String>,
    /// The theme that it is for: `light` or `dark`.
    pub theme: Option<String>,
}

/// A tool that a model may call.
pub trait Tool: Send + Sync {
    /// What it declares.
    fn spec(&self) -> &ToolSpec;

    /// Digest of everything that determines what a call does but is not part of the specification, such as a command line. When it changes,
    /// session-wide approvals of this tool end. A tool with requirements and without a fingerprint counts as a different tool after every reload.
    fn fingerprint(&self) -> Option<Sha256> {
        None
    }

    /// The tool's version, if its operator declares one. The audit record names it.
    fn version(&self) -> Option<&str> {
        None
    }

    /// The changelog, newest version first.
    fn changelog(&self) -> &[String] {
        &[]
    }

    /// Whether a failing exit code means that the tool is broken, rather than that it was called wrongly. Such failures count towards opening its
    /// circuit.
    fn exit_codes_break(&self) -> bool {
        false
    }

    /// Whether calls of an MCP server's tool may leave this machine. `true` unless it is known that they do not.
    fn leaves_the_machine(&self) -> bool {
        true
    }

    /// Whether the tool itself waits for the fsync of its intent ([`CallContext::await_intent`]), right before its first effect, so that its
    /// preparation overlaps with the fsync. For other tools the gate waits before running them, except for file tools, whose recorder waits.
    fn awaits_intent(&self) -> bool {
        false
    }

    /// Whether its calls answer with the whole content of a file of the workspace.
    fn reads_content(&self) -> bool {
        false
    }

    /// How clients reach it. Only tools are offered to models.
    fn surface(&self) -> Surface {
        Surface::Tool
    }

    /// Its icons, for people.
    fn icons(&self) -> Vec<ToolIcon> {
        Vec::new()
    }

    /// The tool and the arguments of the call that a call of this tool stands for, if it stands for another. It is never run itself then.
    ///
    /// # Errors
    /// The arguments do not name a call.
    fn target(&self, arguments: &Value) -> Option<Result<(String, Value), Failure>> {
        let _ = arguments;
        None
    }

    /// Whether it answers from the tools that its caller may use ([`CallContext::visible`]).
    fn lists_tools(&self) -> bool {
        false
    }

    /// What its calls do to existing state. [`Effect::Any`], the worst case, unless it is known.
    fn effect(&self) -> Effect {
        Effect::Any
    }

    /// What it does, whether its output is trusted or secret, and which of its arguments are targets.
    fn information_flow(&self) -> FlowDeclaration {
        self.spec().default_flow(self.leaves_the_machine())
    }

    /// The timeout that a person may allow this call if it runs out of time; `None` if it has none longer than the one that it has.
    fn longer_timeout(&self, arguments: &Value, context: &CallContext) -> Option<Duration> {
        let _ = (arguments, context);
        None
    }

    /// Of what an earlier call of this kind lacked, that which a person may allow. May read the filesystem.
    fn escalation_for(&self, lacked: Escalation) -> Escalation {
        lacked
    }

    /// Which of its arguments are workspace paths.
    fn path_inputs(&self) -> PathInputs {
        PathInputs::default()
    }

    /// Resolves the paths of a call, in the order of [`Self::path_inputs`]. Does file I/O, so it may block. The arguments are not validated yet.
    ///
    /// # Errors
    /// A path does not resolve to a file that this call may reach. Every rule that depends on it denies.
    fn locate(&self, arguments: &Value, context: &CallContext) -> Result<Vec<CallPath>, Failure> {
        let _ = (arguments, context);
        Ok(Vec::new())
    }

    /// The shell line of a call, if the tool runs one in its working directory, the only path of [`Self::locate`]. Grants by leading words are for it.
    fn shell_line<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        let _ = arguments;
        None
    }

    /// Whether what a call starts goes on after it. Grants by leading words are not for such calls: they are given for lines that end.
    fn outlives_call(&self, arguments: &Value) -> bool {
        let _ = arguments;
        false
    }

    /// What a person is shown before approving this call. May do file I/O, so it may block.
    ///
    /// # Errors
    /// The call would be refused even if approved, so there is nothing to ask. A failure that depends on what files hold is [`Preview::would_fail`].
    fn preview(&self, arguments: &Value, context: &CallContext) -> Result<Preview, Failure> {
        let _ = context;
        Ok(Preview::of_arguments(arguments))
    }

    /// Runs the tool. An [`ApprovedCall`] can only come from the approval stage.
    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture;
}

/// What a person is shown before approving a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// What would happen, one line per file, made from the files that were found and not from the names in the call. Values of the call are escaped
    /// by [`toolgate_text::visible::value`].
    pub summary: Vec<String>,
    /// The full text.
    pub body: PreviewBody,
    /// The files that would change, if the tool can predict them. The call is then restricted to exactly these changes, because the approval is for
    /// what was shown.
    pub expected_changes: Option<Vec<ExpectedChange>>,
    /// Why the call would fail if it ran now. It is answered with this instead of being asked about, if the caller could learn the same by reading.
    pub would_fail: Option<Failure>,
}

/// The full text of what would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewBody {
    /// The summary is complete.
    Nothing,
    /// Text such as the arguments, a command or new content, unescaped: the approval card escapes it.
    Text(String),
    /// A unified diff of what would change.
    Diff(String),
}

impl Preview {
    /// The arguments as received, for calls without a better preview.
    #[must_use]
    pub fn of_arguments(arguments: &Value) -> Self {
        let body = PreviewBody::Text(serde_json::to_string_pretty(arguments).unwrap_or_default());
        Self { summary: Vec::new(), body, expected_changes: None, would_fail: None }
    }
}

/// Receives progress while a tool is running.
pub type Progress = Arc<dyn Fn(ProgressUpdate<'_>) + Send + Sync>;

/// A progress update of a running tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressUpdate<'a> {
    /// Text for people and models.
    pub text: &'a str,
    /// The same text with its colours as SGR, for a screen of a person; `None` if it has none. Only what [`toolgate_text::SgrWriter`] writes.
    pub coloured: Option<&'a str>,
    /// How much is done, if the tool counts it.
    pub fraction: Option<Fraction>,
}

/// How much of the work is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction {
    /// Units done.
    pub done: f64,
    /// Units in total, if known.
    pub total: Option<f64>,
}

impl<'a> From<&'a str> for ProgressUpdate<'a> {
    fn from(words: &'a str) -> Self {
        Self { text: words, coloured: None, fraction: None }
    }
}

/// The severity of a log message (RFC 5424).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogSeverity {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal, but significant.
    Notice,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// A critical condition.
    Critical,
    /// Action must be taken immediately.
    Alert,
    /// The system cannot be used.
    Emergency,
}

/// A log message of a server behind the gate, sanitised and bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// Its severity.
    pub level: LogSeverity,
    /// The server, and the logger that it names.
    pub logger: &'a str,
    /// What it says.
    pub text: &'a str,
}

/// Receives log messages of the server while its call is running.
#[derive(Clone)]
pub struct LogSink {
    /// Less severe messages are not wanted.
    pub level: LogSeverity,
    /// Receives the messages.
    pub sink: Arc<dyn Fn(LogMessage<'_>) + Send + Sync>,
}

/// What a frontend wants to list or read as an MCP resource, by URI. The call passes the same stages as any other. Its result is for a program, so it
/// may be longer than what a model gets in one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceRequest {
    /// For a tool that finds files: one page of files with their sizes, after this path.
    ListPage {
        /// Cursor, relative to the root of the mount.
        after: Option<String>,
    },
    /// For a tool that reads a file: the whole file, text or binary.
    ReadWhole {
        /// Larger files are refused, and so are those over [`Limits::max_resource_bytes`].
        max_bytes: u64,
    },
}

/// What a running tool may use.
#[derive(Clone)]
pub struct CallContext {
    /// The gate's id for the call.
    pub call: CallId,
    /// The caller.
    pub caller: Arc<Caller>,
    /// Whether it proved itself with a token.
    pub by_token: bool,
    /// Deadline and cancellation, to be checked in every loop.
    pub stop: Deadline,
    /// The call's limits.
    pub limits: Limits,
    /// What a person allowed this call beyond the configuration.
    pub escalation: Escalation,
    /// Remembers what a call lacked that goes on after its answer. `None` for tools whose calls a person allows nothing more.
    pub lacks: Option<LackReporter>,
    /// The files that the caller's grant is restricted to, if it is.
    pub grant: Option<Arc<dyn PathGrant>>,
    /// The paths that rules or a person judged; the call may open no others.
    pub judged: Option<Arc<JudgedPaths>>,
    /// `grant` and `judged` combined: what files are opened with.
    pub effective_grant: Option<Arc<dyn PathGrant>>,
    /// Records every change before it is made.
    pub recorder: Arc<dyn Recorder + Send + Sync>,
    /// Collects what the call touches, for its record.
    pub touched: TouchedNames,
    /// Receives progress. `None` if the output must be filtered first.
    pub progress: Option<Progress>,
    /// Receives log messages of a server behind the gate. `None` if no client wants them, or the output must be filtered first.
    pub log: Option<LogSink>,
    /// Asks the person of this call on behalf of a server behind the gate. `None` for other tools.
    pub elicitor: Option<CallElicitor>,
    /// Where blocking work runs.
    pub blocking: BlockingStrategy,
    /// Set if a frontend makes this call to list or read a resource.
    pub resource: Option<ResourceRequest>,
    /// Cancelled when the session of the call ends, if the frontend knows.
    pub session_ended: Option<CancellationToken>,
    /// The tools that the caller may use, for a tool that lists them; empty for others.
    pub visible: Arc<[Arc<dyn Tool>]>,
}

impl CallContext {
    /// What belongs to this caller in this session is bound to this.
    #[must_use]
    pub fn identity(&self) -> SessionCaller {
        SessionCaller::new(&self.caller, self.by_token)
    }

    /// Waits until the intent of this call is durable. A tool that runs commands calls it right before the effect.
    ///
    /// # Errors
    /// The intent cannot be recorded, so nothing may run.
    pub fn await_intent(&self) -> Result<(), Failure> {
        self.recorder.await_intent().map_err(|reason| unrecorded(&reason))
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CallContext")
            .field("call", &self.call)
            .field("caller", &self.caller)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use toolgate_types::ErrorCode;

    use super::*;

    struct Named(ToolSpec, bool);

    impl Tool for Named {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn leaves_the_machine(&self) -> bool {
            self.1
        }

        fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
            Box::pin(async { Err(Failure::new(ErrorCode::Internal, "never run")) })
        }
    }

    #[test]
    fn what_cannot_be_taken_back_is_announced_on_disk() {
        for (category, class, leaves, expected) in [
            (Category::File, ToolClass::Read, true, IntentDurability::None),
            (Category::File, ToolClass::Write, false, IntentDurability::Fsynced),
            (Category::Search, ToolClass::Read, true, IntentDurability::None),
            (Category::Exec, ToolClass::Read, false, IntentDurability::Fsynced),
            (Category::Web, ToolClass::Read, false, IntentDurability::Fsynced),
            (Category::Mcp, ToolClass::Read, false, IntentDurability::Written),
            (Category::Mcp, ToolClass::Read, true, IntentDurability::Fsynced),
            (Category::Mcp, ToolClass::Destructive, false, IntentDurability::Fsynced),
        ] {
            let spec = ToolSpec {
                name: "tool".parse().unwrap(),
                title: String::new(),
                description: String::new(),
                class,
                category,
                input_schema: serde_json::json!({}).into(),
                output_schema: serde_json::json!({}).into(),
                requirements: None,
                output_policy: None,
                timeout: None,
                suspended: None,
            };
            assert_eq!(
                IntentDurability::required_by(&Named(spec, leaves)),
                expected,
                "{category:?} {class:?} {leaves}"
            );
        }
    }
}
