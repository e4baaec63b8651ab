//! A shell line in the sandbox: `run_command`, and `bash` in the studio.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_command::{
    BackgroundCommands, BackgroundEnd, BackgroundRequest, BackgroundStreams, CommandBounds, CommandOutcome,
    CommandRunner, CommandSpec, PathKind, Reach, ShellTimeouts, escape_name, inside, may_change,
    mount_aliases, path_kind, view,
};
use toolgate_confine::ConfineRequest;
use toolgate_gate::{
    ApprovedCall, CallContext, CallPath, Preview, PreviewBody, Tool, ToolFuture, ToolSchema, ToolSpec,
};
use toolgate_policy::{PathInput, PathInputs, PathSource};
use toolgate_sandbox::{OnOutputLimit, ResourceLimits};
use toolgate_text::confusables::quote_value;
use toolgate_types::{
    Category, ErrorCode, Escalation, Failure, FlowDeclaration, FlowEffect, FlowLabels, Sha256, ToolClass,
    ToolOutput,
};
use toolgate_workspace::{Mount, MountAccess};

use crate::blocked_commands::{Blocked, blocked_line};
use crate::command_answer::started;
use crate::file_tool::{coerce_integers, decode};
use crate::schemas::of_arguments;

/// The name of the working directory argument.
const CWD: &str = "cwd";

/// The name of the timeout argument.
const TIMEOUT: &str = "timeout_ms";

/// Linux limits one argument to 128 KiB including its NUL (`MAX_ARG_STRLEN`).
const MAX_LINE_BYTES: usize = 128 * 1024 - 1;

/// A command that writes more than this is terminated, although the surplus is not kept.
const MAX_WRITTEN_BYTES: u64 = 64 << 20;

/// How many bytes are kept as full output when the answer is truncated.
const MAX_FULL_OUTPUT_BYTES: u64 = 4 << 20;

/// How a profile presents the shell.
pub(crate) struct ShellPresentation {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) output: fn() -> ToolSchema,
    /// Whether the line is one for `bash`, if there is one.
    pub(crate) prefers_bash: bool,
    /// Whether `curl` and `wget` run without any host to reach: the proxy refuses by name what no entry allows.
    pub(crate) may_fetch: bool,
    /// The timeout of a line that names none, and that of any line; those of the profile's calls where there is none.
    pub(crate) timeouts: ShellTimeouts,
    /// Words what the command did.
    pub(crate) answer: fn(CommandOutcome, &CallContext) -> ToolOutput,
    /// Whether a line may go on after its call.
    pub(crate) has_background: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellArguments {
    /// A shell line
    #[schemars(length(min = 1))]
    command: String,
    /// Directory to run in; the workspace when absent
    cwd: Option<String>,
    /// Time after which it is ended; never more than a call may take
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
}

/// The same where a line may go on after its call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BackgroundShellArguments {
    /// A shell line
    #[schemars(length(min = 1))]
    command: String,
    /// Directory to run in; the workspace when absent
    cwd: Option<String>,
    /// Time after which it is ended; never more than a call may take, unless it runs in the background
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// Answer with an id once it has started, for `check_command` and `stop_command`; it ends with this session
    background: Option<bool>,
}

/// The tool.
pub(crate) struct Shell {
    spec: ToolSpec,
    core: Arc<ShellCore>,
    /// Where its background commands are kept.
    background: Option<BackgroundAccess>,
}

/// The background commands of a gate, and how many of them a session may have.
#[derive(Clone)]
pub struct BackgroundAccess {
    /// The commands.
    pub commands: Arc<BackgroundCommands>,
    /// How many of a caller may run in one session.
    pub max_running: usize,
    /// Digest of the configuration: when it changes, they end.
    pub definition: Sha256,
}

/// What runs a line. The thread of a background command has it, and so it must not hold the background commands themselves.
struct ShellCore {
    runner: Arc<CommandRunner>,
    presentation: &'static ShellPresentation,
    /// The timeout of a line that names none; that of the call where there is none.
    default_timeout: Option<Duration>,
}

/// A parsed call that may run.
struct ShellLine {
    command: String,
    /// The working directory, as answers show it and as the command sees it.
    path: String,
    directory: PathBuf,
    timeout: Option<Duration>,
    in_background: bool,
}

