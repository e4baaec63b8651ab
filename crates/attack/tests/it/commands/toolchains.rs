//! Toolchains of a home directory, as commands see them.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use toolgate_attack::Scratch;
use toolgate_tools::Profile;

use super::{Desk, native};
use crate::fixture::write;

fn program(path: &Path, script: &str) {
    write(path, script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A home directory outside of `/tmp`, where commands have a directory of their own.
fn home() -> (tempfile::TempDir, std::path::PathBuf) {
    let scratch = tempfile::Builder::new().prefix("toolgate-home-").tempdir_in("/var/tmp").unwrap();
    let home = scratch.path().canonicalize().unwrap();
    program(&home.join(".cargo/bin/cargo"), "#!/bin/sh\necho cargo of $RUSTUP_HOME\n");
    write(&home.join(".rustup/settings.toml"), "x");
    write(&home.join(".cargo/credentials.toml"), "nobody-reads-this");
    write(&home.join(".npmrc"), "nobody-reads-this");
    program(&home.join(".nvm/versions/node/v20.1.0/bin/node"), "#!/bin/sh\necho node 20\n");
    program(&home.join(".nvm/versions/node/v9.0.0/bin/node"), "#!/bin/sh\necho node 9\n");
    write(&home.join(".nvm/versions/node/v20.1.0/etc/npmrc"), "nobody-reads-this");
    write(&home.join("private/key"), "nobody-reads-this");
    symlink("../../private", home.join(".nvm/versions/out")).unwrap();
    symlink(home.join("private"), home.join(".cargo/bin/out")).unwrap();
    (scratch, home)
}

#[test]
fn a_toolchain_is_run_and_nothing_else_of_the_home_is_seen() {
    let (_kept, home) = home();
    let desk = Desk::with(Profile::NATIVE, |options| options.home(&home));
    let shown = home.display();
    let (text, _) = native(&desk.run("cargo; node"));
    assert_eq!(text, format!("cargo of {shown}/.rustup\nnode 20\n"));
    let line = format!(
        "cat {shown}/.cargo/credentials.toml {shown}/.npmrc {shown}/private/key {shown}/.nvm/versions/node/v20.1.0/etc/npmrc; \
         cat {shown}/.nvm/versions/out/key {shown}/.cargo/bin/out/key; \
         echo x > {shown}/.cargo/bin/cargo; rm -r {shown}/.cargo/bin; mv {shown}/.nvm {shown}/x; ls -A {shown} {shown}/.cargo"
    );
    let (text, _) = native(&desk.run(&line));
    assert!(!text.contains("nobody-reads-this"), "{text}");
    let listed = format!("{shown}:\n.cargo\n.nvm\n.rustup\n\n{shown}/.cargo:\nbin\n");
    assert!(text.contains(&listed), "{text}");
    assert!(std::fs::read_to_string(home.join(".cargo/bin/cargo")).unwrap().contains("cargo of"));
    assert!(home.join(".cargo/credentials.toml").exists() && home.join(".nvm").exists());
}

#[test]
fn toolchains_are_shown_as_the_configuration_says() {
    let (_kept, home) = home();
    let which = |config: &str| {
        let desk = Desk::with(Profile::NATIVE, |options| options.home(&home).config(config));
        let (text, _) = native(&desk.run("command -v cargo; command -v node; true"));
        text.replace(&format!("{}/", home.display()), "~/")
    };
    let node = "~/.nvm/versions/node/v20.1.0/bin/node\n";
    assert_eq!(which("sandbox: {toolchains: [nvm]}"), node.to_owned());
    assert_eq!(which("sandbox: {toolchains: auto}"), format!("~/.cargo/bin/cargo\n{node}"));
    assert!(!which("sandbox: {toolchains: off}").contains('~'));
}

#[test]
fn a_home_as_the_workspace_shows_no_toolchain() {
    let (_kept, home) = home();
    let scratch = Scratch::new();
    let state = scratch.folder("s");
    let options = toolgate_attack::BenchOptions::new(Profile::NATIVE, &home, &state).home(&home).commands();
    let bench = options.open();
    let called = bench.call("run_command", serde_json::json!({"command": "ls /var; command -v cargo"}));
    assert!(!called.answer.text.contains("cargo"), "{}", called.answer.text);
}
