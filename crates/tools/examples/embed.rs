//! The gate inside another program: an agent runtime that hands its model's tool calls to Toolgate.
//!
//! ```text
//! cargo run -p toolgate-tools --example embed
//! ```
//!
//! Ambient authority enters here, as explicit values: directories, clock, approver. Behind [`ProfiledGate::call`] nothing is taken from the
//! environment.
#![allow(clippy::disallowed_methods, reason = "an example owns its scratch folder; the gate does not")]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use toolgate_audit::{AuditLog, LogOptions, VerifyOptions, verify};
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, Approver, AuditMode, BlockingStrategy, CallOptions, Gate, GateConfig,
    GateOptions, Journal, PreviewBody, UndoOptions,
};
use toolgate_manifest::Config;
use toolgate_tools::{Profile, ProfiledGate, ToolComponents, ToolFormat};
use toolgate_types::{Caller, StateKey, ToolCall, Trust};
use toolgate_workspace::{Mount, MountAccess, MountRules, Workspace};

/// The approver. Yours would show a dialog; this one approves everything but deletions.
struct Colleague;

impl Approver for Colleague {
    fn ask(
        &self,
        question: ApprovalRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            // One line per file that would change, then the body. The call may make exactly these changes.
            let mut shown = question.preview.summary.join("\n") + "\n";
            if let PreviewBody::Diff(body) | PreviewBody::Text(body) = question.preview.body {
                shown.push_str(&body);
            }
            println!("  asked about {}:\n{}", question.tool, indented(&shown));
            match question.tool.as_str() {
                "delete_file" => ApprovalReply::Denied(Some("we keep our files".to_owned())),
                _ => ApprovalReply::Once,
            }
        })
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let (project, state) = (scratch.path().join("project"), scratch.path().join("state"));
    std::fs::create_dir_all(&project)?;
    std::fs::create_dir_all(state.join("journal"))?;
    std::fs::write(project.join("notes.md"), "- apples\n- pears\n")?;

    // 1. The configuration: an agent that may read, write below `drafts`, and delete.
    let config = Config::parse(
        "toolgate.yaml",
        "agents:\n  helper:\n    tool_permissions:\n      read_file: {allowed: true}\n      \
         write_file: {allowed: true, paths: [\"drafts/**\"]}\n      delete_file: {allowed: true}\n",
    )?;

    // 2. The workspace: open directories with an alias and rules. Files are opened beneath these handles only, and the built-in deny list applies in
    //    each of them. The gate's own files are masked as well.
    let project =
        Mount::new("@project", File::open(&project)?, &project, MountAccess::ReadWrite, MountRules::new())?;
    let project = project.hide_gate_files(std::slice::from_ref(&state)).as_default();
    let workspace = Arc::new(Workspace::new(vec![project])?);

    // 3. The undo journal and the audit log. Opening them also recovers from a crash. The journal accepts only entries that were sealed with this
    //    key: 32 random bytes in a file that only this user can read.
    let key = StateKey::new(*b"32 random bytes of this user's..");
    let journal = Dir::open_ambient_dir(state.join("journal"), ambient_authority())?;
    let journal = Journal::open(&journal, &key)?.recover(&workspace)?;
    let (audit, _recovered) = AuditLog::open(LogOptions::new(state.join("audit")), &key)?;

    // 4. The gate, and a profile in front of it. `Deny` means: without an audit record there is no answer.
    let profile = Profile::Native;
    let gate = Gate::new(GateOptions {
        config: GateConfig {
            agents: config.agents.clone(),
            workspace: Some(Arc::clone(&workspace)),
            ..GateConfig::new(profile.registry(&ToolComponents::files(&workspace))?, profile.limits())
        },
        audit: Ok(audit),
        audit_mode: AuditMode::Deny,
        journal: Arc::new(journal),
        approver: Arc::new(Colleague),
        approval_timeout: Duration::from_secs(30),
        blocking: BlockingStrategy::Inline,
        clock: Arc::new(Instant::now),
        warn: Arc::new(|complaint| println!("  complaint: {complaint}")),
    });
    let front = ProfiledGate::new(profile, Arc::new(gate));

    // 5. The caller. `Guided` asks for approval of every call that changes something.
    let caller = Caller {
        subject: "alice".to_owned(),
        permissions: Default::default(),
        agent: Some("helper".parse()?),
        session: "conversation-1".parse()?,
        run: None,
        trust: Trust::Guided,
    };

    // 6. The tool definitions for the model: only what this caller may use, in the format of its API.
    let offered = ToolFormat::OpenAi.write(&front.gate().visible_tools(&caller));
    println!("offered: {}", offered.as_array().map_or(0, Vec::len));

    // 7. The model's calls. Each gets an answer for the model, and one audit record.
    let mut changed = None;
    for (tool, arguments) in [
        ("read_file", json!({"path": "notes.md"})),
        ("write_file", json!({"path": "drafts/plan.md", "content": "eat the pears first\n"})),
        ("write_file", json!({"path": "notes.md", "content": ""})),
        ("read_file", json!({"path": "../state/audit/lock"})),
        ("delete_file", json!({"path": "notes.md"})),
        ("move_file", json!({"from": "notes.md", "to": "drafts/notes.md"})),
    ] {
        println!("{tool} {arguments}");
        let called = front.call(ToolCall::new(tool, arguments), caller.clone(), CallOptions::default()).await;
        println!("  {}\n{}", called.decision.as_str(), indented(&called.answer.text));
        if tool == "write_file" && called.failed.is_none() {
            changed = Some(called.call);
        }
        // For the operator only; the model never sees it.
        if let Some((stage, failure)) = &called.failed {
            println!("  for the operator: {} {:?}", stage.as_str(), failure.operator_note);
        }
    }

    // 8. Changes can be undone; that is audited too.
    if let Some(call) = changed {
        let undone = front.gate().undo(call, caller.clone(), UndoOptions::default()).await?;
        println!("put back: {}", undone.paths.join(", "));
    }

    // 9. Dropping the gate signs a last checkpoint. Then the audit log can be verified.
    drop(front);
    let report = verify(&state.join("audit"), &VerifyOptions::default())?;
    println!("records: {}, problem: {:?}", report.records, report.problem.map(|problem| problem.to_string()));
    Ok(())
}
