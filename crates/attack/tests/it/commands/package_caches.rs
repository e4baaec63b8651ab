//! Package caches: kept for one workspace and one caller, and what a command leaves there for others.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_tools::Profile;
use toolgate_types::Caller;

use super::{Desk, native};

/// What a command leaves in every cache that it can write to.
const PLANT: &str = "for place in $npm_config_cache $PIP_CACHE_DIR $GOMODCACHE ~/.cargo/registry ~/.cargo/git; do \
                     mkdir -p $place && echo planted > $place/it || exit 1; done";
const LOOK: &str =
    "cat $npm_config_cache/it $PIP_CACHE_DIR/it $GOMODCACHE/it ~/.cargo/registry/it ~/.cargo/git/it";

fn bench(scratch: &Scratch, workspace: &str) -> Bench {
    let (workspace, state) = (scratch.folder(workspace), scratch.folder("s"));
    BenchOptions::new(Profile::NATIVE, &workspace, &state).commands().open()
}

fn run(bench: &Bench, caller: Caller, line: &str) -> String {
    bench.call_as(caller, "run_command", json!({"command": line})).answer.text
}

fn agent(name: &str) -> Caller {
    Caller { agent: Some(name.parse().unwrap()), ..person("s1") }
}

/// The caches in a state directory.
fn caches(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join("caches.toolgate")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.join("owner.json").exists()).collect()
}

/// Makes the gate look at the size of a cache again.
fn expire(cache: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::open(cache.join("size")).unwrap().set_modified(hour_ago).unwrap();
}

#[test]
fn what_was_downloaded_is_there_for_later_commands_of_the_same_caller_and_workspace() {
    let scratch = Scratch::new();
    let first = bench(&scratch, "w");
    assert_eq!(run(&first, person("s1"), PLANT), "exit code 0\n");
    let planted = "planted\n".repeat(5);
    assert_eq!(run(&first, person("s2"), LOOK), planted, "another session of the same person");
    drop(first);
    assert_eq!(run(&bench(&scratch, "w"), person("s1"), LOOK), planted, "a later gate");
    for (other, caller) in [("w", agent("worker")), ("v", person("s1")), ("v", agent("worker"))] {
        let text = run(&bench(&scratch, other), caller, &format!("{LOOK}; find /.toolgate/cache -name it"));
        assert!(!text.contains("planted") && !text.contains("/it\n"), "{other}: {text}");
    }
    let mut caller = person("s1");
    caller.subject = "somebody".to_owned();
    assert!(!run(&bench(&scratch, "w"), caller, LOOK).contains("planted"));
    // A directory that takes the place of the workspace begins anew.
    let workspace = scratch.folder("w");
    std::fs::rename(&workspace, workspace.with_extension("old")).unwrap();
    assert!(!run(&bench(&scratch, "w"), person("s1"), LOOK).contains("planted"));
}

/// Maven and bundler have no variable that is just their directory.
#[test]
fn maven_and_bundler_are_told_where_their_downloads_stay() {
    let desk = Desk::new(Profile::NATIVE);
    let keep = "set -e; repository=${MAVEN_ARGS#-Dmaven.repo.local=}; mkdir -p $repository $BUNDLE_USER_CACHE; \
                [ $BUNDLE_GLOBAL_GEM_CACHE = true ]; echo jar > $repository/a.jar; echo gem > $BUNDLE_USER_CACHE/b.gem";
    native(&desk.run(keep));
    let (text, _) = native(&desk.run("cat ${MAVEN_ARGS#-Dmaven.repo.local=}/a.jar $BUNDLE_USER_CACHE/b.gem"));
    assert_eq!(text, "jar\ngem\n");
}

/// Configuration would decide what later commands run; it is gone with the command.
#[test]
fn a_command_leaves_no_configuration_for_the_next() {
    let desk = Desk::new(Profile::NATIVE);
    desk.run(
        "mkdir -p ~/.config/pip ~/.cargo/bin; echo '[build]' | tee ~/.cargo/config.toml ~/.cargo/credentials.toml ~/.npmrc \
         ~/.config/pip/pip.conf ~/.cargo/bin/cargo; ln -sfn /mnt/project ~/.cargo/registry",
    );
    let (text, _) = native(&desk.run("find /tmp -mindepth 1 | sort; readlink ~/.cargo/registry"));
    assert_eq!(
        text,
        "/tmp/.shm\n/tmp/home\n/tmp/home/.cargo\n/tmp/home/.cargo/.package-cache\n/tmp/home/.cargo/git\n\
         /tmp/home/.cargo/registry\n/.toolgate/cache/cargo/registry\n"
    );
}

