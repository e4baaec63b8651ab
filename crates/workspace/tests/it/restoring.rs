//! Restoring files.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use toolgate_types::Deadline;
use toolgate_workspace::{ExpectedContent, LockTimeout, NoopRecorder, PathStyle, Restoration, WorkspaceView};

use crate::resolution::LIMITS;
use crate::tree_text::workspace;

/// A process that is being forked briefly holds every descriptor of its parent, locked or not.
#[test]
fn a_folder_is_free_at_once_whatever_is_being_started() {
    const CHANGES: usize = 2000;
    let scratch = tempfile::tempdir().unwrap();
    let (workspace, stop) = (workspace(scratch.path()), Deadline::never());
    let style = PathStyle::AliasOnly;
    let view = WorkspaceView {
        workspace: &workspace,
        style,
        limits: &LIMITS,
        grant: None,
        stop: &stop,
        unlocked: None,
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                Command::new("true").status().unwrap();
            }
        });
        let results: Vec<_> = (0..CHANGES)
            .map(|_| {
                std::fs::write(scratch.path().join("x"), "x").unwrap();
                let gone =
                    Restoration::Absence { path: "@project/x".to_owned(), expect: ExpectedContent::Anything };
                view.restore(&[gone], LockTimeout::Brief, &NoopRecorder)
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        let refused = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(refused, 0, "of {CHANGES}: {:?}", results.into_iter().find(Result::is_err));
    });
}
