//! A plain model of the labels of a session: what was answered, before what was sent.

use super::door::{AnswerKind, GateAnswer};
use super::sequence::HostileCall;
use super::target::FlowTools;

/// What a session has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenLabels {
    untrusted: bool,
    secret: bool,
}

impl SeenLabels {
    /// What of these calls, in flight together, must not have succeeded: each is judged by what was answered before it was sent.
    pub(super) fn problem(
        &mut self,
        tools: FlowTools,
        calls: &[HostileCall],
        answers: &[GateAnswer],
    ) -> Option<String> {
        let before = *self;
        let mut problem = None;
        for (call, answer) in calls.iter().zip(answers) {
            if answer.ended != AnswerKind::Succeeded {
                continue;
            }
            self.untrusted |= call.tool == tools.untrusted;
            self.secret |= call.tool == tools.secret;
            if call.tool == tools.egress && before.untrusted && before.secret {
                problem = Some(format!(
                    "`{}` sent something out of a session that had read `{}` and `{}`",
                    call.tool, tools.untrusted, tools.secret
                ));
            }
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_answered_before_counts() {
        let tools = FlowTools { untrusted: "issue", secret: "payroll", egress: "send" };
        let call = |tool: &str| HostileCall { tool: tool.to_owned(), arguments: json!({}) };
        let answer = |ended| GateAnswer { ended, ..GateAnswer::none() };
        let (done, failed) = (AnswerKind::Succeeded, AnswerKind::Failed);
        let mut seen = SeenLabels::default();
        let mut step = |made: &[(&str, AnswerKind)]| {
            let calls: Vec<_> = made.iter().map(|(tool, _)| call(tool)).collect();
            let answers: Vec<_> = made.iter().map(|(_, ended)| answer(*ended)).collect();
            seen.problem(tools, &calls, &answers).is_some()
        };
        assert!(!step(&[("issue", done), ("payroll", failed), ("send", done)]));
        assert!(!step(&[("send", done), ("payroll", done)]));
        assert!(!step(&[("send", failed)]));
        assert!(step(&[("send", done)]));
    }
}