impl Shell {
    /// The tool of a profile; `None` if its name is not a valid tool name, which a test excludes.
    pub(crate) fn bind_to(
        runner: &Arc<CommandRunner>,
        presentation: &'static ShellPresentation,
        background: Option<BackgroundAccess>,
    ) -> Option<Arc<dyn Tool>> {
        let &ShellPresentation { name, title, description, output, timeouts, .. } = presentation;
        let configured = runner.timeouts();
        let default_timeout = configured.default.or(timeouts.default);
        // A longer default than the maximum is a larger maximum.
        let max_timeout = configured.max.or(timeouts.max.max(configured.default));
        let spec = ToolSpec {
            name: name.parse().ok()?,
            title: title.to_owned(),
            description: description.to_owned(),
            // A shell can irrevocably destroy whatever it can write to.
            class: ToolClass::Destructive,
            category: Category::Exec,
            input_schema: match background {
                Some(_) => of_arguments::<BackgroundShellArguments>(),
                None => of_arguments::<ShellArguments>(),
            },
            output_schema: output(),
            requirements: None,
            output_policy: None,
            timeout: max_timeout,
            suspended: None,
        };
        let core = Arc::new(ShellCore { runner: Arc::clone(runner), presentation, default_timeout });
        Some(Arc::new(Self { spec, core, background }))
    }

    fn read(&self, arguments: &Value, context: &CallContext) -> Result<ShellLine, Failure> {
        let coerced = coerce_integers(&self.spec.input_schema, arguments.clone());
        let BackgroundShellArguments { command, cwd, timeout_ms, background } = match self.background {
            Some(_) => decode(coerced)?,
            None => {
                let ShellArguments { command, cwd, timeout_ms } = decode(coerced)?;
                BackgroundShellArguments { command, cwd, timeout_ms, background: None }
            }
        };
        let unfit = |message: &str, help: &str| Failure::new(ErrorCode::InvalidArguments, message).help(help);
        if command.len() > MAX_LINE_BYTES {
            return Err(unfit("the command is too long", "write it to a file and run the file"));
        }
        if command.contains('\0') {
            return Err(unfit("the command holds a NUL character", "leave it out"));
        }
        let core = &self.core;
        let may_fetch = core.presentation.may_fetch || !core.runner.reach().rules.is_empty();
        if let Some(blocked) = blocked_line(&command, may_fetch) {
            return Err(refusal(blocked));
        }
        core.check_directory(arguments, context)?;
        let (place, directory) = core.directory(cwd.as_deref(), context)?;
        let (timeout, in_background) = (timeout_ms.map(Duration::from_millis), background == Some(true));
        Ok(ShellLine { command, path: place, directory, timeout, in_background })
    }

    fn execute(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, Failure> {
        let line = self.read(&arguments, context)?;
        match self.background.as_ref().filter(|_| line.in_background) {
            Some(background) => start_in_background(&self.core, line, arguments, (background, context)),
            None => self.core.execute(line, &arguments, context),
        }
    }
}

/// Starts a line and answers with its id.
fn start_in_background(
    core: &Arc<ShellCore>,
    line: ShellLine,
    arguments: Value,
    (background, context): (&BackgroundAccess, &CallContext),
) -> Result<ToolOutput, Failure> {
    let (core, held) = (Arc::clone(core), CallContext { progress: None, ..context.clone() });
    let (shown, timeout) = (line.command.clone(), line.timeout);
    let run = move |streams: &BackgroundStreams<'_>| core.run_in_background(line, &arguments, &held, streams);
    let request = BackgroundRequest {
        line: shown,
        timeout,
        max_running: background.max_running,
        definition: background.definition,
        run: Box::new(run),
    };
    let id = background.commands.start(request, context)?;
    Ok(started(id))
}

impl ShellCore {
    /// The working directory: the path is opened and checked like any other; the workspace by default.
    fn directory(&self, cwd: Option<&str>, context: &CallContext) -> Result<(String, PathBuf), Failure> {
        let default = self.default_mount();
        let Some(path) = cwd else {
            let place = default.map_or_else(|| PathBuf::from("/tmp"), |alias| inside(alias, ""));
            return Ok((default.unwrap_or("/tmp").to_owned(), place));
        };
        let path = &self.strip_sandbox_prefix(path);
        match path_kind(&view(self.runner.workspace(), context), path)? {
            PathKind::File => Err(Failure::new(
                ErrorCode::NotADirectory,
                format!("`{}` is not a directory", escape_name(path)),
            )
            .help("name the directory to run in")),
            PathKind::Directory(shown) => {
                let place = self.runner.path_inside(&shown);
                Ok((shown, place))
            }
        }
    }

    /// Fails unless the directory is still the one that was checked, or that a person approved: same location, device and inode. Repeated right
    /// before the start, since confining a command takes time. A call that was checked without it costs nothing.
    fn check_directory(&self, arguments: &Value, context: &CallContext) -> Result<(), Failure> {
        match &context.judged {
            Some(judged) => judged.check(&self.locate(arguments, context)?),
            None => Ok(()),
        }
    }

    /// The mount that bare paths are relative to.
    fn default_mount(&self) -> Option<&str> {
        self.runner.workspace().mounts().iter().find(|mount| mount.is_default()).map(Mount::alias)
    }

