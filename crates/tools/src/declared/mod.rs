//! Declared tools: a command template, confined as its manifest says.
//!
//! As much as possible is checked when manifests are loaded: conditions are typed, output rules compiled, hosts parsed, examples evaluated. A call
//! only renders its arguments, checks every path among them against the workspace, and runs the command.

mod examples;
mod flow;
mod load;
mod parse;
mod shipped;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use toolgate_command::{
    CommandBounds, CommandOutcome, CommandRunner, CommandSpec, RESTRICTED_GRANT_NOTE, Reach, escape_name,
    may_change, mount_aliases, view,
};
use toolgate_confine::ConfineRequest;
use toolgate_gate::{ApprovedCall, CallContext, CallPath, Preview, PreviewBody, Tool, ToolFuture, ToolSpec};
use toolgate_manifest::{
    CommandLimits, MountPath, NamedPath, PathArgument, RealPaths, StderrRule, ToolManifest, WHOLE_WORKTREE,
};
use toolgate_policy::{PathInput, PathInputs, PathSource};
use toolgate_sandbox::{OnOutputLimit, ResourceLimits};
use toolgate_text::confusables::quote_value;
use toolgate_types::{ErrorCode, Failure, FlowDeclaration, Sha256, ToolOutput};
use toolgate_workspace::{LocatedFile, WorkspaceView};

pub use load::{LoadedTools, ManifestContext, load_manifests};
pub use shipped::SHIPPED;

/// The default output limit of a command.
const DEFAULT_MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// How much of a failed command's standard error the operator sees.
const MAX_NOTE_CHARS: usize = 500;

/// A manifest that was checked and can become a tool.
pub(crate) struct DeclaredTool {
    manifest: ToolManifest,
    spec: ToolSpec,
    reach: Reach,
    /// The digest of the manifest.
    fingerprint: Sha256,
}

/// The tool.
struct CommandTool {
    declared: Arc<DeclaredTool>,
    runner: Arc<CommandRunner>,
}

/// A parsed call.
struct RenderedCall {
    argv: Vec<String>,
    input: Option<String>,
    /// The resolved paths: the program is given these, and runs there.
    paths: Vec<CallPath>,
}

impl RenderedCall {
    /// The working directory.
    fn directory(&self) -> Option<MountPath> {
        let mut directories = self.paths.iter().filter(|path| path.source == PathSource::WorkingDirectory);
        directories.next().map(|path| mount_path(&path.located))
    }
}

impl CommandTool {
    fn render(&self, arguments: &Value, context: &CallContext) -> Result<RenderedCall, Failure> {
        let command = &self.declared.manifest.command;
        let paths = self.locate(arguments, context)?;
        if let Some(judged) = &context.judged {
            judged.check(&paths)?;
        }
        let real = real_paths(&paths);
        let pathspecs = match command.template.pathspecs_of() {
            Some(alias) => self.runner.workspace().git_pathspecs(alias, context.grant.as_deref())?,
            None => Vec::new(),
        };
        let argv = command.template.render_with(arguments, &pathspecs, &real)?;
        let input = command.stdin.as_ref().map(|stdin| stdin.render(arguments, &real)).transpose()?.flatten();
        Ok(RenderedCall { argv, input, paths })
    }

    /// Opens a path, so that symlinks and rules are checked before the command sees it. A missing file is for the command to report, unless the path
    /// could never exist: the repository's history may still contain it. A command is given the path below its mount, so with a symlink into another
    /// mount one file would be checked and another of the same name used.
    fn find(&self, place: &MountPath, context: &CallContext) -> Result<LocatedFile, Failure> {
        let view =
            WorkspaceView { grant: context.grant.as_deref(), ..view(self.runner.workspace(), context) };
        let located = view.locate(&place.to_string())?;
        if located.alias != place.alias {
            let message = format!(
                "`{place}` is reached through a symlink into `{}`, and this tool uses `{}` only",
                located.alias, place.alias
            );
            return Err(Failure::new(ErrorCode::SymlinkOutsideWorkspace, message)
                .help("name a file that lies in the mount itself"));
        }
        Ok(located)
    }

