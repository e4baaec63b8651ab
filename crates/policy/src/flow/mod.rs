//! Information flow: whether a call may go on unasked, from what its session has seen, what its tool declares, and where the values of its targets
//! come from.
//!
//! Two rules, and both only add questions. A *target* passes only if its value comes from the person's own words, the configuration, or a trusted
//! directory. *Egress* passes only while its session has not seen both untrusted and secret content. A label that is added can only turn a pass into a
//! question: [`judge`] looks at labels in one place, and only for whether all of them are there.
//! A call that goes on after its answer counts as one of a session with all labels.

mod identifiers;
mod provenance;
mod targets;

use toolgate_types::{FlowEffect, FlowLabels};

pub use provenance::{is_allowed_by, is_number_said_in, is_said_in};
pub use targets::{FlowTarget, targets_of};

/// What is known about a call.
#[derive(Clone, Copy)]
pub struct FlowFacts<'f> {
    /// What its session has seen, and what the call itself can read before it sends.
    pub labels: FlowLabels,
    /// What it does.
    pub effect: FlowEffect,
    /// Whether it goes on after its answer, so that it can send what its session reads later.
    pub outlives: bool,
    /// Its targets.
    pub targets: &'f [FlowTarget],
    /// Whether the value of a target comes from the person or a trusted directory.
    pub is_endorsed: &'f dyn Fn(&FlowTarget) -> bool,
}

/// What a call is asked about; it passes if there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowDecision {
    /// The targets that nothing endorses.
    pub unendorsed: Vec<FlowTarget>,
    /// Whether it would send something out of a session that has seen both secret and untrusted content, or may come to.
    pub leaks: bool,
    /// Whether that is because it goes on after its answer.
    pub outlives: bool,
}

impl FlowDecision {
    /// Whether a person has to be asked.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.leaks || !self.unendorsed.is_empty()
    }
}

/// Decides about a call.
#[must_use]
pub fn judge(facts: FlowFacts<'_>) -> FlowDecision {
    let FlowFacts { labels, effect, outlives, targets, is_endorsed } = facts;
    let (is_egress, has_seen_both) = (effect == FlowEffect::Egress, labels.contains(FlowLabels::ALL));
    let endorsed = |target: &FlowTarget| target.is_configured || is_endorsed(target);
    FlowDecision {
        unendorsed: targets.iter().filter(|target| !endorsed(target)).cloned().collect(),
        leaks: is_egress && (has_seen_both || outlives),
        outlives: is_egress && !has_seen_both && outlives,
    }
}
