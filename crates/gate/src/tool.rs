//! What a tool is to the gate.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_policy::{OutputPolicy, Requirements};
use toolgate_types::{
    CallId, Caller, Category, ErrorCode, Failure, Limits, Sha256, Stop, StopReason, ToolClass, ToolName,
    ToolOutput,
};
use toolgate_workspace::{PathGrant, Recorder};

use crate::bound::ForeseenChange;
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
    /// Whether it is one of our own tools over files, of whose answers everything may leave.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let is_built_in = self.requirements.is_none() && self.output_policy.is_none();
        is_built_in && matches!(self.category, Category::File | Category::Search)
    }
}

/// How far the intent of a call must be before the call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// There is none.
    Not,
    /// It outlasts this process.
    Written,
    /// It outlasts a power failure.
    OnDisk,
}

impl Announced {
    /// Whatever leaves something behind is announced on disk, and every command and whatever leaves the machine, whatever its class says: what was told to
    /// others cannot be taken back. What a server on this machine makes of a call nobody here can tell either; where the operator says that it only reads,
    /// a gate that is killed leaves a trace of it, and the disk, which takes longer than most such calls, is not waited for.
    pub(crate) fn of(tool: &dyn Tool) -> Self {
        let spec = tool.spec();
        match spec.category {
            _ if spec.class.has_effect() => Self::OnDisk,
            Category::Exec | Category::Web => Self::OnDisk,
            Category::Mcp if tool.leaves_the_machine() => Self::OnDisk,
            Category::Mcp => Self::Written,
            Category::File | Category::Search => Self::Not,
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

    /// Whether calls of a server's tool may be told to somebody elsewhere. Where nothing is known, they are.
    fn leaves_the_machine(&self) -> bool {
        true
    }

    /// What its calls leave of what was there. Where nothing is known, the most is feared.
    fn effect(&self) -> Effect {
        Effect::Any
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
    /// What would happen, one line per file, made from what was found and not from how it was named.
    pub summary: Vec<String>,
    /// The whole of it.
    pub body: PreviewBody,
    /// The files that would change, where the tool can tell. The call is then held to them: an answer is to what was shown.
    pub changes: Option<Vec<ForeseenChange>>,
}

/// The whole of what would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewBody {
    /// The summary says it all.
    Nothing,
    /// Words, such as the arguments, a whole command or a new content.
    Text(String),
    /// A unified diff of what would change.
    Diff(String),
}

impl Preview {
    /// The arguments as they came, for calls about which nothing better can be said.
    #[must_use]
    pub fn of_arguments(arguments: &Value) -> Self {
        let body = PreviewBody::Text(serde_json::to_string_pretty(arguments).unwrap_or_default());
        Self { summary: Vec::new(), body, changes: None }
    }
}

/// Receives output while a tool is still running.
pub type Progress = Arc<dyn Fn(Said<'_>) + Send + Sync>;

/// What a tool says while it is still running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said<'a> {
    /// In words.
    pub words: &'a str,
    /// How far it is, where it counts.
    pub share: Option<Share>,
}

/// How far a tool is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// So much is done.
    pub done: f64,
    /// Of so much, where that is known.
    pub total: Option<f64>,
}

impl<'a> From<&'a str> for Said<'a> {
    fn from(words: &'a str) -> Self {
        Self { words, share: None }
    }
}

/// What a door wants to show by address. It is a call like any other, under the same rules; only its answer is for a program, and may be longer than what
/// a model is given at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Browse {
    /// Of a tool that finds files: a page of them with their sizes, from after this path on.
    Page {
        /// Relative to the root of the mount.
        after: Option<String>,
    },
    /// Of a tool that reads a file: the whole of it, text or not.
    Whole {
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
    pub stop: Stop,
    /// The same for asynchronous tools: resolves when the call is cancelled.
    pub cancelled: CancellationToken,
    /// The call's bounds.
    pub limits: Limits,
    /// Which files, where the caller was granted only some.
    pub grant: Option<Arc<dyn PathGrant>>,
    /// Told of every change before it is made.
    pub recorder: Arc<dyn Recorder + Send + Sync>,
    /// Told of output as it comes. Nobody is told of output that must be filtered first.
    pub progress: Option<Progress>,
    /// Where work that blocks is done.
    pub blocking: Blocking,
    /// What a door wants to show, where the call is one of those.
    pub browse: Option<Browse>,
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

/// Where work that blocks is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// Where it is asked for: one call at a time, as at the command line.
    Here,
    /// On the runtime's threads for blocking work.
    Pool,
    /// Where it is asked for, if it is soon done and changes nothing; otherwise on the runtime's threads. Handing work to another thread and waiting
    /// for it costs more than reading a small file.
    Briefly,
    /// The same while others wait already: then whatever is not very small goes to the runtime's threads, so that all processors have something to do.
    AmongOthers,
}

