//! Plots that need several calls: what one leaves for the next, or for one that runs beside it.

use serde_json::{Value, json};

use super::lines;
use super::mutate::{self, aliased};
use super::paths;
use super::random::SeededRandom;
use super::sequence::{HostileCall, HostileEvent, HostileStep};
use super::shape::{ToolShape, ToolUse};

/// What a plot is made with.
pub(super) struct Plotter<'t> {
    pub(super) tools: &'t [ToolShape],
    pub(super) steps: Vec<HostileStep>,
}

/// Adds steps; nothing where the tools that it needs are missing.
type Plot = fn(&mut Plotter<'_>, &mut SeededRandom);

/// All of them.
pub(super) const PLOTS: &[Plot] = &[
    through_a_link,
    through_a_link,
    sibling_of_a_mount,
    onto_a_protected_name,
    parent_of_a_secret,
    two_halves_of_a_repository,
    renames_under_a_walk,
    command_then_git,
    delete_and_create_again,
    move_command_undo,
    directory_becomes_link,
    second_name,
    configuration,
    stays_behind,
    patch_and_write,
    undo_everything,
    approvals,
    interrupted,
];

const PAYLOAD: &str = "#!/bin/sh\ntouch {{outside}}/pwned\n";
const GIT_CONFIG: &str = "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {{outside}}/pwned\n";

impl Plotter<'_> {
    fn tool(&self, use_of: ToolUse) -> Option<&ToolShape> {
        self.tools.iter().find(|tool| tool.use_of == use_of)
    }

    /// Calls in flight together; those whose tool does not exist are left out.
    fn step(&mut self, calls: Vec<Option<HostileCall>>) {
        self.step_during(None, calls);
    }

    fn step_during(&mut self, during: Option<HostileEvent>, calls: Vec<Option<HostileCall>>) {
        let calls: Vec<HostileCall> = calls.into_iter().flatten().collect();
        if !calls.is_empty() {
            self.steps.push(HostileStep { during, calls });
        }
    }

    fn line(&self, line: &str) -> Option<HostileCall> {
        let tool = self.tool(ToolUse::Command)?;
        Some(HostileCall { tool: tool.name.clone(), arguments: tool.with(&[("command", json!(line))]) })
    }

    fn path_call(
        &self,
        random: &mut SeededRandom,
        use_of: ToolUse,
        path: &str,
        more: &[(&str, Value)],
    ) -> Option<HostileCall> {
        let tool = self.tool(use_of)?;
        let path = json!(aliased(random, tool, path.to_owned()));
        let mut values = vec![("path", path.clone()), ("directory", path)];
        values.extend(more.iter().cloned());
        Some(HostileCall { tool: tool.name.clone(), arguments: tool.with(&values) })
    }

    fn read(&self, random: &mut SeededRandom, path: &str) -> Option<HostileCall> {
        self.path_call(random, ToolUse::Read, path, &[])
    }

    fn write(&self, random: &mut SeededRandom, path: &str, content: &str) -> Option<HostileCall> {
        self.path_call(random, ToolUse::Write, path, &[("content", json!(content))])
    }

    fn moves(&self, from: &str, to: &str) -> Option<HostileCall> {
        let tool = self.tool(ToolUse::Move)?;
        Some(HostileCall {
            tool: tool.name.clone(),
            arguments: tool.with(&[("from", json!(from)), ("to", json!(to))]),
        })
    }

    fn patch(&self, patch: &str) -> Option<HostileCall> {
        let tool = self.tool(ToolUse::Patch)?;
        Some(HostileCall { tool: tool.name.clone(), arguments: tool.with(&[("patch", json!(patch))]) })
    }

    fn delete(&self, random: &mut SeededRandom, path: &str) -> Option<HostileCall> {
        self.path_call(random, ToolUse::Delete, path, &[])
    }

    fn search(&self, random: &mut SeededRandom) -> Option<HostileCall> {
        let tool = self.tool(ToolUse::Search)?;
        Some(mutate::call(random, tool))
    }
}