    /// Fails unless the paths still resolve to the same files (TOCTOU): confining the command and writing the intent take time.
    fn recheck_paths(&self, paths: &[CallPath], context: &CallContext) -> Result<(), Failure> {
        for CallPath { located: place, .. } in paths {
            if self.find(&mount_path(place), context).as_ref() != Ok(place) {
                let message =
                    format!("`{}` became another file while the command was prepared", mount_path(place));
                return Err(Failure::new(ErrorCode::PreconditionFailed, message).help("try again"));
            }
        }
        Ok(())
    }

    fn execute(&self, rendered: RenderedCall, context: &CallContext) -> Result<ToolOutput, Failure> {
        let DeclaredTool { manifest, reach, .. } = &*self.declared;
        let command = &manifest.command;
        let timeout = context.limits.timeout;
        let limits = stricter_limits(self.runner.limits(), &command.limits);
        let max_output = command.limits.output.unwrap_or(DEFAULT_MAX_OUTPUT_BYTES);
        let directory = rendered.directory();
        let RenderedCall { argv, input, paths } = rendered;
        let mut argv = argv.into_iter();
        let last_look = || self.recheck_paths(&paths, context);
        let run = CommandSpec {
            program: argv.next().unwrap_or_default().into(),
            arguments: argv.map(Into::into).collect(),
            directory: directory.map_or_else(|| PathBuf::from("/tmp"), |place| place.inside().into()),
            mounts: self.mounts(),
            environment: &command.environment,
            input: input.map(String::into_bytes),
            has_package_cache: false,
            reach,
            limits,
            max_output,
            max_full_output: 0,
            on_output_limit: OnOutputLimit::Stop,
            final_check: &last_look,
        };
        let finished = self.runner.run(&run, context, &context.stop.child(timeout))?;
        finished
            .check(
                &CommandBounds { timeout, timeout_is_chosen: false, limits, max_written: max_output },
                &context.limits,
            )
            .map_err(withhold_output)?;
        self.check(&finished)?;
        let most = manifest.output.max_bytes.unwrap_or(u64::MAX).min(context.limits.max_output_bytes);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        parse::answer(manifest.output.parse, &finished.captured.output, most)
    }

    fn mounts(&self) -> Vec<ConfineRequest<'_>> {
        let mounts = self.declared.manifest.command.mounts.iter();
        mounts.map(|mount| ConfineRequest { alias: &mount.alias.value, writable: mount.writable }).collect()
    }

    /// Fails unless it exited as expected and left nothing that it must not.
    fn check(&self, finished: &CommandOutcome) -> Result<(), Failure> {
        if !finished.quarantined.is_empty() {
            let paths = finished
                .quarantined
                .iter()
                .take(toolgate_command::MAX_REPORTED)
                .map(|taken| escape_name(&taken.path));
            let paths: Vec<String> = paths.collect();
            let message = "the command left files under protected names, which were taken away";
            return Err(Failure::new(ErrorCode::DeniedPath, message)
                .help("do not make hooks or configuration that other programs obey")
                .detail("quarantined", paths));
        }
        let codes = &self.declared.manifest.command.success_codes;
        if finished.exit_code().is_some_and(|code| codes.iter().any(|known| i32::from(*known) == code)) {
            return Ok(());
        }
        let how = match (finished.exit_code(), finished.signal()) {
            (Some(code), _) => format!("with exit code {code}"),
            (None, signal) => format!("by signal {}", signal.unwrap_or_default()),
        };
        let help = match finished.limits.read_only {
            true => format!("{RESTRICTED_GRANT_NOTE}; check the arguments, the operator is told more"),
            false => "check the arguments; the operator is told more".to_owned(),
        };
        let said = match self.declared.manifest.command.stderr {
            StderrRule::Show => shown_error(finished),
            StderrRule::Hide => None,
        };
        let said = said.map(|said| format!(", and said: {said}")).unwrap_or_default();
        Err(Failure::new(ErrorCode::CommandFailed, format!("the command ended {how}{said}"))
            .help(help)
            .detail("exit_code", finished.exit_code())
            .detail("signal", finished.signal())
            .operator_note(format!("the command ended {how}"))
            .terminal_note(terminal_note(finished)))
    }
}

