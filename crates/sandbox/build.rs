//! Compiles the init program, which becomes process 1 of every sandbox, and embeds its bytes in the crate.
//!
//! It is a separate program because process 1 must outlive the command without sharing memory with the gate, and a tiny one because it is started for
//! every command: no standard library, no dynamic linker, a few hundred bytes of code.

#![allow(
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a build script fails by panicking, and starts the compiler"
)]

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=init/main.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("init");
    let linker_arguments =
        ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"];
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["init/main.rs", "--crate-name", "toolgate_init", "--edition", "2024", "--crate-type", "bin"]);
    rustc.args(["--target", &variable("TARGET"), "-o"]).arg(&output);
    rustc.args([
        "-C",
        "opt-level=s",
        "-C",
        "panic=abort",
        "-C",
        "relocation-model=static",
        "-C",
        "strip=symbols",
    ]);
    rustc.args(["-C", "overflow-checks=off", "-C", "debug-assertions=off", "-C", "force-unwind-tables=no"]);
    for argument in linker_arguments {
        rustc.args(["-C", &format!("link-arg={argument}")]);
    }
    let status = rustc
        .status()
        .unwrap_or_else(|error| panic!("cannot start the compiler for the init program: {error}"));
    assert!(status.success(), "the init program does not compile");
}
