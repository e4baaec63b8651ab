//! The gate inside another program: an agent runtime that hands its model's tool calls to Toolgate.
//!
//! ```text
//! cargo run -p toolgate --example embed
//! ```
#![allow(clippy::disallowed_methods, reason = "an example owns its scratch directory; the gate does not")]
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::json;
use toolgate::{ApprovalReply, ApprovalRequest, Approver, CallerIdentity, Gate, PreviewBody, Trust};

/// An agent that may read, write below `drafts`, and delete.
const CONFIG: &str = "
agents:
  helper:
    tool_permissions:
      read_file: {allowed: true}
      write_file: {allowed: true, paths: ['drafts/**']}
      delete_file: {allowed: true}
audit: {on_failure: deny}
";

/// The approver. Yours would show a dialog; this one approves everything but deletions.
struct Colleague;

impl Approver for Colleague {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
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
    let project = scratch.path().join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("notes.md"), "- apples\n- pears\n")?;

    // 1. The gate. Building it opens workspace, audit record and undo journal, and recovers what an earlier process left. `Guided` asks for
    //    approval of every call that changes something.
    let gate = Gate::builder()
        .config_text(CONFIG)
        .workspace(&project)
        .state_dir(scratch.path().join("state"))
        .trust(Trust::Guided)
        .session("conversation-1".parse()?)
        .approver(Arc::new(Colleague))
        .build()
        .await?;

    // 2. The caller: an agent of the configuration, for a person that this program has authenticated. With a token: `CallerIdentity::jwt`.
    let caller = CallerIdentity::agent("alice", "helper".parse()?);

    // 3. The tool definitions for the model: only what this caller may use.
    for tool in gate.list_tools(caller.clone()).await.map_err(|failure| failure.message)? {
        println!("offered: {}", tool.spec().name);
    }

    // 4. The model's calls. Each gets an answer for the model, and one audit record.
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
        let called = gate.call(tool, arguments, caller.clone()).await;
        println!("  {}\n{}", called.decision.as_str(), indented(&called.answer.text));
        if tool == "write_file" && called.failed.is_none() {
            changed = Some(called.call);
        }
        // For the operator only; the model never sees it.
        if let Some((stage, failure)) = &called.failed {
            println!("  for the operator: {} {:?}", stage.as_str(), failure.operator_note);
        }
    }

    // 5. Changes can be undone; that is audited too.
    if let Some(call) = changed {
        let restored = gate.undo(call, caller).await.map_err(|failure| failure.message)?;
        println!("put back: {}", restored.join(", "));
    }

    // 6. Shutting down signs a last checkpoint; `toolgate audit verify` checks the record.
    gate.shutdown().await;
    Ok(())
}
