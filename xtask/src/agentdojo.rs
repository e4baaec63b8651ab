//! AgentDojo's tasks and injections through the gate: without a policy, with the tools that each task needs, and with the policies that came along.

use crate::Fault;
use crate::command::{cargo, played_binary, program, root, succeed};
use crate::metadata::Metadata;

/// The adapter, and the versions it is for.
const ADAPTER: &str = "evals/suites/agentdojo";

/// A timeout far above the duration of one policy.
const SECONDS: &str = "3600";

pub(crate) fn run(options: &[&str]) -> Result<(), Fault> {
    let (toolgate, options) = played_binary(options)?;
    let target = Metadata::ask(cargo(&[])?)?.target_directory;
    let (adapter, installed) = (root()?.join(ADAPTER), target.join("agentdojo"));
    succeed({
        let mut venv = program("python3", &["-m", "venv"])?;
        venv.arg(&installed);
        venv
    })?;
    let python = installed.join("bin/python");
    let mut pip = std::process::Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(adapter.join("requirements.txt"));
    succeed(pip)?;
    for policy in ["none", "allowlist", "shipped"] {
        println!("\n=== policy: {policy}");
        let mut plays = program("timeout", &["--kill-after=10", SECONDS])?;
        plays.arg(&python).arg("-B").arg(adapter.join("run.py")).args(["--policy", policy]);
        plays.arg("--toolgate").arg(&toolgate);
        plays.arg("--json").arg(target.join(format!("agentdojo-{policy}.json"))).args(&options);
        succeed(plays)?;
    }
    Ok(())
}