    /// Converts a path as the command sees it (`/mnt/NAME/…`) to one that file tools take (`@NAME/…`).
    fn strip_sandbox_prefix(&self, path: &str) -> String {
        let alias = path.strip_prefix("/mnt/").map(|rest| format!("@{rest}"));
        let mount = |named: &String| {
            let alias = named.split('/').next().unwrap_or_default();
            self.runner.workspace().mount(alias).is_some()
        };
        alias.filter(mount).unwrap_or_else(|| path.to_owned())
    }

    fn mounts(&self) -> Vec<ConfineRequest<'_>> {
        let mounts = self.runner.workspace().mounts().iter();
        mounts
            .map(|mount| ConfineRequest {
                alias: mount.alias(),
                writable: mount.access() == MountAccess::ReadWrite,
            })
            .collect()
    }

    fn execute(
        &self,
        line: ShellLine,
        arguments: &Value,
        context: &CallContext,
    ) -> Result<ToolOutput, Failure> {
        let timeout = self.timeout_of(line.timeout, context);
        let stop = context.stop.child(timeout);
        let (limits, reach) = (self.runner.limits(), self.runner.reach_of(&context.escalation)?);
        let last_look = || self.check_directory(arguments, context);
        let text = line.command.clone();
        let command = self.command(line, (&reach, limits), context, &last_look);
        let mut finished = self.runner.run(&command, context, &stop)?;
        let bounds =
            CommandBounds { timeout, timeout_is_chosen: true, limits, max_written: MAX_WRITTEN_BYTES };
        finished.check(&bounds, &context.limits)?;
        let lacked = self.lacked(&mut finished, (&text, None), context);
        let answer = (self.presentation.answer)(finished, context);
        Ok(ToolOutput { lacked, ..answer })
    }

    /// The timeout of a line that names this one. What a person allowed takes nothing from what the call names.
    fn timeout_of(&self, named: Option<Duration>, context: &CallContext) -> Duration {
        let usual = named.or(self.default_timeout).unwrap_or(context.limits.timeout);
        usual.max(context.escalation.timeout.unwrap_or_default()).min(context.limits.timeout)
    }

    /// What a command lacked that a person may allow its retry: hosts that it was refused, and directories that its output says are missing.
    fn lacked(
        &self,
        finished: &mut CommandOutcome,
        said: (&str, Option<&str>),
        context: &CallContext,
    ) -> Escalation {
        let may_ask = self.runner.escalation();
        let refused = finished.refused_hosts.iter().filter(|_| may_ask.hosts);
        let hosts = refused.filter_map(|refused| refused.entry.clone()).collect();
        let mut directories = finished.report_unseen_paths(said, &context.escalation.directories);
        directories.retain(|_| may_ask.directories);
        Escalation { hosts, timeout: None, directories }
    }

    /// Runs a line to its end, however long after its call that is.
    fn run_in_background(
        &self,
        line: ShellLine,
        arguments: &Value,
        context: &CallContext,
        streams: &BackgroundStreams<'_>,
    ) -> BackgroundEnd {
        let (limits, reach) = (self.runner.limits().long_lived(), self.runner.reach_of(&context.escalation)?);
        let last_look = || self.check_directory(arguments, context);
        let text = line.command.clone();
        let command = self.command(line, (&reach, limits), context, &last_look);
        let mut finished = self.runner.run_in_background(&command, context, streams)?;
        let lacked = self.lacked(&mut finished, (&text, Some(&streams.kept_output())), context);
        finished.retry_asks = context.lacks.as_ref().is_some_and(|lacks| lacks.report(lacked));
        Ok(finished)
    }

    fn command<'c>(
        &'c self,
        line: ShellLine,
        (reach, limits): (&'c Reach, ResourceLimits),
        context: &CallContext,
        final_check: &'c dyn Fn() -> Result<(), Failure>,
    ) -> CommandSpec<'c> {
        let bash = self.presentation.prefers_bash && self.runner.has_program("bash");
        let (program, options): (&str, &[&str]) =
            if bash { ("bash", &["--noprofile", "--norc", "-c"]) } else { ("sh", &["-c"]) };
        CommandSpec {
            program: program.into(),
            arguments: options.iter().map(Into::into).chain([line.command.into()]).collect(),
            directory: line.directory,
            mounts: self.mounts(),
            environment: &[],
            input: None,
            has_package_cache: true,
            reach,
            limits,
            max_output: context.limits.max_output_bytes,
            max_full_output: MAX_FULL_OUTPUT_BYTES,
            on_output_limit: OnOutputLimit::Drain(MAX_WRITTEN_BYTES),
            final_check,
        }
    }

    fn locate(&self, arguments: &Value, context: &CallContext) -> Result<Vec<CallPath>, Failure> {
        let view = view(self.runner.workspace(), context);
        let spelt = arguments.get(CWD).and_then(Value::as_str);
        let path = match (spelt, self.default_mount()) {
            (Some(path), _) => self.strip_sandbox_prefix(path),
            (None, Some(alias)) => alias.to_owned(),
            (None, None) => return Ok(Vec::new()),
        };
        Ok(vec![CallPath { source: PathSource::Argument(CWD.to_owned()), located: view.locate(&path)? }])
    }
}

