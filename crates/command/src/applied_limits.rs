//! The restrictions that a command ran under and may have hit. They are reported when it fails, so that the cause need not be guessed from the
//! system's error messages.

use toolgate_confine::ConfinedMount;
use toolgate_gate::CallContext;
use toolgate_sandbox::{CommandExit, Exit};
use toolgate_types::MountOverlay;

use crate::CommandSpec;
use crate::command_denial::CommandDenial;
use crate::command_outcome::{MAX_REPORTED, escape_name};

/// Why an agent's command is read-only, for a person or a model.
pub const RESTRICTED_GRANT_NOTE: &str =
    "this agent was granted only some files, so its commands run read-only";

/// A shell's exit code for "command not found".
const EXIT_COMMAND_NOT_FOUND: Exit = Exit::Code(127);

/// The restrictions of one command.
#[derive(Clone, Debug, Default)]
pub struct AppliedLimits {
    /// Files and directories that were masked.
    pub hidden: usize,
    /// Directories that could not be renamed because something in them is protected. Each is a bind mount, so `rename` across it fails with `EXDEV`
    /// too.
    pub pinned: usize,
    /// Directories that were masked as a whole because too many paths in them are denied, as shown in answers.
    pub bundled: Vec<String>,
    /// Files that were read-only because they have another hard link elsewhere.
    pub linked: usize,
    /// Whether it was read-only only because its caller has a restricted grant.
    pub read_only: bool,
}

impl AppliedLimits {
    pub(super) fn of(
        command: &CommandSpec<'_>,
        context: &CallContext,
        confined: &[ConfinedMount<'_>],
    ) -> Self {
        let count = |is_meant: fn(&MountOverlay) -> bool| {
            let covers = confined.iter().flat_map(ConfinedMount::overlays);
            covers.filter(|cover| is_meant(cover)).count()
        };
        Self {
            hidden: count(|cover| matches!(cover, MountOverlay::Mask { .. })),
            pinned: count(|cover| matches!(cover, MountOverlay::PinDirectory { .. })),
            bundled: confined
                .iter()
                .flat_map(ConfinedMount::bundled)
                .take(MAX_REPORTED)
                .map(|path| escape_name(&path))
                .collect(),
            linked: confined.iter().map(ConfinedMount::linked_elsewhere).sum(),
            read_only: context.grant.is_some() && command.mounts.iter().any(|mount| mount.writable),
        }
    }

    /// The restrictions that could explain how the command ended.
    pub(super) fn denials(&self, ended: &CommandExit) -> Vec<CommandDenial> {
        let denial = |what, reason: &str, remedy: &str| CommandDenial {
            what,
            target: None,
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        };
        let mut denials = Vec::new();
        if self.read_only && ended.exit != Exit::Code(0) {
            denials.push(denial("write", RESTRICTED_GRANT_NOTE, "change files with the file tools"));
        }
        if self.linked > 0 && ended.exit != Exit::Code(0) {
            let reason = format!(
                "commands can read, and not change, files that have another name outside of the workspace (hard links): {}",
                self.linked
            );
            let remedy = "change them with the file tools, which leave the other name as it is; the operator can set \
                          `sandbox.hard_links: allow`";
            denials.push(denial("write", &reason, remedy));
        }
        if ended.exit == EXIT_COMMAND_NOT_FOUND {
            let remedy = "use one that is there; the operator can show the folder of another with `sandbox.read` and name it in \
                          `sandbox.path`";
            denials.push(denial("program", "it is in no folder of PATH", remedy));
        }
        denials
    }
}