/// How long others wait for work that is done where it is asked for.
const BRIEF: Duration = Duration::from_millis(2);

/// Work that says beforehand that it is about more than this is not begun where others might wait.
const BRIEF_BYTES: u64 = 256 * 1024;

/// The same as long as that goes well: on most machines so much is done in half the time that others wait.
const MOST_BRIEF_BYTES: u64 = 5 * BRIEF_BYTES;

/// After work that took too long, so many times what is not brief for certain is not tried: the disk is slow, or the machine is.
const SPARED: u32 = 16;

/// How it goes with what is not brief for certain.
static LENIENCE: Lenience = Lenience { spared: AtomicU32::new(0) };

/// The same where others do wait.
const BRIEF_BYTES_AMONG_OTHERS: u64 = 16 * 1024;

impl Blocking {
    /// Where work is done for a caller whom others wait for.
    #[must_use]
    pub fn among_others(self) -> Self {
        match self {
            Self::Briefly => Self::AmongOthers,
            Self::Here | Self::Pool | Self::AmongOthers => self,
        }
    }

    /// How many bytes harmless work may be about to be begun where it is asked for, if it may be at all.
    fn brief_bytes(self) -> Option<u64> {
        match self {
            Self::Briefly => Some(LENIENCE.most()),
            Self::AmongOthers => Some(BRIEF_BYTES_AMONG_OTHERS),
            Self::Here | Self::Pool => None,
        }
    }

    /// Runs work that blocks and waits for it without holding up the runtime.
    ///
    /// # Errors
    /// Those of the work; a panic in it is an internal failure of this call alone.
    pub async fn run<Output: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<Output, Failure> + Send + 'static,
    ) -> Result<Output, Failure> {
        match self {
            Self::Here => work(),
            Self::Pool | Self::Briefly | Self::AmongOthers => {
                tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(panicked()))
            }
        }
    }

    /// The same for work that changes nothing and asks `stop` as it goes: it may be begun twice, and only the second time be done to its end.
    ///
    /// # Errors
    /// Those of the work; a panic in it is an internal failure of this call alone.
    pub async fn run_harmless<Output: Send + 'static>(
        self,
        stop: &Stop,
        work: impl Fn(&Stop) -> Result<Output, Failure> + Send + 'static,
    ) -> Result<Output, Failure> {
        if let Some(most) = self.brief_bytes()
            && let Some(done) = briefly(stop, most, &work)
        {
            return done;
        }
        let stop = stop.clone();
        self.run(move || work(&stop)).await
    }
}

/// How many bytes work may be about to be begun where others might wait: more, as long as it is done in time.
struct Lenience {
    /// How many times more than what is certainly brief is not tried.
    spared: AtomicU32,
}

impl Lenience {
    fn most(&self) -> u64 {
        if self.spared.load(Ordering::Relaxed) == 0 { MOST_BRIEF_BYTES } else { BRIEF_BYTES }
    }

    /// Work was not done in time.
    fn end(&self) {
        self.spared.store(SPARED, Ordering::Relaxed);
    }

    /// Work was about too much to be tried.
    fn spare(&self) {
        let fewer = |spared: u32| spared.checked_sub(1);
        let _ = self.spared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// Does the work, unless it asks whether to go on when it has taken too long for those who wait. Whatever it answers then is not used.
fn briefly<Output>(
    stop: &Stop,
    most: u64,
    work: &impl Fn(&Stop) -> Result<Output, Failure>,
) -> Option<Result<Output, Failure>> {
    let (ran_out, is_long) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (outer, told, foretold) = (stop.clone(), Arc::clone(&ran_out), Arc::clone(&is_long));
    let until = Instant::now() + BRIEF;
    let brief = Stop::new(stop.deadline(), move || match outer.reason() {
        Some(reason) => reason == StopReason::Cancelled,
        None => {
            let is_late = Instant::now() >= until;
            told.fetch_or(is_late, Ordering::Relaxed);
            is_late
        }
    });
    let brief = brief.unless(move |bytes| {
        let is_too_much = bytes > most;
        foretold.fetch_or(is_too_much, Ordering::Relaxed);
        is_too_much
    });
    let done =
        std::panic::catch_unwind(AssertUnwindSafe(|| work(&brief))).unwrap_or_else(|_| Err(panicked()));
    match (is_long.load(Ordering::Relaxed), ran_out.load(Ordering::Relaxed)) {
        (false, false) => return Some(done),
        (true, _) => LENIENCE.spare(),
        (false, true) => LENIENCE.end(),
    }
    None
}

fn panicked() -> Failure {
    Failure::new(ErrorCode::Internal, "the tool ended unexpectedly")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    fn run<Output>(future: impl Future<Output = Output>) -> Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// How often work was begun, and each time whether that was on the thread that asked for it.
    struct Counting {
        begun: Arc<AtomicUsize>,
        here: Arc<Mutex<Vec<bool>>>,
    }

    impl Counting {
        fn new() -> Self {
            Self { begun: Arc::default(), here: Arc::default() }
        }

        /// Work that takes as long as it is let, the first time, and is done at once the second time.
        fn long(&self) -> impl Fn(&Stop) -> Result<usize, Failure> + Send + 'static {
            let (begun, here, caller) =
                (Arc::clone(&self.begun), Arc::clone(&self.here), thread::current().id());
            move |stop: &Stop| {
                here.lock().unwrap().push(thread::current().id() == caller);
                if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                    while stop.reason().is_none() {
                        thread::yield_now();
                    }
                    // Some answer with what they have so far.
                    return Ok(0);
                }
                Ok(42)
            }
        }

        fn told(&self) -> (usize, Vec<bool>) {
            (self.begun.load(Ordering::SeqCst), self.here.lock().unwrap().clone())
        }
    }

