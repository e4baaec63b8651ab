//! The post-run scan: files that a command left under names that other programs execute are quarantined.
//!
//! A command can leave more than there is time for. So the most dangerous files go first, and whatever could not be scanned or quarantined is a
//! failure of the call that is reported to the operator, never skipped silently.

use std::time::Duration;

use toolgate_confine::{
    ConfinedMount, ConfinedRun, Leftover, PostRunScan, ProtectedArtifact, ProtectedArtifactKind, Quarantine,
    Quarantined, ScanCoverage,
};
use toolgate_types::{CallId, Deadline, ErrorCode, Failure};
use toolgate_workspace::WorkspaceError;

use crate::command_outcome::{MAX_REPORTED, escape_name};
use crate::confinement::ConfinementState;

/// The timeout of the post-run walk. It is separate from the command's timeout: what is not scanned stays.
const SCAN_TIMEOUT: Duration = Duration::from_secs(120);

/// The timeout for quarantining, once the walk is done.
const QUARANTINE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a mount is walked again when directories move before they are read.
const MAX_WALKS: usize = 4;

/// What a command left.
#[derive(Debug, Default)]
pub(super) struct PostRunLeftovers {
    pub(super) quarantined: Vec<Quarantined>,
    /// Files that stay and are only reported.
    pub(super) leftovers: Vec<Leftover>,
}

/// Quarantines what a command that has ended left under protected names. Everything is tried before a failure is reported; after a failure the old
/// baseline stays, and the next command scans again.
pub(super) fn quarantine_leftovers(
    keeping: &ConfinementState,
    run: &ConfinedRun<'_>,
    call: CallId,
) -> Result<PostRunLeftovers, Failure> {
    run.ended();
    let search = PostRunWalks::of(keeping, run, call);
    for (mount, is_whole) in search.is_whole.iter().enumerate() {
        let looked = match is_whole {
            true => ScanCoverage::Complete,
            false if run.has_concurrent_run(mount) => ScanCoverage::Deferred,
            false => ScanCoverage::Partial,
        };
        run.settle(mount, looked);
    }
    search.into_leftovers()
}

/// The same while the process is running.
pub(super) fn quarantine_while_running(
    keeping: &ConfinementState,
    run: &ConfinedRun<'_>,
    call: CallId,
) -> Result<PostRunLeftovers, Failure> {
    PostRunWalks::of(keeping, run, call).into_leftovers()
}

/// The walks after a command.
#[derive(Default)]
struct PostRunWalks {
    /// Which mounts were scanned completely, with everything found quarantined.
    is_whole: Vec<bool>,
    left: PostRunLeftovers,
    failed: Vec<String>,
}

