//! What a command cannot see or change: denied files, also while they move, the gate's secrets, read-only mounts.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use toolgate_attack::{Scratch, code_of};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::ErrorCode;

use super::{Desk, git, native, structured};
use crate::fixture::write;

#[test]
fn denied_files_are_not_there_for_commands() {
    let desk = Desk::new(Profile::NATIVE);
    const SECRET: &str = "nobody-reads-this";
    for name in [".env", "deep/er/.env.local", "key.pem", ".ssh/id_ed25519", ".git/config"] {
        desk.write(name, SECRET);
    }
    desk.write("plain.txt", "plain\n");
    symlink(".env", desk.workspace.join("link")).unwrap();
    for line in [
        "cat .env deep/er/.env.local key.pem .ssh/id_ed25519 .git/config link",
        "grep -ra nobody . ; grep -ra nobody /work",
        "cp -a . /tmp/copy; grep -ra nobody /tmp/copy",
        "mv deep moved; cat moved/er/.env.local",
        "mv .env visible; cat visible",
        "ln .env hard; cat hard",
        "cat /proc/1/root/mnt/project/.env /proc/self/cwd/.env",
        "tar c . | cat -v",
    ] {
        let called = desk.run(line);
        assert!(!called.answer.text.contains(SECRET), "{line}: {}", called.answer.text);
        let (_, answer) = native(&called);
        assert!(answer["hidden_files"].as_u64().unwrap() >= 4, "{line}: {answer}");
        assert_eq!(std::fs::read_to_string(desk.workspace.join(".env")).unwrap(), SECRET, "{line}");
        assert_eq!(
            std::fs::read_to_string(desk.workspace.join("deep/er/.env.local")).unwrap(),
            SECRET,
            "{line}"
        );
    }
    assert_eq!(native(&desk.run("cat plain.txt")).0, "plain\n");
}

const MOVED_SECRET: &str = "nobody-reads-this";

/// How many of some commands ran while files kept moving; the others were refused, and none saw a secret.
fn ran_while_moving(moves: &'static [(&'static str, &'static str)], command: &str, times: usize) -> usize {
    let desk = Desk::new(Profile::NATIVE);
    desk.write("a/.env", MOVED_SECRET);
    desk.write("a/deep/.env", MOVED_SECRET);
    desk.write("one/key.pem", MOVED_SECRET);
    let (places, done) = (desk.workspace.clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&done);
    let mover = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            for (from, to) in moves {
                std::fs::rename(places.join(from), places.join(to)).unwrap();
                std::thread::yield_now();
            }
        }
    });
    let calls: Vec<CallResponse> = (0..times).map(|_| desk.run(command)).collect();
    done.store(true, Ordering::Relaxed);
    mover.join().unwrap();
    for called in &calls {
        assert!(!called.answer.text.contains(MOVED_SECRET), "{}", called.answer.text);
        assert!(
            code_of(called).is_none_or(|code| code == ErrorCode::PreconditionFailed),
            "{}",
            called.answer.text
        );
    }
    // Once nothing moves any more, commands run.
    let calm = desk.run(command);
    assert!(code_of(&calm).is_none() && !calm.answer.text.contains(MOVED_SECRET), "{}", calm.answer.text);
    calls.iter().filter(|called| code_of(called).is_none()).count()
}

#[test]
fn files_that_keep_moving_are_never_seen() {
    let moves = &[
        ("a/.env", "a/.env.old"),
        ("one/key.pem", "one/other.pem"),
        ("a/.env.old", "a/.env"),
        ("one/other.pem", "one/key.pem"),
    ];
    let ran = ran_while_moving(moves, "grep -rs nobody . ; cat a/.env a/.env.old one/*; true", 150);
    println!("{ran} of 150 commands ran while files moved");
}