/// A link that a command leaves in the workspace leads a program outside of the sandbox nowhere, and the cache is no cache of the person.
#[test]
fn the_cache_is_at_no_path_that_exists_outside() {
    let home = tempfile::Builder::new().prefix("toolgate-home-").tempdir_in("/var/tmp").unwrap();
    for own in [".cargo/registry", ".npm", ".cache/pip"] {
        crate::fixture::write(&home.path().join(own).join("it"), "of the person");
    }
    let desk = Desk::with(Profile::NATIVE, |options| options.home(home.path()));
    let planted =
        desk.run(&format!("{PLANT}; ln -s $npm_config_cache link; echo 'echo x' > $npm_config_cache/run.sh"));
    assert!(planted.failed.is_none(), "{}", planted.answer.text);
    assert!(std::fs::metadata(desk.workspace.join("link")).is_err());
    for own in [".cargo/registry", ".npm", ".cache/pip"] {
        assert_eq!(std::fs::read_to_string(home.path().join(own).join("it")).unwrap(), "of the person");
    }
    // Nor is it a file for the file tools, or one that a command can reach by another name.
    let state = desk.state.display();
    let (text, _) = native(&desk.run(&format!("ls {state}/caches.toolgate 2>&1; true")));
    assert!(text.contains("No such file"), "{text}");
    let mode = std::fs::metadata(desk.state.join("caches.toolgate")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// Too large, too deep, unreadable: emptied, whatever shape it has, and nothing beside it is touched.
#[test]
fn a_cache_that_is_too_large_or_cannot_be_measured_is_emptied() {
    let config = "sandbox: {cache: 1MiB}";
    for fill in [
        "head -c 2000000 /dev/zero > $npm_config_cache/big",
        "for i in $(seq 600); do mkdir -p $npm_config_cache/$i/x || exit 1; done; chmod 0 $npm_config_cache/1",
        "mkdir -p $npm_config_cache/a; chmod 0 $npm_config_cache/a; head -c 2000000 /dev/zero > $npm_config_cache/b",
        "cd $npm_config_cache; ln -s /mnt/project w; head -c 2000000 /dev/zero > big; chmod 555 .",
        "cd $npm_config_cache; n=$(printf d%.0s $(seq 200)); for i in $(seq 40); do mkdir $n; cd $n; done; head -c 2000000 /dev/zero > big",
    ] {
        let desk = Desk::with(Profile::NATIVE, |options| options.config(config));
        desk.write("kept", "x");
        native(&desk.run(&format!("mkdir -p $npm_config_cache; {fill}")));
        let cache = caches(&desk.state).pop().unwrap();
        // Its size is determined once a minute, so that a command does not wait for it.
        let count = "ls -A $npm_config_cache 2>&1 | wc -l";
        assert_ne!(native(&desk.run(count)).0, "0\n", "{fill}");
        expire(&cache);
        let (text, _) = native(&desk.run("ls -A $npm_config_cache /.toolgate/cache; true"));
        assert!(text.contains("cannot access '/.toolgate/cache/npm'"), "{fill}: {text}");
        assert_eq!(std::fs::read_to_string(desk.workspace.join("kept")).unwrap(), "x");
        let trash = desk.state.join("caches.toolgate/.dropping");
        assert_eq!(std::fs::read_dir(trash).unwrap().count(), 0, "{fill}");
    }
}

/// While a command uses the cache it is not emptied; a further one runs without it.
#[test]
fn a_cache_in_use_is_not_taken_away() {
    let desk = Arc::new(Desk::with(Profile::NATIVE, |options| options.config("sandbox: {cache: 1MiB}")));
    native(&desk.run("mkdir -p $npm_config_cache; head -c 2000000 /dev/zero > $npm_config_cache/big"));
    let background = json!({"command": "until [ -e end ]; do sleep 0.05; done; ls $npm_config_cache > seen", "background": true});
    desk.bench.must("run_command", background);
    expire(&caches(&desk.state).pop().unwrap());
    let (text, _) = native(&desk.run("echo ${npm_config_cache:-none}; ls -A ~"));
    assert_eq!(text, "none\n");
    desk.write("end", "");
    let seen = desk.workspace.join("seen");
    while std::fs::read_to_string(&seen).unwrap_or_default().is_empty() {
        native(&desk.run("sleep 0.05"));
    }
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "big\n");
}

#[test]
fn no_cache_where_it_is_off_or_the_grant_is_restricted() {
    let desk = Desk::with(Profile::NATIVE, |options| options.config("sandbox: {cache: off}"));
    let (text, _) = native(&desk.run("echo ${npm_config_cache:-none}; ls -A ~ /.toolgate"));
    assert!(text.starts_with("none\n") && !text.contains("cache\n"), "{text}");
    assert!(!desk.state.join("caches.toolgate").exists());
    let config = "agents: {worker: {tool_permissions: {run_command: {allowed: true, paths: [\"src/**\"]}}}}";
    let desk = Desk::with(Profile::NATIVE, |options| options.config(config));
    let called = desk.bench.call_as(
        agent("worker"),
        "run_command",
        json!({"command": "echo ${npm_config_cache:-none}"}),
    );
    assert!(called.answer.text.starts_with("none\n"), "{}", called.answer.text);
}

/// Caches that were not used for a month are removed when another one is created.
#[test]
fn unused_caches_are_removed() {
    let scratch = Scratch::new();
    run(&bench(&scratch, "w"), person("s1"), PLANT);
    let old = caches(&scratch.folder("s")).pop().unwrap();
    let lock = std::fs::File::open(old.join("lock")).unwrap();
    lock.set_modified(SystemTime::now() - Duration::from_secs(31 * 24 * 3600)).unwrap();
    run(&bench(&scratch, "v"), person("s1"), PLANT);
    let left = caches(&scratch.folder("s"));
    assert!(left.len() == 1 && left[0] != old, "{left:?}");
}