fn refusal(blocked: Blocked) -> Failure {
    let Blocked { name, meaning, instead } = blocked;
    Failure::new(ErrorCode::CommandBlocked, format!("`{name}` is not run here: {meaning}"))
        .help(instead)
        .detail("pattern", name)
}

/// A command with hosts to reach sends something out, and what it prints may come from there.
fn command_flow(runner: &CommandRunner, default: FlowDeclaration) -> FlowDeclaration {
    match runner.reach().rules.is_empty() {
        true => default,
        false => FlowDeclaration { effect: FlowEffect::Egress, output: FlowLabels::UNTRUSTED, ..default },
    }
}

impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn awaits_intent(&self) -> bool {
        true
    }

    /// A digest of what a line could change and reach.
    fn fingerprint(&self) -> Option<Sha256> {
        let mounts = self
            .core
            .mounts()
            .into_iter()
            .map(|mount| format!("{}{}", mount.alias, if mount.writable { " rw" } else { "" }));
        let escalation = format!("{:?}", self.core.runner.escalation());
        let caches = format!("package caches: {}", self.core.runner.has_package_caches());
        let bounds: Vec<String> = mounts.chain([self.core.runner.hosts(), escalation, caches]).collect();
        Some(Sha256::of(bounds.join("\n").as_bytes()))
    }

    fn information_flow(&self) -> FlowDeclaration {
        command_flow(&self.core.runner, self.spec.default_flow(true))
    }

    fn longer_timeout(&self, arguments: &Value, context: &CallContext) -> Option<Duration> {
        if !self.core.runner.escalation().time || self.outlives_call(arguments) {
            return None;
        }
        let named = arguments.get(TIMEOUT).map(|named| json!({TIMEOUT: named}));
        let named = named.map(|named| coerce_integers(&self.spec.input_schema, named));
        let named = named.and_then(|named| named.get(TIMEOUT)?.as_u64()).map(Duration::from_millis);
        let most = context.limits.timeout;
        (self.core.timeout_of(named, context) < most).then_some(most)
    }

    fn escalation_for(&self, lacked: Escalation) -> Escalation {
        let directories = self.core.runner.lendable_directories(&lacked.directories);
        Escalation { directories, ..lacked }
    }

    fn path_inputs(&self) -> PathInputs {
        let directory = self.core.default_mount().unwrap_or("/tmp").to_owned();
        let cwd = PathInput { name: CWD.to_owned(), is_list: false, has_default: true, directory };
        PathInputs { mounts: mount_aliases(self.core.runner.workspace()), ..PathInputs::of(vec![cwd]) }
    }

    fn locate(&self, arguments: &Value, context: &CallContext) -> Result<Vec<CallPath>, Failure> {
        self.core.locate(arguments, context)
    }

    fn shell_line<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        arguments.get("command").and_then(Value::as_str)
    }

    fn outlives_call(&self, arguments: &Value) -> bool {
        arguments.get("background").is_some_and(|background| *background != Value::Bool(false))
    }

    /// The whole line, its working directory, and what it could change and reach.
    fn preview(&self, arguments: &Value, context: &CallContext) -> Result<Preview, Failure> {
        let line = self.read(arguments, context)?;
        // No person is asked about a line that cannot run.
        self.core.runner.check()?;
        if let Some(background) = self.background.as_ref().filter(|_| line.in_background) {
            background.commands.check_limit(background.max_running, context)?;
        }
        let mounts = self.core.mounts();
        let readable = mounts.iter().filter(|mount| !mount.writable).map(|mount| mount.alias);
        let readable: Vec<&str> = readable.collect();
        let mut summary = vec![format!("run in {}", quote_value(&line.path)), may_change(&mounts, context)];
        if !readable.is_empty() {
            summary.push(format!("may read {}", readable.join(", ")));
        }
        summary.push(format!("network: {}", self.core.runner.hosts()));
        if line.in_background {
            let text =
                "in the background: goes on after the answer, until it ends, is stopped or the session ends";
            summary.push(text.to_owned());
        }
        summary.extend(line.timeout.map(|timeout| format!("for at most {} s", timeout.as_secs_f64())));
        Ok(Preview {
            summary,
            body: PreviewBody::Text(line.command),
            expected_changes: None,
            would_fail: None,
        })
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let blocking = context.blocking;
            blocking.run(move || self.execute(call.into_arguments(), &context)).await
        })
    }
}
