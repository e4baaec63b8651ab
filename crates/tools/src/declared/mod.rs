//! Tools that manifests declare: a command with placeholders, confined as its manifest says.
//!
//! Everything that can be found out when manifests are loaded is found out then: conditions are typed, output rules compiled, hosts read, examples
//! tried. A call is left with rendering its arguments, asking the workspace about every path among them, and running the command.

mod examples;
mod load;
mod parse;
mod shipped;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use toolgate_gate::{ApprovedCall, CallContext, Preview, PreviewBody, Tool, ToolFuture, ToolSpec};
use toolgate_manifest::{CommandLimits, MountPath, ToolManifest};
use toolgate_sandbox::{OnFlood, ResourceLimits};
use toolgate_types::{ErrorCode, Failure, Sha256, ToolOutput};
use toolgate_workspace::{Confined, WorkspaceError};

use crate::command::{
    Bounds, Command, CommandRunner, Finished, ONLY_SOME, Reach, Seen, look, may_change, spelt_out,
    stop_within, told, view,
};

pub use load::{LoadedTools, Surroundings, load_manifests};
pub use shipped::SHIPPED;

/// How much a command may print when its manifest does not say.
const MAX_OUTPUT: u64 = 1 << 20;

/// How much of the standard error of a failed command the operator is told.
const LONGEST_NOTE: usize = 500;

/// A manifest that was checked and can become a tool.
pub(crate) struct Declared {
    manifest: ToolManifest,
    spec: ToolSpec,
    reach: Reach,
    /// The digest of the file that declares it.
    fingerprint: Sha256,
}

/// The tool.
struct CommandTool {
    declared: Arc<Declared>,
    runner: Arc<CommandRunner>,
}

/// A call that was read.
struct Rendered {
    argv: Vec<String>,
    input: Option<String>,
}

impl CommandTool {
    fn render(&self, arguments: &Value, context: &CallContext) -> Result<Rendered, Failure> {
        let command = &self.declared.manifest.command;
        let argv = match command.template.pathspecs_of() {
            Some(alias) => {
                let pathspecs = self.runner.workspace().git_pathspecs(alias, context.grant.as_deref());
                command.template.render_with(arguments, &pathspecs?)?
            }
            None => command.template.render(arguments)?,
        };
        let input = command.stdin.as_ref().map(|stdin| stdin.render(arguments)).transpose()?.flatten();
        let folder = command.directory.iter().map(|directory| &directory.value);
        for place in folder {
            self.ask_about(place, context)?;
        }
        for place in command.template.paths(arguments)? {
            self.ask_about(&place, context)?;
        }
        Ok(Rendered { argv, input })
    }

