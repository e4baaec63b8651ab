//! Hostile paths: a place that matters, written in a way that may pass for another.

use super::random::SeededRandom;

/// Files and directories that may be touched.
pub(super) const INSIDE: &[&str] = &[
    "README.md",
    "src/main.rs",
    "src/lib.rs",
    "docs/guide.md",
    "docs/notes.md",
    "docs",
    "src",
    "tests",
    "data/big.txt",
    "data/bin.dat",
    "deep/a/b/c/d.txt",
    "deep/a",
    "new.txt",
    "new/dir/file.txt",
    "link_in",
    "link_dir/guide.md",
    "hard.txt",
    "vendor/lib/lib.c",
    ".",
];

/// What a rule keeps from everybody, or from being changed.
pub(super) const DENIED: &[&str] = &[
    ".env",
    ".env.production",
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/hooks/post-checkout",
    ".git/hooks",
    "keys/server.pem",
    ".npmrc",
    "vendor/lib/.git/config",
    "vendor/lib/.git/hooks/pre-commit",
    ".git/config.worktree",
    ".git/info/attributes",
    ".git/HEAD",
    ".git/commondir",
    ".git/modules/x/config",
    "toolgate.yaml",
    ".envrc",
    ".vscode/tasks.json",
    ".mcp.json",
    ".git/rebase-merge/git-rebase-todo",
    ".git",
    "vendor/lib/.git",
    "keys",
    "fifo",
    "daemon.sock",
];

/// What lies outside, and ways that seem to lead there.
pub(super) const OUTSIDE: &[&str] = &[
    "../outside/secret.txt",
    "{{outside}}/secret.txt",
    "{{outside}}/new.txt",
    "../workspace_evil/secret.txt",
    "{{workspace}}_evil/secret.txt",
    "{{home}}/.ssh/id_ed25519",
    "{{home}}/.bashrc",
    "~/.ssh/id_ed25519",
    "$HOME/.bashrc",
    "/etc/passwd",
    "/etc/shadow",
    "{{state}}/keys/audit.key",
    "../gate/toolgate.yaml",
    "{{gate}}/toolgate.yaml",
    "../state/keys/audit.key",
    "link_out/secret.txt",
    "link_out/new.txt",
    "link_abs",
    "link_out",
    "loop",
    "loop/x",
    "dangling",
    "/proc/self/environ",
    "/proc/self/root{{outside}}/secret.txt",
    "/proc/self/cwd/../outside/secret.txt",
    "/proc/self/fd/0",
    "/dev/stdin",
    "/dev/tcp/{{canary}}",
    "{{workspace}}/../outside/secret.txt",
    "{{workspace}}/.env",
    "/mnt/project/.env",
    "@state/logs/execution.jsonl",
    "@pkg/../x",
    "@nowhere/x",
    "@project/../outside/secret.txt",
    "file://{{outside}}/secret.txt",
    "\\\\server\\share",
    "C:\\Windows",
    "..\\outside\\secret.txt",
    "",
    " ",
    "..",
    "../",
    "/",
    "//",
    "../workspace/../outside/secret.txt",
];

/// Neighbours of mounts whose names begin with that of a mount (CVE-2025-53110).
pub(super) const SIBLINGS: &[&str] = &[
    "{{workspace}}_evil/secret.txt",
    "{{workspace}}_evil/new.txt",
    "{{workspace}}_evil",
    "{{workspace}}.old/secret.txt",
    "{{workspace}}2/secret.txt",
    "{{workspace}}2/new.txt",
    "../workspace_evil/secret.txt",
    "../workspace_evil/new.txt",
    "../workspace2/secret.txt",
    "{{workspace}}/../workspace_evil/secret.txt",
    "{{state}}_evil/secret.txt",
    "/mnt/project_evil/secret.txt",
    "/mnt/project/../project_evil/secret.txt",
    "@project_evil/secret.txt",
    "@project/../workspace_evil/secret.txt",
    "@pkg_evil/secret.txt",
    "@state_evil/secret.txt",
];

/// A path that may be anything.
pub(super) fn any(random: &mut SeededRandom) -> String {
    let kind = random.below(100);
    let place = match kind {
        0..=41 => random.word(INSIDE),
        42..=65 => random.word(DENIED),
        66..=71 => return random.word(SIBLINGS).to_owned(),
        _ => random.word(OUTSIDE),
    };
    let mut path = place.to_owned();
    for _ in 0..[0, 0, 1, 1, 2, 3].get(random.below(6)).copied().unwrap_or_default() {
        path = disguised(random, &path);
    }
    path
}

/// The path of an ordinary file, as honest work names it.
pub(super) fn plain(random: &mut SeededRandom) -> String {
    let names = [
        "README.md",
        "src/main.rs",
        "src/lib.rs",
        "docs/guide.md",
        "docs/notes.md",
        "notes/a.txt",
        "notes/b.txt",
        "out.txt",
        "deep/a/b/c/d.txt",
    ];
    random.word(&names).to_owned()
}

/// The same place, or one that looks like it, written differently.
pub(super) fn disguised(random: &mut SeededRandom, path: &str) -> String {
    let depth = "../".repeat(1 + random.below(12));
    match random.below(32) {
        0 => format!("./{path}"),
        1 => path.replace('/', "//"),
        2 => format!("src/../{path}"),
        3 => format!("{path}/"),
        4 => format!("{path}/."),
        5 => path.to_uppercase(),
        6 => path.replace('.', "%2e"),
        7 => path.replace('/', "%2f"),
        8 => path.replace('/', "\\"),
        9 => format!("{path}\u{0}.txt"),
        10 => format!("{path}\n"),
        11 => format!("{depth}{path}"),
        12 => format!("@project/{path}"),
        13 => format!("/mnt/project/{path}"),
        14 => format!("{{{{workspace}}}}/{path}"),
        15 => path.replace('.', "\u{ff0e}"),
        16 => path.replace('/', "\u{2215}"),
        17 => path.replace('e', "\u{435}"),
        18 => path.replacen('g', "g\u{200c}", 1),
        19 => format!("{path}."),
        20 => format!("{path} "),
        21 => format!("{path}::$DATA"),
        22 => format!("-{path}"),
        23 => format!("--output={path}"),
        24 => format!("deep/a/b/../../../{path}"),
        25 => format!("nowhere/../{path}"),
        26 => format!("link_dir/../{path}"),
        27 => format!("link_out/../workspace/{path}"),
        28 => format!("{path}{}", "/.".repeat(random.below(2000))),
        29 => format!("{}{path}", "a/".repeat(random.below(300))),
        30 => path.replace('i', "\u{131}"),
        _ => format!("{path}/../{path}"),
    }
}
