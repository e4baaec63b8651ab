//! Information flow: what a tool, a mount and a configuration declare about it.

use std::collections::BTreeMap;

use toolgate_types::{ArgumentRole, FlowEffect, FlowLabels, FlowSettings};

use crate::decode::{ConfigField, KeySpec, Section, Word, flag, key, list, named, text, word};
use crate::keyword_enum::words;
use crate::problem::shown;
use crate::problem_report::ProblemReport;
use crate::yaml_tree::NodeKind;

words! {
    /// Whether information flow is tracked.
    FlowMode, "a mode of information flow" {
        /// In the profile `native`, if a tool with egress is configured.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
}

words! {
    /// Whether content may hold instructions of others.
    DataTrust, "a level of trust in content" {
        /// It does not.
        Trusted = "trusted",
        /// It may.
        Untrusted = "untrusted",
    }
}

words! {
    /// A role of an argument that needs no further words.
    PlainRole, "a role of an argument" {
        /// It names where something goes or what is changed.
        Target = "target",
        /// It is what is sent or stored.
        Content = "content",
    }
}

impl Word for FlowEffect {
    const WHAT: &'static str = "an effect";
    const WORDS: &'static [(&'static str, Self)] =
        &[("read", Self::Read), ("write", Self::Write), ("destroy", Self::Destroy), ("egress", Self::Egress)];
}

/// `information_flow`: a mode, or a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowConfig {
    /// `mode`; absent means `auto`.
    pub mode: Option<FlowMode>,
    /// `workspace`: the labels of what is read in `@project`.
    pub workspace: FlowLabels,
}

const FLOW: &[KeySpec] = &[key("mode", "mode: on"), key("workspace", "workspace: {trust: untrusted}")];

const CONTENT: &[KeySpec] = &[key("trust", "trust: untrusted"), key("secret", "secret: true")];

const ROLE: &[KeySpec] = &[key("target", "target: [general]")];

pub(crate) fn information_flow(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<FlowConfig> {
    if matches!(field.node.kind, NodeKind::Scalar { .. }) {
        let mode = word::<FlowMode>(field, report)?.value;
        return Some(FlowConfig { mode: Some(mode), workspace: FlowLabels::NONE });
    }
    let section = Section::read(field, FLOW, report)?;
    let workspace = section.get("workspace", report, |field, report| {
        Some(content_labels(&Section::read(field, CONTENT, report)?, report))
    });
    Some(FlowConfig {
        mode: section.get("mode", report, word::<FlowMode>).map(|mode| mode.value),
        workspace: workspace.unwrap_or_default(),
    })
}

/// `trust` and `secret` of a mount.
pub(crate) fn content_labels(section: &Section, report: &mut ProblemReport<'_>) -> FlowLabels {
    let trust = section.get("trust", report, word::<DataTrust>).map(|trust| trust.value);
    let secret = section.get("secret", report, flag);
    let label = |is_set: bool, label| if is_set { label } else { FlowLabels::NONE };
    label(trust == Some(DataTrust::Untrusted), FlowLabels::UNTRUSTED)
        .union(label(secret == Some(true), FlowLabels::SECRET))
}

/// `effect`, `output_trust` and `secret`, and for single tools `directory` and `arguments`, where the section has these keys.
pub(crate) fn flow_settings(section: &Section, report: &mut ProblemReport<'_>) -> FlowSettings {
    let trust = section.get("output_trust", report, word::<DataTrust>).map(|trust| trust.value);
    let directory = section.get("directory", report, flag).unwrap_or(false);
    if let (true, Some(field)) = (directory && trust != Some(DataTrust::Trusted), section.field("directory"))
    {
        let help =
            "write `output_trust: trusted` beside it, if no stranger writes what it returns".to_owned();
        report.node(&field.node, "only a tool whose output is trusted can be a directory", Some(help));
    }
    FlowSettings {
        effect: section.get("effect", report, word::<FlowEffect>).map(|effect| effect.value),
        untrusted: trust.map(|trust| trust == DataTrust::Untrusted),
        secret: section.get("secret", report, flag),
        directory,
        arguments: section.get("arguments", report, arguments).unwrap_or_default(),
    }
}

fn arguments(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<BTreeMap<String, ArgumentRole>> {
    let entries = named(field, "argument", report)?;
    let mut roles = BTreeMap::new();
    for (name, field) in entries {
        if name.value.is_empty() || name.value.split('.').any(str::is_empty) {
            let help = "write the name of an argument, `message.to` for a member, or `\"*\"` for all others";
            report.located(
                &name,
                format!("`{}` names no argument", shown(&name.value)),
                Some(help.to_owned()),
            );
        }
        if let Some(role) = role(&field, report) {
            roles.insert(name.value, role);
        }
    }
    Some(roles)
}

/// `target`, `content`, or `{target: [values that pass]}`.
fn role(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ArgumentRole> {
    if matches!(field.node.kind, NodeKind::Scalar { .. }) {
        return Some(match word::<PlainRole>(field, report)?.value {
            PlainRole::Target => ArgumentRole::Target(Vec::new()),
            PlainRole::Content => ArgumentRole::Content,
        });
    }
    let section = Section::read(field, ROLE, report)?;
    let allowed = section.get("target", report, |field, report| list(field, "value", report, text));
    Some(ArgumentRole::Target(allowed?))
}