#[test]
fn folders_that_keep_moving_take_no_secret_along() {
    let moves = &[
        ("a", "b"),
        ("one/key.pem", "one/other.pem"),
        ("b/deep", "b/er"),
        ("b/er", "b/deep"),
        ("b", "a"),
        ("one/other.pem", "one/key.pem"),
    ];
    let command = "grep -rs nobody . ; cat a/deep/.env b/deep/.env b/er/.env a/.env b/.env one/*; true";
    let ran = ran_while_moving(moves, command, 150);
    println!("{ran} of 150 commands ran while folders moved");
}

#[test]
fn hidden_files_do_not_keep_a_search_from_its_answer() {
    let desk = Desk::new(Profile::PROXY);
    desk.write("a.txt", "needle\n");
    for name in [".env", ".ssh/id_rsa", "deep/key.pem"] {
        desk.write(name, "needle secret\n");
    }
    let answer = structured(&desk.bench.must("search_code", json!({"pattern": "needle"})));
    assert_eq!(answer["data"], json!(["a.txt:1:needle"]));
    desk.bench.must("list_files", json!({}));
    let called = desk.bench.call("read_file", json!({"path": ".env"}));
    assert_eq!(code_of(&called), Some(ErrorCode::DeniedPath));
}

#[test]
fn a_history_shows_no_more_than_the_workspace() {
    let desk = Desk::new(Profile::PROXY);
    git(&desk.workspace, &["init", "-q"]);
    git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
    for name in [
        ".env",
        "a/.ENV.local",
        ".env~",
        "id_rsa.bak",
        "deep/er/key.pem.orig",
        "key.pem.old",
        ".ssh/known_hosts",
        "a/.kube/cache/x",
        "odd.key/inner.txt",
        "credentials.json~",
    ] {
        desk.write(name, "nobody-reads-this\n");
    }
    let shown = ["plain.txt", "credentials.go", "credentials/google.go", "monkey.rs", "keys.bak"];
    for name in shown {
        desk.write(name, "everybody reads this\n");
    }
    git(&desk.workspace, &["add", "-A", "-f"]);
    git(&desk.workspace, &["commit", "-q", "-m", "second"]);
    for stat in [false, true] {
        let called = desk.bench.must("git_diff", json!({"from": "HEAD~1", "to": "HEAD", "stat": stat}));
        let text = called.answer.text;
        for name in shown {
            assert!(text.contains(name), "{name}: {text}");
        }
        for hidden in ["nobody-reads-this", ".env", "id_rsa", "pem", ".ssh", ".kube", "odd.key", ".json"] {
            assert!(!text.to_lowercase().contains(hidden), "{hidden}: {text}");
        }
    }
}