/// The failure for a path that must exist and does not.
fn missing(argument: &str, path: &MountPath) -> Failure {
    Failure::new(ErrorCode::NotFound, format!("`{argument}`: `{path}` does not exist"))
        .help("name something that is there")
}

/// The path below a mount where the file really is.
fn mount_path(located: &LocatedFile) -> MountPath {
    MountPath { alias: located.alias.clone(), path: located.location.clone() }
}

/// The resolved path of each argument.
fn real_paths(paths: &[CallPath]) -> RealPaths {
    let of_argument = |path: &CallPath| match &path.source {
        PathSource::Argument(name) => Some((name.clone(), path.located.location.clone())),
        PathSource::PatchedFile(_) | PathSource::WorkingDirectory => None,
    };
    paths.iter().filter_map(of_argument).collect()
}

/// The path arguments of a manifest.
fn path_inputs(manifest: &ToolManifest) -> PathInputs {
    let argument = |argument: &PathArgument| PathInput {
        name: argument.name.clone(),
        is_list: argument.is_list,
        has_default: false,
        directory: argument.directory.to_string(),
    };
    let arguments = manifest.command.paths.iter().map(argument).collect();
    let directory = manifest.command.directory.as_ref().map(|directory| directory.value.to_string());
    PathInputs { directory, ..PathInputs::of(arguments) }
}

/// A declared command's output is only returned through its output policy.
fn withhold_output(mut failure: Failure) -> Failure {
    for name in [
        "output",
        "denied",
        "refused_hosts",
        "quarantined",
        "left_behind",
        "hidden_files",
        "hidden_folders",
        "pinned_folders",
    ] {
        failure.details.shift_remove(name);
    }
    failure
}

/// The end of standard error in one line for the model: sanitised, with aliases instead of sandbox paths.
fn shown_error(finished: &CommandOutcome) -> Option<String> {
    let error = finished.captured.error.trim();
    let lines: Vec<&str> = error.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let one = lines.join(" | ").replace("/mnt/", "@");
    let skipped = one.chars().count().saturating_sub(MAX_NOTE_CHARS);
    let tail: String = one.chars().skip(skipped).collect();
    let mark = if skipped > 0 { "…" } else { "" };
    (!tail.is_empty()).then(|| format!("{mark}{tail}"))
}

/// The end of standard error, and the denials. It may quote arguments, so it is not audited.
fn terminal_note(finished: &CommandOutcome) -> String {
    let error = finished.captured.error.trim_end();
    let skipped = error.chars().count().saturating_sub(MAX_NOTE_CHARS);
    let tail: String = error.chars().skip(skipped).collect();
    let said = if tail.is_empty() { "it said nothing".to_owned() } else { format!("it said: {tail}") };
    let denied = finished.denied.iter().map(|denial| denial.to_line());
    std::iter::once(said).chain(denied).collect::<Vec<_>>().join("; ")
}

