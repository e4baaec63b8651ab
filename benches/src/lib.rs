//! Shared parts of the benchmarks: a gate over a scratch workspace, and medians of alternating runs.
//!
//! Every comparison happens in one run that alternates with the peer, so that other load on the machine affects both alike. Lines that begin with
//! `RATIO` are collected by `cargo xtask bench`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark arranges files by hand, prints what it measures, and may stop at the first surprise"
)]

pub mod pseudo_terminal;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::gate_builder::{GateBuildOptions, build_gate};
use toolgate_assembly::load::TokenVerification;
use toolgate_assembly::overrides::SettingsOverrides;
use toolgate_assembly::settings::resolve_settings;
use toolgate_assembly::trust::TrustPrompt;
use toolgate_gate::{CallOptions, NoApprover};
use toolgate_tools::{ModelAnswer, Profile, ProfiledGate};
use toolgate_types::{Caller, Limits, ToolCall, Trust};

/// A gate with the native profile over a directory, with its state beside it, as the binary assembles it.
pub struct Bench {
    front: Arc<ProfiledGate>,
    runtime: tokio::runtime::Runtime,
    caller: Caller,
}

impl Bench {
    /// A gate in `warn` mode over this directory.
    #[must_use]
    pub fn over(workspace: &Path, state: &Path) -> Self {
        Self::with_limits(workspace, state, Profile::NATIVE.limits())
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(workspace: &Path, state: &Path, limits: Limits) -> Self {
        Self::assembled(workspace, state, limits, None)
    }

    /// The same with a configuration, as in `toolgate.yaml`.
    #[must_use]
    pub fn with_config(workspace: &Path, state: &Path, yaml: &str) -> Self {
        Self::assembled(workspace, state, Profile::NATIVE.limits(), Some(yaml))
    }

    fn assembled(workspace: &Path, state: &Path, limits: Limits, config: Option<&str>) -> Self {
        let overrides = SettingsOverrides {
            no_config: config.is_none(),
            config_text: config.map(Into::into),
            workspace: Some(workspace.to_path_buf()),
            state_dir: Some(state.to_path_buf()),
            ..SettingsOverrides::default()
        };
        let environment = HostEnvironment::bare(workspace.to_path_buf());
        let settings = resolve_settings(&overrides, Trust::Autonomous, environment, TrustPrompt::Never);
        let mut settings = settings.unwrap();
        settings.limits = limits;
        let approver = Arc::new(NoApprover { remedy: String::new() });
        let options = GateBuildOptions::without_servers(approver, TokenVerification::Disabled);
        let assembled = build_gate(&settings, options).unwrap();
        let caller = Caller {
            subject: "bench".to_owned(),
            permissions: std::collections::BTreeSet::new(),
            agent: None,
            session: "bench".parse().unwrap(),
            run: None,
            trust: Trust::Autonomous,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { front: Arc::new(assembled.gate), runtime, caller }
    }

    /// The gate with its profile.
    #[must_use]
    pub fn front(&self) -> &Arc<ProfiledGate> {
        &self.front
    }

    /// The caller.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// One call, which must succeed or fail as expected.
    pub fn call(&self, tool: &str, arguments: Value, succeeds: bool) -> ModelAnswer {
        let call = ToolCall::new(tool, arguments);
        let calling = self.front.call(call, self.caller.clone(), CallOptions::default());
        let answer = self.runtime.block_on(calling).answer;
        assert_eq!(answer.is_error, !succeeds, "{}", answer.text);
        answer
    }
}

/// The release binary, rebuilt so that it is never stale.
///
/// # Panics
/// It cannot be built.
#[must_use]
pub fn release_binary() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built =
        Command::new(cargo).args(["build", "--quiet", "--release", "-p", "toolgate"]).status().unwrap();
    assert!(built.success());
    let this = std::env::current_exe().unwrap();
    this.ancestors().find(|folder| folder.ends_with("release")).unwrap().join("toolgate")
}

/// Runs both alternately and returns the median of each.
pub fn in_turns(rounds: usize, mut ours: impl FnMut(), mut peer: impl FnMut()) -> (Duration, Duration) {
    let time = |work: &mut dyn FnMut()| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.0.push(time(&mut ours));
        times.1.push(time(&mut peer));
    }
    times.0.sort();
    times.1.sort();
    (times.0[rounds / 2], times.1[rounds / 2])
}

/// Prints a comparison that `cargo xtask bench` collects.
pub fn report(name: &str, ours: Duration, peer: Duration, peer_name: &str, bound: f64) {
    let ratio = ours.as_secs_f64() / peer.as_secs_f64();
    println!(
        "RATIO {name} ours={} peer={}({peer_name}) ratio={ratio:.3} bound={bound}",
        shown(ours),
        shown(peer)
    );
}

/// Prints the overhead over the floor, as a fraction of the allowance.
pub fn report_extra(name: &str, ours: Duration, floor: Duration, floor_name: &str, allowance: Duration) {
    let extra = ours.saturating_sub(floor);
    let share = extra.as_secs_f64() / allowance.as_secs_f64();
    println!(
        "RATIO {name} ours={} peer={}({floor_name};{}_over_of_{}) ratio={share:.3} bound=1",
        shown(ours),
        shown(floor),
        shown(extra),
        shown(allowance)
    );
}

/// Prints how much memory something takes, beside the most that it may.
pub fn report_bytes(name: &str, bytes: u64, allowance: u64) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "RATIO {name} ours={:.1}MiB peer={:.0}MiB(allowance) ratio={:.3} bound=1",
        mib(bytes),
        mib(allowance),
        bytes as f64 / allowance as f64
    );
}

fn shown(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1}us") } else { format!("{:.2}ms", micros / 1000.0) }
}