impl PostRunWalks {
    fn of(keeping: &ConfinementState, run: &ConfinedRun<'_>, call: CallId) -> Self {
        let when = toolgate_types::time::rfc3339_millis(jiff::Timestamp::now());
        let quarantine = Quarantine { directory: &keeping.quarantine, call, when, bounds: keeping.bounds };
        let look = |mount: &&ConfinedMount<'_>, stop: &Deadline| mount.scan_after_run(stop);
        let take =
            |mount: &&ConfinedMount<'_>, stray: &ProtectedArtifact| run.quarantine(mount, stray, &quarantine);
        let mounts: Vec<(&str, &ConfinedMount<'_>)> =
            run.mounts().iter().map(|mount| (mount.alias(), mount)).collect();
        let search = Self::through(&mounts, look, take);
        if !search.left.quarantined.is_empty() {
            // What cannot be removed now is removed by the next retention run; `doctor` reports the quarantine's size.
            let _ = keeping.bounds.apply(&keeping.quarantine);
        }
        search
    }

    /// Walks the mounts, each by its alias, until no directory moves before it is read.
    fn through<Mount>(
        mounts: &[(&str, Mount)],
        mut look: impl FnMut(&Mount, &Deadline) -> Result<PostRunScan, WorkspaceError>,
        mut take: impl FnMut(&Mount, &ProtectedArtifact) -> Result<Option<Quarantined>, WorkspaceError>,
    ) -> Self {
        let mut search = Self { is_whole: vec![false; mounts.len()], ..Self::default() };
        let mut wanted: Vec<usize> = (0..mounts.len()).collect();
        for walk in 1..=MAX_WALKS {
            let (before, stop) = (search.failed.len(), Deadline::after(SCAN_TIMEOUT));
            let mut found = Vec::new();
            let mut again = Vec::new();
            for (index, (alias, mount)) in
                mounts.iter().enumerate().filter(|(index, _)| wanted.contains(index))
            {
                let strays = look(mount, &stop);
                let missed = search.note(index, alias, &strays, walk == MAX_WALKS);
                again.extend(missed.then_some(index));
                let PostRunScan { found: strays, leftovers, .. } = strays.unwrap_or_default();
                found.extend(strays.into_iter().map(|stray| (mount, stray)));
                search.left.leftovers.extend(leftovers);
            }
            let kind = |(_, stray): &(&Mount, ProtectedArtifact)| stray.kind;
            let mut taken =
                quarantine_each(found, kind, &Deadline::after(QUARANTINE_TIMEOUT), |(mount, stray)| {
                    take(mount, &stray)
                });
            search.left.quarantined.append(&mut taken.quarantined);
            search.failed.append(&mut taken.failed);
            if search.failed.len() > before {
                // The next command's baseline must not contain what could not be quarantined.
                search.is_whole.iter_mut().for_each(|is_whole| *is_whole = false);
            }
            wanted = again;
            if wanted.is_empty() {
                break;
            }
        }
        search
    }

    /// Notes whether a mount was scanned completely, and returns whether it needs another walk.
    fn note(
        &mut self,
        index: usize,
        alias: &str,
        strays: &Result<PostRunScan, WorkspaceError>,
        is_last: bool,
    ) -> bool {
        match strays {
            Err(error) => self.failed.push(format!("`{alias}` could not be looked at: {error}")),
            Ok(PostRunScan { incomplete: true, .. }) => {
                self.failed.push(format!("`{alias}` could not all be looked at in time"));
            }
            Ok(PostRunScan { missed: true, .. }) if is_last => {
                self.failed.push(format!("directories of `{alias}` kept moving"));
            }
            Ok(PostRunScan { missed: true, .. }) => return true,
            Ok(_) => self.is_whole.get_mut(index).into_iter().for_each(|is_whole| *is_whole = true),
        }
        false
    }

    fn into_leftovers(mut self) -> Result<PostRunLeftovers, Failure> {
        let leftovers = &mut self.left.leftovers;
        leftovers.sort();
        leftovers.dedup();
        if self.failed.is_empty() { Ok(self.left) } else { Err(failure(&self.failed)) }
    }
}

fn failure(failed: &[String]) -> Failure {
    let more = failed.len().checked_sub(MAX_REPORTED).filter(|more| *more > 0);
    let more = more.map(|more| format!("{more} more"));
    let told: Vec<String> =
        failed.iter().take(MAX_REPORTED).map(|words| escape_name(words)).chain(more).collect();
    Failure::new(ErrorCode::Internal, "what the command left could not all be checked")
        .help("do not use what it made before the operator has looked at it; the next command looks again")
        .operator_note(told.join("; "))
}

/// The outcome of quarantining.
#[derive(Debug, Default)]
struct QuarantineOutcome {
    quarantined: Vec<Quarantined>,
    failed: Vec<String>,
}

/// Quarantines one after the other, the most dangerous first, until the deadline.
fn quarantine_each<Left>(
    mut left: Vec<Left>,
    kind: impl Fn(&Left) -> ProtectedArtifactKind,
    stop: &Deadline,
    mut take: impl FnMut(Left) -> Result<Option<Quarantined>, WorkspaceError>,
) -> QuarantineOutcome {
    left.sort_by_key(|stray| priority(kind(stray)));
    let (mut taken, mut left) = (QuarantineOutcome::default(), left.into_iter());
    while stop.reason().is_none() {
        let Some(stray) = left.next() else { return taken };
        match take(stray) {
            Ok(quarantined) => taken.quarantined.extend(quarantined),
            Err(error) => taken.failed.push(error.to_string()),
        }
    }
    if left.len() > 0 {
        taken.failed.push(format!("{} of what it left could not be taken away in time", left.len()));
    }
    taken
}

/// The order: git executes what its configuration and hooks say as soon as an editor or a shell prompt runs `git status`; the rest needs a user
/// action.
fn priority(kind: ProtectedArtifactKind) -> u8 {
    match kind {
        // Without its `HEAD`, a repository is not one, and its configuration and hooks have no effect.
        ProtectedArtifactKind::GitConfig | ProtectedArtifactKind::Repository => 0,
        ProtectedArtifactKind::Hook => 1,
        ProtectedArtifactKind::GitPointer => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LEFT: [ProtectedArtifactKind; 7] = [
        ProtectedArtifactKind::ProgramConfig,
        ProtectedArtifactKind::GitPointer,
        ProtectedArtifactKind::Link,
        ProtectedArtifactKind::Hook,
        ProtectedArtifactKind::GitConfig,
        ProtectedArtifactKind::Hook,
        ProtectedArtifactKind::Repository,
    ];

    fn quarantined(kind: ProtectedArtifactKind) -> Quarantined {
        Quarantined { path: kind.as_str().to_owned(), kept_as: String::new(), in_place: false }
    }

    fn paths(taken: &QuarantineOutcome) -> Vec<&str> {
        taken.quarantined.iter().map(|quarantined| quarantined.path.as_str()).collect()
    }

    #[test]
    fn what_git_would_run_is_taken_away_first() {
        let taken = quarantine_each(
            LEFT.to_vec(),
            |kind| *kind,
            &Deadline::never(),
            |kind| Ok(Some(quarantined(kind))),
        );
        let order = ["git_config", "repository", "hook", "hook", "git_pointer", "program_config", "link"];
        assert_eq!((paths(&taken), taken.failed.len()), (order.to_vec(), 0));
    }

    #[test]
    fn what_there_was_no_time_for_is_told() {
        let moved = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&moved);
        let stop = Deadline::never().with_signal(move || seen.load(Ordering::Relaxed) == 3);
        let taken = quarantine_each(
            LEFT.to_vec(),
            |kind| *kind,
            &stop,
            |kind| {
                moved.fetch_add(1, Ordering::Relaxed);
                Ok(Some(quarantined(kind)))
            },
        );
        assert_eq!(paths(&taken), ["git_config", "repository", "hook"]);
        assert_eq!(taken.failed, ["4 of what it left could not be taken away in time"]);
        assert_eq!(quarantine_each(Vec::new(), |kind| *kind, &stop, |_| Ok(None)).failed, [""; 0]);
    }

    /// The result of these walks in a mount, beside one where nothing changes.
    fn walked(walks: &[PostRunScan]) -> (usize, PostRunWalks) {
        let mut walks = walks.iter().cloned();
        let mut count = 0;
        let look = |is_quiet: &bool, _: &Deadline| match is_quiet {
            true => Ok(PostRunScan::default()),
            false => {
                count += 1;
                Ok(walks.next().unwrap())
            }
        };
        let search = PostRunWalks::through(&[("@quiet", true), ("@project", false)], look, |_, _| Ok(None));
        (count, search)
    }

    #[test]
    fn a_mount_that_never_rests_is_walked_again_and_then_a_failure() {
        let missed = PostRunScan { missed: true, ..PostRunScan::default() };
        let late = PostRunScan { incomplete: true, ..PostRunScan::default() };
        let (count, search) =
            walked(&[missed.clone(), missed.clone(), missed.clone(), PostRunScan::default()]);
        assert_eq!((count, search.is_whole.as_slice(), search.failed.len()), (4, &[true, true][..], 0));
        assert!(search.into_leftovers().is_ok());
        let (count, search) = walked(&[missed.clone(), missed.clone(), missed.clone(), missed.clone()]);
        assert_eq!((count, search.is_whole.as_slice()), (MAX_WALKS, &[false, false][..]));
        let failure = search.into_leftovers().unwrap_err();
        assert_eq!(failure.message, "what the command left could not all be checked");
        assert_eq!(failure.operator_note.as_deref(), Some("directories of `@project` kept moving"));
        // A walk that times out is not repeated.
        let (count, search) = walked(&[late]);
        assert_eq!((count, search.is_whole.as_slice()), (1, &[false, false][..]));
    }

    #[test]
    fn one_that_cannot_be_taken_does_not_keep_the_others() {
        let broken = |kind| match kind {
            ProtectedArtifactKind::GitConfig => Err(WorkspaceError::ReadOnly { path: "a\u{1b}b".to_owned() }),
            other => Ok(Some(quarantined(other))),
        };
        let taken = quarantine_each(LEFT.to_vec(), |kind| *kind, &Deadline::never(), broken);
        assert_eq!((taken.quarantined.len(), taken.failed.len()), (6, 1));
        let many: Vec<String> = std::iter::repeat_n(taken.failed[0].clone(), 20).collect();
        let note = failure(&many).operator_note.unwrap();
        assert!(note.ends_with("; 12 more") && !note.contains('\u{1b}'), "{note}");
    }
}