    #[test]
    fn short_work_is_done_here_and_long_work_is_begun_again_elsewhere() {
        let short = |here: thread::ThreadId| move |_: &Stop| Ok(thread::current().id() == here);
        let me = thread::current().id();
        for (blocking, is_here) in
            [(Blocking::Here, true), (Blocking::Briefly, true), (Blocking::Pool, false)]
        {
            assert_eq!(
                run(blocking.run_harmless(&Stop::never(), short(me))).unwrap(),
                is_here,
                "{blocking:?}"
            );
        }
        let counting = Counting::new();
        assert_eq!(run(Blocking::Briefly.run_harmless(&Stop::never(), counting.long())), Ok(42));
        assert_eq!(counting.told(), (2, vec![true, false]));
        // Nor is what is known to be long.
        let large = move |stop: &Stop| match stop.begin(MOST_BRIEF_BYTES + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        assert!(!run(Blocking::Briefly.run_harmless(&Stop::never(), large)).unwrap());
        // While others wait, much less is long.
        let middling = move |stop: &Stop| match stop.begin(BRIEF_BYTES_AMONG_OTHERS + 1) {
            Ok(()) => Ok(thread::current().id() == me),
            Err(_) => Ok(true),
        };
        let among_others = Blocking::Briefly.among_others();
        assert!(run(Blocking::Briefly.run_harmless(&Stop::never(), middling)).unwrap());
        assert!(!run(among_others.run_harmless(&Stop::never(), middling)).unwrap());
        assert!(run(among_others.run_harmless(&Stop::never(), short(me))).unwrap());
        // What has an effect is never begun here.
        assert!(!run(Blocking::Briefly.run(move || Ok(thread::current().id() == me))).unwrap());
    }

    #[test]
    fn what_may_not_be_brief_is_tried_again_after_a_while() {
        let lenience = Lenience { spared: AtomicU32::new(0) };
        assert_eq!(lenience.most(), MOST_BRIEF_BYTES);
        lenience.end();
        for _ in 0..SPARED {
            assert_eq!(lenience.most(), BRIEF_BYTES);
            lenience.spare();
        }
        assert_eq!(lenience.most(), MOST_BRIEF_BYTES);
        lenience.spare();
        assert_eq!(lenience.most(), MOST_BRIEF_BYTES);
    }

    #[test]
    fn the_end_of_the_call_ends_brief_work_and_it_is_not_begun_again() {
        for stop in [Stop::new(None, || true), Stop::new(Some(Instant::now()), || false)] {
            let counting = Counting::new();
            assert_eq!(run(Blocking::Briefly.run_harmless(&stop, counting.long())), Ok(0));
            assert_eq!(counting.told(), (1, vec![true]));
        }
    }

    #[test]
    fn a_panic_is_a_failure_of_the_call_alone() {
        for blocking in [Blocking::Pool, Blocking::Briefly, Blocking::AmongOthers] {
            let failure =
                run(blocking.run_harmless::<()>(&Stop::never(), |_| panic!("on purpose"))).unwrap_err();
            assert_eq!(failure.code, ErrorCode::Internal);
        }
    }

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
            (Category::File, ToolClass::Read, true, Announced::Not),
            (Category::File, ToolClass::Write, false, Announced::OnDisk),
            (Category::Search, ToolClass::Read, true, Announced::Not),
            (Category::Exec, ToolClass::Read, false, Announced::OnDisk),
            (Category::Web, ToolClass::Read, false, Announced::OnDisk),
            (Category::Mcp, ToolClass::Read, false, Announced::Written),
            (Category::Mcp, ToolClass::Read, true, Announced::OnDisk),
            (Category::Mcp, ToolClass::Destructive, false, Announced::OnDisk),
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
            assert_eq!(Announced::of(&Named(spec, leaves)), expected, "{category:?} {class:?} {leaves}");
        }
    }
}
