//! What a tool is to the gate.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_policy::{OutputPolicy, PathInputs, Requirements};
use toolgate_types::{
    CallId, Caller, Cancellation, Category, Failure, Limits, Sha256, ToolClass, ToolName, ToolOutput,
};
use toolgate_workspace::{PathGrant, Recorder};

use crate::approved_changes::ExpectedChange;
use crate::blocking::BlockingStrategy;
use crate::gate::unrecorded;
use crate::judged_paths::{CallPath, JudgedPaths};
use crate::stages::ApprovedCall;
use crate::tool_schema::ToolSchema;

/// What a tool declares about itself.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// The name that models use.
    pub name: ToolName,
    /// A short name for people.
    pub title: String,
    /// What it does, for the model.
    pub description: String,
    /// What it can do to the world.
    pub class: ToolClass,
    /// What it is about.
    pub category: Category,
    /// JSON Schema 2020-12 of its arguments; an object that refuses unknown properties.
    pub input_schema: ToolSchema,
    /// JSON Schema 2020-12 of its structured answer.
    pub output_schema: ToolSchema,
    /// What it demands of whoever calls it. `None` is a built-in tool, for which the agent's scope alone decides.
    pub requirements: Option<Requirements>,
    /// What of its answer may leave. `None` is a built-in tool, whose whole answer does. With a policy, the text that a model reads is made from what
    /// may leave; the tool's own text is not shown.
    pub output_policy: Option<OutputPolicy>,
    /// Time for one call, in place of the gate's; agents may still be given another.
    pub timeout: Option<Duration>,
    /// Why nobody may use it for now, in words for the operator: it is no longer what was agreed to. It is shown to no model.
    pub suspended: Option<String>,
}

impl ToolSpec {
    /// Whether it comes with the gate: no manifest declares it, and no server offers it.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.requirements.is_none() && self.output_policy.is_none()
    }

    /// Whether it is one of our own tools over files, of whose answers everything may leave.
    #[must_use]
    pub fn is_built_in_file_tool(&self) -> bool {
        self.is_built_in() && matches!(self.category, Category::File | Category::Search)
    }
}

/// How far the intent of a call must be before the call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntentDurability {
    /// There is none.
    None,
    /// It outlasts this process.
    Written,
    /// It outlasts a power failure.
    Fsynced,
}

impl IntentDurability {
    /// Whatever leaves something behind is announced on disk, and every command and whatever leaves the machine, whatever its class says: what was told to
    /// others cannot be taken back. What a server on this machine makes of a call nobody here can tell either; where the operator says that it only reads,
    /// a gate that is killed leaves a trace of it, and the disk, which takes longer than most such calls, is not waited for.
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

/// What calls of a tool leave of what was there, as far as everybody may rely on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Whatever its class allows.
    #[default]
    Any,
    /// What was there stays, and something is added to it.
    Adds,
    /// It may replace what was there; a call that is made twice leaves the same as one.
    Sets,
}

/// The answer of a tool, some time.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, Failure>> + Send>>;

/// Something a model may ask for.
pub trait Tool: Send + Sync {
    /// What it declares.
    fn spec(&self) -> &ToolSpec;

    /// The digest of everything that decides what a call does and that the specification does not say, such as a command line. When it changes, a yes
    /// for the rest of a session is no longer a yes to this tool. A tool with requirements that cannot tell is taken for another after every reload.
    fn fingerprint(&self) -> Option<Sha256> {
        None
    }

    /// Which edition of the tool this is, where its operator says so. The record names it.
    fn version(&self) -> Option<&str> {
        None
    }

    /// What changed from version to version, newest first.
    fn changelog(&self) -> &[String] {
        &[]
    }

    /// Whether an exit code that is no success says that the tool is broken, and not that it was asked for something wrong: such failures open its circuit.
    fn exit_codes_break(&self) -> bool {
        false
    }

    /// Whether calls of a server's tool may be told to somebody elsewhere. Where nothing is known, they are.
    fn leaves_the_machine(&self) -> bool {
        true
    }

    /// Whether it waits itself until the intent of its call is on the disk ([`CallContext::await_intent`]), right before its first effect, and prepares that
    /// while the disk is at work. The gate waits for it before it runs any other, but for tools over files: what records their changes does.
    fn awaits_intent(&self) -> bool {
        false
    }

    /// What its calls leave of what was there. Where nothing is known, the most is feared.
    fn effect(&self) -> Effect {
        Effect::Any
    }

    /// Which of its arguments are paths of the workspace.
    fn path_inputs(&self) -> PathInputs {
        PathInputs::default()
    }