/// The stricter of the manifest's and the configured limits.
fn stricter_limits(base: ResourceLimits, declared: &CommandLimits) -> ResourceLimits {
    let least = |base: u64, declared: Option<u64>| declared.map_or(base, |declared| declared.min(base));
    ResourceLimits {
        memory: least(base.memory, declared.memory),
        processes: least(base.processes, declared.processes),
        file_size: least(base.file_size, declared.file_size),
        open_files: least(base.open_files, declared.open_files),
        cpu_seconds: least(base.cpu_seconds, declared.cpu_time.map(|time| time.as_secs().max(1))),
        ..base
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> &ToolSpec {
        &self.declared.spec
    }

    fn awaits_intent(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Option<Sha256> {
        Some(self.declared.fingerprint)
    }

    fn version(&self) -> Option<&str> {
        self.declared.manifest.version.as_deref()
    }

    fn changelog(&self) -> &[String] {
        &self.declared.manifest.changelog
    }

    fn information_flow(&self) -> FlowDeclaration {
        flow::declaration(&self.declared.manifest)
    }

    fn exit_codes_break(&self) -> bool {
        self.declared.manifest.exit_codes_break
    }

    fn path_inputs(&self) -> PathInputs {
        let mounts = mount_aliases(self.runner.workspace());
        PathInputs { mounts, ..path_inputs(&self.declared.manifest) }
    }

    fn locate(&self, arguments: &Value, context: &CallContext) -> Result<Vec<CallPath>, Failure> {
        let command = &self.declared.manifest.command;
        let named = command.named_paths(arguments)?.into_iter();
        let named = named.map(|NamedPath { argument, path, extensions, must_exist }| {
            let located = self.find(&path, context)?;
            // The extension is checked on the name that a symlink resolves to.
            extensions.check(&located.location, &argument)?;
            if must_exist && located.identity.is_none() {
                return Err(missing(&argument, &path));
            }
            Ok(CallPath { source: PathSource::Argument(argument), located })
        });
        let directory = command.directory.iter().map(|place| {
            let source = PathSource::WorkingDirectory;
            Ok(CallPath { source, located: self.find(&place.value, context)? })
        });
        let located = named.chain(directory);
        located.collect()
    }

    /// The exact arguments, resolved paths, the working directory, and what the command could change and reach.
    fn preview(&self, arguments: &Value, context: &CallContext) -> Result<Preview, Failure> {
        let rendered = self.render(arguments, context)?;
        let command = &self.declared.manifest.command;
        let place = rendered.directory().map(|place| quote_value(&place.to_string()));
        let place = place.unwrap_or_else(|| "/tmp".to_owned());
        let hosts: Vec<&str> = command.network.iter().map(|host| host.value.as_str()).collect();
        let mut summary = vec![
            format!("run in {place}"),
            may_change(&self.mounts(), context),
            format!("network: {}", if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }),
        ];
        let arguments_that_are_paths =
            rendered.paths.iter().filter(|path| path.source != PathSource::WorkingDirectory);
        summary.extend(arguments_that_are_paths.map(|CallPath { source, located }| {
            let place = mount_path(located);
            let missing = if located.identity.is_none() { ", which does not exist" } else { "" };
            format!("{source} is {}{missing}", quote_value(&place.to_string()))
        }));
        // The pathspecs are the gate's own, some hundred of them; one placeholder is shown instead.
        let left_out = command.template.pathspecs_of();
        summary.extend(left_out.map(|alias| format!("git leaves out what is denied in {alias}")));
        let argv = match left_out {
            Some(_) => {
                let real = real_paths(&rendered.paths);
                command.template.render_with(arguments, &[WHOLE_WORKTREE.to_owned()], &real)?
            }
            None => rendered.argv,
        };
        let mut body: Vec<String> =
            argv.iter().map(|argument| Value::from(argument.as_str()).to_string()).collect();
        if let Some(input) = rendered.input {
            body.push(format!("standard input:\n{input}"));
        }
        Ok(Preview {
            summary,
            body: PreviewBody::Text(body.join("\n")),
            expected_changes: None,
            would_fail: None,
        })
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let blocking = context.blocking;
            let work = move || {
                let rendered = self.render(&call.into_arguments(), &context)?;
                self.execute(rendered, &context)
            };
            blocking.run(work).await
        })
    }
}
