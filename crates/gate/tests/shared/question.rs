// An approval question of an ordinary call, for the tests of each renderer. Included with `include!` where `ApprovalRequest`, `Preview` and
// `PreviewBody` are in scope.

use toolgate_types::{CallId, Caller, Sha256, ToolClass, Trust};

use super::{Preview, PreviewBody, ApprovalRequest};

pub(super) fn question(summary: &[&str], body: PreviewBody) -> ApprovalRequest {
    let caller = Caller {
        subject: "person".to_owned(),
        permissions: Default::default(),
        agent: None,
        session: "s".parse().unwrap(),
        run: None,
        trust: Trust::Guided,
    };
    ApprovalRequest {
        call: CallId::fresh(),
        tool: "run_command".to_owned(),
        class: ToolClass::Destructive,
        caller,
        input: serde_json::json!({}),
        preview: Preview {
            summary: summary.iter().map(|line| (*line).to_owned()).collect(),
            body,
            expected_changes: None,
            would_fail: None,
        },
        arguments: Sha256::of(b""),
        timeout: std::time::Duration::from_secs(30),
        // 2026-11-18T12:00:30Z
        expires_at: std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_795_003_230),
        can_grant_session: true,
        grants: Vec::new(),
        escalations: Vec::new(),
    }
}
