//! Files that the file tools do not change because other programs execute or read them as configuration.

use toolgate_types::{Deadline, ErrorCode};
use toolgate_workspace::{NoopRecorder, PathStyle, WorkspaceView};

use crate::resolution::LIMITS;
use crate::tree_text::{make, workspace};

#[test]
fn what_git_editors_and_agents_obey_is_read_only() {
    let scratch = tempfile::tempdir().unwrap();
    for line in [
        ".git/config = [core]\\n\\thooksPath = .husky\\n\\tpager = tools/pager.sh\\n[include]\\n\\tpath = ../.shared\\n",
        ".husky/pre-commit",
        ".shared = [core]\\n\\tattributesFile = attrs\\n",
        "in/.git/config = [core]\\n\\thooksPath = ../hk\\n",
        "in/x",
        "bad/.git/config = [core]\\n\\thooksPath = .\\n",
        "tools/x",
    ] {
        make(scratch.path(), line);
    }
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
    let write = |path: &str| {
        let written = view.write(&format!("@project/{path}"), b"x", None, &NoopRecorder);
        written.map(|_| ()).map_err(|error| error.code())
    };
    for path in [
        ".husky/pre-commit",
        ".husky/new",
        ".shared",
        "attrs",
        "tools/pager.sh",
        "bad/pre-commit",
        ".mcp.json",
        ".vscode/tasks.json",
        ".devcontainer/x/y",
        "a/.cargo/config.toml",
    ] {
        assert_eq!(write(path), Err(ErrorCode::ReadOnly), "{path}");
    }
    for path in ["tools/x", "in/x", "bad/notes", "README.md", ".vscode/extensions.json", "shared"] {
        assert_eq!(write(path), Ok(()), "{path}");
    }
}
