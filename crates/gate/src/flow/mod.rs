//! Information flow: the labels of sessions, and what endorses a target. What a call may do follows from `toolgate_policy::flow`.

mod call_flow;
mod endorsements;
mod label_store;

use std::collections::BTreeMap;

use toolgate_types::{FlowLabels, FlowMounts};

use crate::judged_paths::JudgedPaths;

pub(crate) use call_flow::{CallFlow, FlowStage, FlowState, FlowSubject, help_for_model, question_line};
pub(crate) use endorsements::Endorsements;
pub use label_store::FlowLabelStore;

/// What a configuration says about information flow, where it is tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRule {
    /// The labels of what is read in a mount, if it has some; those of mounts inside it included.
    pub mounts: BTreeMap<String, FlowLabels>,
}

impl FlowRule {
    /// The labels of the mounts that a call reads.
    fn labels_of(&self, mounts: &FlowMounts, judged: Option<&JudgedPaths>) -> FlowLabels {
        let of = |alias: &str| self.mounts.get(alias).copied().unwrap_or_default();
        let all = |labels: FlowLabels, next: FlowLabels| labels.union(next);
        match (mounts, judged) {
            _ if self.mounts.is_empty() => FlowLabels::NONE,
            (FlowMounts::None, _) => FlowLabels::NONE,
            (FlowMounts::Named(aliases), _) => {
                aliases.iter().map(|alias| of(alias)).fold(FlowLabels::NONE, all)
            }
            (FlowMounts::Located, Some(judged)) => {
                judged.iter().map(|path| of(&path.located.alias)).fold(FlowLabels::NONE, all)
            }
            // Where it is not known which, they may be any.
            (FlowMounts::Located, None) | (FlowMounts::All, _) => {
                self.mounts.values().copied().fold(FlowLabels::NONE, all)
            }
        }
    }

    /// Whether the paths of a call decide its labels.
    pub(crate) fn needs_paths(&self, mounts: &FlowMounts) -> bool {
        !self.mounts.is_empty() && *mounts == FlowMounts::Located
    }
}