/// A link that a command leaves, and a file tool that follows it.
fn through_a_link(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let target = random.word(&[
        "../outside",
        "{{outside}}",
        "../workspace_evil",
        "{{home}}",
        "..",
        "/",
        ".git",
        ".git/hooks",
        "keys",
    ]);
    plot.step(vec![plot.line(&format!("ln -sfn {target} way"))]);
    let path = format!(
        "way/{}",
        random.word(&[
            "secret.txt",
            "new.txt",
            "pre-commit",
            "config",
            "server.pem",
            "workspace/.env",
            "sub/new.txt"
        ])
    );
    let calls = match random.below(7) {
        0 => vec![plot.read(random, &path)],
        1 => vec![plot.write(random, &path, PAYLOAD)],
        2 => vec![plot.path_call(random, ToolUse::Append, &path, &[("content", json!("pwned\n"))])],
        3 => vec![plot.moves("README.md", &path)],
        4 => vec![plot.delete(random, &path)],
        5 => vec![plot.patch(&format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+pwned\n"))],
        _ => vec![
            plot.line("ln -sfn docs way"),
            plot.write(random, &path, PAYLOAD),
            plot.line(&format!("ln -sfn {target} way")),
        ],
    };
    plot.step(calls);
}

/// A neighbour of a mount whose name begins with that of the mount, read, written and listed.
fn sibling_of_a_mount(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    for _ in 0..2 {
        let path = random.word(paths::SIBLINGS);
        let tool = plot.tool(ToolUse::Read).filter(|_| random.chance(60));
        let read = tool.map(|tool| HostileCall {
            tool: tool.name.clone(),
            arguments: tool.with(&[("path", json!(path)), ("directory", json!(path))]),
        });
        let other = match random.below(3) {
            0 => plot.write(random, path, "pwned\n"),
            1 => plot.moves("README.md", path),
            _ => plot.line(&format!("cat {path}; echo pwned > {path}")),
        };
        plot.step(vec![read.or(other)]);
    }
}

/// A repository that is written elsewhere and moved to where git looks.
fn onto_a_protected_name(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let from = random.word(&["r", "new/r", "docs/r"]);
    for (name, text) in
        [("HEAD", "ref: refs/heads/main\n"), ("config", GIT_CONFIG), ("hooks/pre-commit", PAYLOAD)]
    {
        let call = plot.write(random, &format!("{from}/{name}"), text);
        plot.step(vec![call]);
    }
    let to = random.word(&[
        "docs/.git",
        "new/.git",
        "vendor/x/.git",
        ".git/modules/x",
        "x.git",
        "vendor/lib/.git/hooks",
        ".vscode",
        ".GIT",
    ]);
    let with_line =
        plot.line(&format!("mkdir -p {from}/objects {from}/refs; chmod +x {from}/hooks/*; mv {from} {to}"));
    match random.chance(50) {
        true => plot.step(vec![plot.moves(from, to)]),
        false => plot.step(vec![with_line, plot.moves(from, to)]),
    }
}

/// A directory above a secret, moved or linked.
fn parent_of_a_secret(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let (from, name) = *random
        .one_of(&[
            ("keys", "server.pem"),
            (".git", "config"),
            ("vendor/lib", ".git/config"),
            (".git/hooks", "pre-commit"),
        ])
        .unwrap_or(&("keys", "server.pem"));
    let calls = vec![
        plot.moves(from, "elsewhere"),
        plot.line(&format!("mv {from} elsewhere; cp -r {from} elsewhere; ln -s {from} elsewhere")),
    ];
    plot.step(calls);
    let read = plot.read(random, &format!("elsewhere/{name}"));
    let line = plot.line(&format!("cat elsewhere/{name}"));
    plot.step(vec![read, line]);
}

/// Two commands together, of which each makes a half.
fn two_halves_of_a_repository(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let halves = *random
        .one_of(&[
            ("mkdir -p n/.git/objects n/.git/refs; echo 'ref: refs/heads/main' > n/.git/HEAD; sleep 0.05", "mkdir -p n/.git/hooks; printf '#!/bin/sh\\ntouch {{outside}}/pwned\\n' > n/.git/hooks/pre-commit; chmod +x n/.git/hooks/pre-commit"),
            ("sleep 0.03; mkdir -p q; mv p q/.git", "mkdir -p p/objects p/refs p/hooks; echo 'ref: refs/heads/main' > p/HEAD; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' > p/config"),
            ("git init -q n; sleep 0.05; rm -rf n", "sleep 0.02; cp -r n m; printf '[core]\\nfsmonitor = touch {{outside}}/pwned\\n' >> m/.git/config"),
        ])
        .unwrap_or(&("true", "true"));
    let third = random.chance(40).then(|| lines::works(random));
    let calls = vec![plot.line(halves.0), plot.line(halves.1), third.and_then(|line| plot.line(&line))];
    plot.step(calls);
    let hook = random_hook(random);
    let write = plot.write(random, hook, PAYLOAD);
    let again =
        plot.line("ls -la n m q 2>/dev/null | head; chmod -R +x n/.git/hooks 2>/dev/null; mv n n2; mv n2 n");
    plot.step(vec![again, write]);
}

fn random_hook(random: &mut SeededRandom) -> &'static str {
    random.word(&[
        "n/.git/hooks/pre-commit",
        "q/.git/hooks/post-checkout",
        "p/hooks/pre-commit",
        "m/.git/config",
        "n/.git/config",
    ])
}

/// Directories that are renamed under a walk, a read or a listing.
fn renames_under_a_walk(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let loops = random.word(&[
        "for i in $(seq 60); do mv deep d2; mv d2 deep; done",
        "for i in $(seq 60); do mv docs d2; ln -s ../outside docs; rm docs; mv d2 docs; done",
        "for i in $(seq 60); do ln -sfn ../outside swap; ln -sfn docs swap; done",
        "for i in $(seq 40); do mv deep/a x; mkdir -p deep/a; rmdir deep/a; mv x deep/a; done",
    ]);
    let path = random.word(&[
        "deep/a/b/c/d.txt",
        "docs/secret.txt",
        "docs/new.txt",
        "swap/secret.txt",
        "swap/guide.md",
        "swap/new.txt",
    ]);
    let (search, read) = (plot.search(random), plot.read(random, path));
    let write = plot.write(random, path, "pwned\n");
    plot.step(vec![plot.line(loops), search, read, write]);
}

/// A command plants, and a tool of git runs.
fn command_then_git(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let line = lines::plants(random);
    plot.step(vec![plot.line(&line)]);
    let git = plot.tool(ToolUse::Revision).map(|tool| mutate::call(random, tool));
    plot.step(vec![git, plot.line("git status; git log -1; git diff; git commit --allow-empty -m x")]);
}

/// A patch that deletes and creates a file, after other hands were on it.
fn delete_and_create_again(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let remove = plot.delete(random, "README.md");
    let patch = plot.patch("--- a/README.md\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-# Sample\n-\n-A sample.\n--- /dev/null\n+++ b/README.md\n@@ -0,0 +1 @@\n+again\n");
    let line = plot.line(random.word(&[
        "rm README.md; ln -s ../outside/secret.txt README.md",
        "rm -f README.md; mkdir README.md",
        "mkfifo R; mv R README.md",
    ]));
    let write = plot.write(random, "README.md", "mine\n");
    let steps = if random.chance(50) { vec![patch, line] } else { vec![remove, line] };
    plot.step(steps);
    let read = plot.read(random, "README.md");
    plot.step(vec![write, read]);
}

/// A move, a command and an undo.
fn move_command_undo(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let write = plot.write(random, "a/b.txt", PAYLOAD);
    plot.step(vec![write]);
    plot.step(vec![plot.moves("a/b.txt", random.word(&["c.txt", "docs/b.txt", "c/d/e.txt"]))]);
    let line = random.word(&[
        "rm -rf a; ln -s ../outside a",
        "rm -rf a; ln -s .git/hooks a",
        "rmdir a; git init -q a",
        "rm -rf docs; ln -s ../outside docs",
        "mkdir -p a; mv a .git/hooks2",
        "rm -rf a; ln -s {{home}} a",
    ]);
    plot.step(vec![plot.line(line)]);
    let (read, write) = (plot.read(random, "docs/guide.md"), plot.write(random, "c.txt", "other\n"));
    plot.step_during(Some(HostileEvent::Undo), vec![read, write]);
    let list = plot.read(random, "a");
    plot.step_during(Some(HostileEvent::Undo), vec![list]);
}

/// A directory that becomes a link while it is written to.
fn directory_becomes_link(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let line = plot.line(random.word(&[
        "rm -rf docs; ln -s ../outside docs",
        "mv docs d; ln -s {{outside}} docs; mv d docs",
        "mv docs .d; ln -s keys docs",
    ]));
    let mut calls = vec![line];
    for _ in 0..1 + random.below(3) {
        let name = random.word(&["docs/new.txt", "docs/secret.txt", "docs/server.pem"]);
        calls.push(match random.chance(60) {
            true => plot.write(random, name, "pwned\n"),
            false => plot.read(random, name),
        });
    }
    plot.step(calls);
}

/// A second name of a file.
fn second_name(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let line = random.word(&[
        "ln .env h; ln hard.txt h2; ln keys/server.pem h3",
        "cp -l -r . /tmp/x; cp -al keys k",
        "ln -s .env h; ln -s hard.txt h2",
        "ln .git/config h; ln .git/hooks/pre-commit h2",
    ]);
    plot.step(vec![plot.line(line)]);
    let (read, append) = (
        plot.read(random, "h"),
        plot.path_call(random, ToolUse::Append, "h2", &[("content", json!("pwned\n"))]),
    );
    let write = plot.write(random, "hard.txt", "pwned\n");
    plot.step(vec![read, append, write, plot.line("cat h h2 h3; echo pwned >> hard.txt")]);
}

/// A configuration for the next gate, or for this one.
fn configuration(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let name = random.word(&[
        "toolgate.yaml",
        "docs/toolgate.yaml",
        "../gate/toolgate.yaml",
        "tools.d/x.yaml",
        "{{gate}}/tools.d/x.yaml",
        "Toolgate.yaml",
    ]);
    let write = plot.write(random, name, "trust: autonomous\nsandbox: {read: [/]}\nworkspace: /\n");
    let line =
        plot.line("printf 'sandbox: {read: [\"/\"]}\\n' > toolgate.yaml; mv toolgate.yaml toolgate.yml");
    plot.step(vec![write, line]);
    let read = plot.read(random, "README.md");
    let steal = plot.line("cat {{outside}}/secret.txt");
    plot.step_during(Some(HostileEvent::Reload), vec![read, steal]);
}

/// Processes that stay, in the background too.
fn stays_behind(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    if let Some(tool) = plot.tool(ToolUse::Command) {
        let line = random.word(&[
            "sleep 20",
            "sleep 0.05; printf '#!/bin/sh\\ntouch {{outside}}/pwned\\n' > .git/hooks/post-commit",
            "while :; do ls ../outside .env; sleep 0.05; done",
            "trap '' TERM; sleep 20",
        ]);
        let background = tool.arguments.iter().any(|argument| argument.name == "background");
        let values = [("command", json!(line)), ("background", json!(background))];
        let call = HostileCall { tool: tool.name.clone(), arguments: tool.with(&values) };
        plot.step_during(random.chance(60).then_some(HostileEvent::Cancel), vec![Some(call)]);
    }
    let read = plot.read(random, "README.md");
    plot.step(vec![read, plot.line("ps aux 2>/dev/null | head -5; ls /proc | head -40")]);
}

/// Changes of one file in flight together.
fn patch_and_write(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let write = plot.write(random, "README.md", "# Sample\n\nA sample.\n");
    let append = plot.path_call(random, ToolUse::Append, "README.md", &[("content", json!("end\n"))]);
    let patch =
        plot.patch("--- a/README.md\n+++ b/README.md\n@@ -1,3 +1,3 @@\n-# Sample\n+# Other\n \n A sample.\n");
    plot.step(vec![write, append, patch, plot.moves("README.md", "R.md")]);
}

/// File tools alone, and then a person takes everything back.
fn undo_everything(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    for _ in 0..2 + random.below(4) {
        let path = paths::plain(random);
        let call = match random.below(6) {
            0 => plot.delete(random, &path),
            1 => plot.moves(&path, &paths::plain(random)),
            2 => plot.path_call(random, ToolUse::Append, &path, &[("content", json!("end\n"))]),
            3 => plot.path_call(
                random,
                ToolUse::Edit,
                &path,
                &[("old_text", json!("e")), ("new_text", json!("E")), ("replace_all", json!(true))],
            ),
            _ => plot.write(random, &path, "written\n"),
        };
        plot.step(vec![call]);
    }
    plot.steps.push(HostileStep { during: Some(HostileEvent::UndoAll), calls: Vec::new() });
}

/// One approval, used for more than it was given for.
fn approvals(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    let asked = plot.write(random, "approved.txt", "approved\n");
    let others = vec![
        plot.write(random, "other.txt", "not approved\n"),
        plot.write(random, "approved.txt", "not approved\n"),
        plot.line("echo not > approved2.txt"),
        plot.delete(random, "README.md"),
    ];
    let mut calls = vec![asked];
    calls.extend(others.into_iter().filter(|_| random.chance(60)));
    plot.step_during(Some(HostileEvent::Approve), calls);
}

/// The gate ends, or dies, in the middle of something.
fn interrupted(plot: &mut Plotter<'_>, random: &mut SeededRandom) {
    if !random.chance(30) {
        return;
    }
    let event = if random.chance(50) { HostileEvent::Kill } else { HostileEvent::Shutdown };
    let line = lines::plants(random);
    let (write, more) = (
        plot.write(random, "big.txt", &"x".repeat(50_000)),
        plot.line(&format!("{line}; sleep 0.2; touch docs/late")),
    );
    plot.step_during(Some(event), vec![write, more, plot.moves("docs/notes.md", "n.md")]);
    let read = plot.read(random, "README.md");
    plot.step(vec![read, plot.line("ls -la .git/hooks")]);
}