    /// Opens what a path leads to, so that links and rules are judged before the command sees it. What is not there is the command's to report,
    /// unless nothing could ever be there: a history may still hold it.
    fn ask_about(&self, place: &MountPath, context: &CallContext) -> Result<(), Failure> {
        let path = format!("{}/{}", place.alias, place.path);
        let view = view(self.runner.workspace(), context);
        match look(&view, &path) {
            Ok(Seen::Folder(_) | Seen::File) => Ok(()),
            Err(WorkspaceError::NotFound { .. }) => match view.resolved(&path) {
                Err(error @ (WorkspaceError::Denied { .. } | WorkspaceError::OutOfScope { .. })) => {
                    Err(error.into())
                }
                _ => Ok(()),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn execute(&self, rendered: Rendered, context: &CallContext) -> Result<ToolOutput, Failure> {
        let Declared { manifest, reach, .. } = &*self.declared;
        let command = &manifest.command;
        let timeout = context.limits.timeout;
        let limits = narrowed(self.runner.limits(), &command.limits);
        let max_output = command.limits.output.unwrap_or(MAX_OUTPUT);
        let mut argv = rendered.argv.into_iter();
        let run = Command {
            program: argv.next().unwrap_or_default().into(),
            arguments: argv.map(Into::into).collect(),
            directory: command
                .directory
                .as_ref()
                .map_or_else(|| PathBuf::from("/tmp"), |directory| directory.value.inside().into()),
            mounts: self.mounts(),
            environment: &command.environment,
            input: rendered.input.map(String::into_bytes),
            reach,
            limits,
            max_output,
            whole: 0,
            on_flood: OnFlood::Stop,
        };
        let finished = self.runner.run(&run, context, &stop_within(&context.stop, timeout))?;
        finished
            .check(&Bounds { timeout, limits, flood: max_output }, &context.limits)
            .map_err(withhold_output)?;
        self.check(&finished)?;
        let most = manifest.output.max_bytes.unwrap_or(u64::MAX).min(context.limits.max_output_bytes);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        parse::answer(manifest.output.parse, &finished.captured.output, most)
    }

    fn mounts(&self) -> Vec<Confined<'_>> {
        let mounts = self.declared.manifest.command.mounts.iter();
        mounts.map(|mount| Confined { alias: &mount.alias.value, writable: mount.writable }).collect()
    }

    /// Whether it ended as it should and left nothing that it must not.
    fn check(&self, finished: &Finished) -> Result<(), Failure> {
        if !finished.quarantined.is_empty() {
            let paths =
                finished.quarantined.iter().take(crate::command::MOST_TOLD).map(|taken| told(&taken.path));
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
        let help = match finished.held.read_only {
            true => format!("{ONLY_SOME}; check the arguments, the operator is told more"),
            false => "check the arguments; the operator is told more".to_owned(),
        };
        Err(Failure::new(ErrorCode::CommandFailed, format!("the command ended {how}"))
            .help(help)
            .detail("exit_code", finished.exit_code())
            .detail("signal", finished.signal())
            .operator_note(format!("the command ended {how}"))
            .aside(aside(finished)))
    }
}

/// What a manifest's command printed leaves through its output policy or not at all.
fn withhold_output(mut failure: Failure) -> Failure {
    for name in
        ["output", "denied", "quarantined", "left_behind", "hidden_files", "hidden_folders", "pinned_folders"]
    {
        failure.details.shift_remove(name);
    }
    failure
}

/// The end of what it said about itself, and what it was denied. It may quote arguments, so it is in no record.
fn aside(finished: &Finished) -> String {
    let error = finished.captured.error.trim_end();
    let skipped = error.chars().count().saturating_sub(LONGEST_NOTE);
    let tail: String = error.chars().skip(skipped).collect();
    let said = if tail.is_empty() { "it said nothing".to_owned() } else { format!("it said: {tail}") };
    let denied = finished.denied.iter().map(|denial| denial.to_line());
    std::iter::once(said).chain(denied).collect::<Vec<_>>().join("; ")
}

/// The smaller of what the manifest and the configuration say.
fn narrowed(base: ResourceLimits, declared: &CommandLimits) -> ResourceLimits {
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

    fn fingerprint(&self) -> Option<Sha256> {
        Some(self.declared.fingerprint)
    }

    /// The exact arguments, where the command runs, what it could change and what it could reach.
    fn preview(&self, arguments: &Value, context: &CallContext) -> Result<Preview, Failure> {
        let rendered = self.render(arguments, context)?;
        let command = &self.declared.manifest.command;
        let place = command.directory.as_ref().map_or_else(
            || "/tmp".to_owned(),
            |directory| format!("{}/{}", directory.value.alias, directory.value.path),
        );
        let hosts: Vec<&str> = command.network.iter().map(|host| host.value.as_str()).collect();
        let mut summary = vec![
            format!("run in {}", place.trim_end_matches('/')),
            may_change(&self.mounts(), context),
            format!("network: {}", if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") }),
        ];
        // Pathspecs are the gate's own words, some hundred of them.
        let left_out = command.template.pathspecs_of();
        summary.extend(left_out.map(|alias| format!("git leaves out what is denied in {alias}")));
        let argv = if left_out.is_some() { command.template.render(arguments)? } else { rendered.argv };
        let mut body: Vec<String> =
            argv.iter().map(|argument| spelt_out(&Value::from(argument.as_str()).to_string())).collect();
        if let Some(input) = rendered.input {
            body.push(format!("standard input:\n{}", spelt_out(&input)));
        }
        Ok(Preview { summary, body: PreviewBody::Text(body.join("\n")), changes: None })
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
