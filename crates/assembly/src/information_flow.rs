//! Whether information flow is tracked, and the labels of the mounts.

use std::collections::BTreeMap;
use std::path::Path;

use toolgate_gate::{FlowRule, Registry};
use toolgate_manifest::{FlowMode, ServerTransport};
use toolgate_types::{FlowEffect, FlowLabels};

use crate::ambient::real_path;
use crate::settings::Settings;

/// The rule of a gate with these tools; `None` where information flow is not tracked.
pub(crate) fn rule(settings: &Settings, registry: &Registry) -> Option<FlowRule> {
    let is_tracked = match settings.loaded.config.information_flow.mode.unwrap_or(FlowMode::Auto) {
        FlowMode::On => true,
        FlowMode::Off => false,
        FlowMode::Auto => settings.profile.tracks_flow() && sends_out(settings, registry),
    };
    is_tracked.then(|| FlowRule { mounts: mount_labels(settings) })
}

/// Whether a tool sends something out: one that is there, or one of a server that may come up later.
fn sends_out(settings: &Settings, registry: &Registry) -> bool {
    let by_tool = registry.iter().any(|tool| tool.information_flow().effect == FlowEffect::Egress);
    let servers = settings.loaded.config.mcp_servers.iter().filter(|server| !server.disabled);
    by_tool
        || servers.into_iter().any(|server| {
            let declared = std::iter::once(&server.flow).chain(server.tools.iter().map(|tool| &tool.flow));
            let leaves = match &server.transport {
                ServerTransport::Process(process) => !process.network.is_empty(),
                ServerTransport::Remote(_) => true,
            };
            leaves || declared.into_iter().any(|flow| flow.effect == Some(FlowEffect::Egress))
        })
}

/// The labels of each mount with those of the mounts inside it: a walk of the one returns names and content of the other.
fn mount_labels(settings: &Settings) -> BTreeMap<String, FlowLabels> {
    let project =
        ("@project", settings.workspace.as_path(), settings.loaded.config.information_flow.workspace);
    let others =
        settings.mounts.iter().map(|mount| (mount.alias.as_str(), mount.path.as_path(), mount.labels));
    let mounts: Vec<(&str, std::path::PathBuf, FlowLabels)> = std::iter::once(project)
        .chain(others)
        .map(|(alias, path, labels): (&str, &Path, FlowLabels)| (alias, real_path(path), labels))
        .collect();
    let with_inner = |root: &Path| {
        let inside = mounts.iter().filter(|(_, path, _)| path.starts_with(root));
        inside.fold(FlowLabels::NONE, |labels, (_, _, more)| labels.union(*more))
    };
    let labelled = mounts.iter().map(|(alias, path, _)| ((*alias).to_owned(), with_inner(path)));
    labelled.filter(|(_, labels)| !labels.is_empty()).collect()
}