    /// Where the paths of a call really lead, in the order of [`Self::path_inputs`]. Looks at files, and so may block. The arguments were not checked.
    ///
    /// # Errors
    /// One of them leads nowhere that this call may reach. Whatever rule asks about it denies.
    fn locate(&self, arguments: &Value, context: &CallContext) -> Result<Vec<CallPath>, Failure> {
        let _ = (arguments, context);
        Ok(Vec::new())
    }

    /// What a person is shown before agreeing to this call. May look at files, and so may block.
    ///
    /// # Errors
    /// The call would be refused whatever the person says, so that there is nothing to ask.
    fn preview(&self, arguments: &Value, context: &CallContext) -> Result<Preview, Failure> {
        let _ = context;
        Ok(Preview::of_arguments(arguments))
    }

    /// Does it. The call can only come from the approving stage.
    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture;
}

/// What a person is shown before agreeing to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// What would happen, one line per file, made from what was found and not from how it was named. Values of the call in it are escaped by
    /// [`toolgate_text::visible::value`].
    pub summary: Vec<String>,
    /// The whole of it.
    pub body: PreviewBody,
    /// The files that would change, where the tool can tell. The call is then held to them: an answer is to what was shown.
    pub expected_changes: Option<Vec<ExpectedChange>>,
}

/// The whole of what would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewBody {
    /// The summary says it all.
    Nothing,
    /// Words, such as the arguments, a whole command or a new content, as they are: a card escapes them.
    Text(String),
    /// A unified diff of what would change.
    Diff(String),
}

impl Preview {
    /// The arguments as they came, for calls about which nothing better can be said.
    #[must_use]
    pub fn of_arguments(arguments: &Value) -> Self {
        let body = PreviewBody::Text(serde_json::to_string_pretty(arguments).unwrap_or_default());
        Self { summary: Vec::new(), body, expected_changes: None }
    }
}

/// Receives output while a tool is still running.
pub type Progress = Arc<dyn Fn(ProgressUpdate<'_>) + Send + Sync>;

/// What a tool says while it is still running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressUpdate<'a> {
    /// In words.
    pub text: &'a str,
    /// How far it is, where it counts.
    pub fraction: Option<Fraction>,
}

/// How far a tool is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction {
    /// So much is done.
    pub done: f64,
    /// Of so much, where that is known.
    pub total: Option<f64>,
}

impl<'a> From<&'a str> for ProgressUpdate<'a> {
    fn from(words: &'a str) -> Self {
        Self { text: words, fraction: None }
    }
}

/// What a door wants to show by address. It is a call like any other, under the same rules; only its answer is for a program, and may be longer than what
/// a model is given at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceRequest {
    /// Of a tool that finds files: a page of them with their sizes, from after this path on.
    ListPage {
        /// Relative to the root of the mount.
        after: Option<String>,
    },
    /// Of a tool that reads a file: the whole of it, text or not.
    ReadWhole {
        /// Files that are longer are refused.
        most: u64,
        /// What may be read at once where nobody set another bound. One that somebody did set holds here, too.
        usual: u64,
    },
}

/// What a running tool may use.
#[derive(Clone)]
pub struct CallContext {
    /// The gate's id for the call.
    pub call: CallId,
    /// Who is calling.
    pub caller: Arc<Caller>,
    /// When to give up; asked by every loop.
    pub stop: Cancellation,
    /// The same for asynchronous tools: resolves when the call is cancelled.
    pub cancelled: CancellationToken,
    /// The call's bounds.
    pub limits: Limits,
    /// Which files, where the caller was granted only some.
    pub grant: Option<Arc<dyn PathGrant>>,
    /// The paths that the call was judged by or a person was shown; the call may be made with no others.
    pub judged: Option<Arc<JudgedPaths>>,
    /// What files are opened with: both of these.
    pub effective_grant: Option<Arc<dyn PathGrant>>,
    /// Told of every change before it is made.
    pub recorder: Arc<dyn Recorder + Send + Sync>,
    /// Told of output as it comes. Nobody is told of output that must be filtered first.
    pub progress: Option<Progress>,
    /// Where work that blocks is done.
    pub blocking: BlockingStrategy,
    /// What a door wants to show, where the call is one of those.
    pub resource: Option<ResourceRequest>,
}

impl CallContext {
    /// Waits until the record says that this call is about to have an effect. To be asked right before the effect by whatever runs commands.
    ///
    /// # Errors
    /// It cannot be recorded, so nothing may be run.
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