/// What the operator denies, and what is outside a scope, is no more visible in the history than in the files.
#[test]
fn a_history_shows_nothing_that_the_operator_denies() {
    let deny = ["internal/**", "*.Draft", "{plans,Pläne}/[qQ]*", "notes/secret.md"];
    let denied = format!("deny: {}", json!(deny));
    let scope = ["src/**", "*.md", "docs/{a,b}.txt", ".git/**"];
    let scoped = format!("mounts: {{\"@scoped\": {{path: ., access: rw, scope: {}}}}}", json!(scope));
    let hidden_from_deny: &[&str] = &[
        "internal/a",
        "INTERNAL/b",
        "x/y.DRAFT",
        "plans/q1",
        "Pläne/Q2",
        "notes/secret.md",
        "notes/SECRET.md",
    ];
    let hidden_from_scope: &[&str] = &["docs/c.txt", "docs/a.txt/below", "other/x.md", "top.txt", "src.txt"];
    for (rules, alias, hidden, shown) in [
        (
            denied,
            "@project",
            hidden_from_deny,
            &["internals/a", "plans/z", "notes/open.md", "src/main.rs"][..],
        ),
        (scoped, "@scoped", hidden_from_scope, &["src/main.rs", "src/deep/x", "readme.md", "docs/b.txt"]),
    ] {
        let desk = Desk::with(Profile::PROXY, |options| options.config(&rules).commands_in(alias));
        git(&desk.workspace, &["init", "-q"]);
        git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
        for name in hidden {
            desk.write(name, "nobody-reads-this\n");
        }
        for name in shown {
            desk.write(name, &format!("everybody reads {name}\n"));
        }
        git(&desk.workspace, &["add", "-A", "-f"]);
        git(&desk.workspace, &["commit", "-q", "-m", "second"]);
        // A file that was renamed from a denied name reveals nothing of it.
        git(&desk.workspace, &["mv", hidden[0], "moved.bin"]);
        git(&desk.workspace, &["commit", "-q", "-m", "third"]);
        for (from, to) in [("HEAD~2", "HEAD~1"), ("HEAD~1", "HEAD~2")] {
            for stat in [false, true] {
                let called = desk.bench.must("git_diff", json!({"from": from, "to": to, "stat": stat}));
                let text = called.answer.text;
                for name in shown {
                    assert!(text.contains(name), "{name}: {text}");
                }
                for name in hidden.iter().filter(|name| name.is_ascii()) {
                    assert!(
                        !text.contains(&format!("{name} ")) && !text.contains("nobody-reads"),
                        "{name}: {text}"
                    );
                }
            }
        }
        let called = desk.bench.must("git_diff", json!({"from": "HEAD~1", "to": "HEAD"}));
        assert!(!called.answer.text.contains(hidden[0]), "{}", called.answer.text);
        for name in hidden {
            for spelt in [format!("./{name}"), (*name).to_owned(), name.to_uppercase()] {
                let called = desk.bench.call("git_show_file", json!({"revision": "HEAD~1", "path": spelt}));
                assert!(!called.answer.text.contains("nobody-reads"), "{spelt}: {}", called.answer.text);
            }
        }
    }
}

#[test]
fn no_host_path_and_no_secret_of_the_gate_reaches_a_command() {
    let desk = Desk::new(Profile::NATIVE);
    let (text, _) = native(&desk.run("pwd; env; ls -la / /work /proc/self/fd /proc/self/cwd; cat /proc/1/environ /proc/1/cmdline | tr '\\0' '\\n'"));
    let host = desk.scratch.path().to_str().unwrap();
    assert!(!text.contains(host), "{text}");
    assert!(!text.contains("CARGO_PKG"), "{text}");
}

#[test]
fn what_is_mounted_read_only_stays_as_it_is() {
    let scratch = Scratch::new();
    let package = scratch.folder("p");
    write(&package.join("a.txt"), "as it was\n");
    let desk = Desk::with(Profile::NATIVE, |options| options.package(&package));
    let (text, _) = native(
        &desk.run("cat /mnt/pkg/a.txt; echo x > /mnt/pkg/a.txt; rm -f /mnt/pkg/a.txt; touch /mnt/pkg/b"),
    );
    assert!(text.starts_with("as it was\n") && text.contains("Read-only"), "{text}");
    assert_eq!(std::fs::read_dir(&package).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(package.join("a.txt")).unwrap(), "as it was\n");
}

#[test]
fn thousands_of_denied_files_stop_no_command_and_are_not_seen() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write("keep/key.pem", MOVED_SECRET);
    native(&desk.run("mkdir keys && cd keys && seq 1 10001 | sed s/$/.pem/ | xargs touch && echo made"));
    desk.write("keys/1.pem", MOVED_SECRET);
    let (text, answer) =
        native(&desk.run(
            "cat keys/*.pem keep/key.pem 2>&1 | grep -c nobody; mv keys moved; echo x > here && cat here",
        ));
    assert!(text.contains("\nx\n") && !text.contains(MOVED_SECRET), "{text}");
    assert!(text.starts_with("0\n"), "{text}");
    assert_eq!(answer["hidden_folders"], json!(["@project/keys"]), "{answer}");
    assert!(text.contains("[hidden_folders: `@project/keys` holds so many protected files"), "{text}");
    assert!(desk.workspace.join("keys/1.pem").exists());
}
