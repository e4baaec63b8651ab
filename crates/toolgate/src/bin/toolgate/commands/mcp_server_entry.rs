//! The command that a client starts.

use std::path::{Path, PathBuf};

use crate::arguments::GlobalOptions;

/// Clients that start their servers in the directory of the session.
pub(crate) const STARTED_IN_PROJECT: &[&str] =
    &["claude-code", "codex", "gemini-cli", "opencode", "copilot-cli", "goose", "amp"];

/// Clients that replace a variable by the open directory.
const WITH_VARIABLE: &[&str] = &["vscode", "cursor", "roo-code"];

/// The variable.
const OPEN_DIRECTORY: &str = "${workspaceFolder}";

/// The arguments of an entry in a project's file that is the same for all who open the project: it names no path of one person. A configuration in the
/// project is found by each gate, and counts where its user agreed to it. `None` where an option names a path, or the client could start it elsewhere.
pub(crate) fn portable_arguments(
    common: &GlobalOptions,
    client: &str,
    config: Option<FoundConfig>,
) -> Option<Vec<String>> {
    let names_path = common.workspace.is_some()
        || common.state_dir.is_some()
        || common.config.is_some()
        || !common.mounts.is_empty();
    let variable = WITH_VARIABLE.contains(&client);
    if names_path || !(variable || STARTED_IN_PROJECT.contains(&client)) {
        return None;
    }
    let mut words = gate_arguments(common, None, None, |path| Some(path.to_path_buf()))?;
    if config.is_some() {
        words.retain(|word| word != "--no-config");
    }
    if variable && config.is_none_or(|config| !config.names_workspace) {
        words.extend(["--workspace".to_owned(), OPEN_DIRECTORY.to_owned()]);
    }
    Some(words)
}

/// A configuration that was found in the project.
#[derive(Clone, Copy)]
pub(crate) struct FoundConfig {
    /// Whether it names the workspace.
    pub(crate) names_workspace: bool,
}

/// `mcp` with the given options. A client starts it in a directory of its own choosing, so every path is absolute and the workspace is always passed:
/// `workspace`, unless the configuration sets it.
pub(crate) fn gate_arguments(
    common: &GlobalOptions,
    config: Option<&Path>,
    workspace: Option<&Path>,
    absolute: impl Fn(&Path) -> Option<PathBuf>,
) -> Option<Vec<String>> {
    let text = |path: PathBuf| path.to_str().map(str::to_owned);
    let path = |path: &Path| absolute(path).and_then(text);
    // The client's current directory must not decide which configuration is used.
    let mut words = match config {
        Some(file) => vec!["mcp".to_owned(), "--config".to_owned(), path(file)?],
        None => vec!["mcp".to_owned(), "--no-config".to_owned()],
    };
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([format!("--{name}"), value]);
        }
    };
    option("workspace", workspace.and_then(path));
    for mount in &common.mounts {
        let (alias, rest) = mount.split_once('=')?;
        let (folder, mode) = match rest.strip_suffix(":ro") {
            Some(folder) => (folder, ":ro"),
            None => (rest.strip_suffix(":rw").unwrap_or(rest), ""),
        };
        option("mount", Some(format!("{alias}={}{mode}", path(Path::new(folder))?)));
    }
    option("state-dir", common.state_dir.as_deref().and_then(path));
    option("profile", common.profile.clone());
    option("agent", common.agent.as_ref().map(ToString::to_string));
    option("trust", common.trust.map(|trust| trust.to_string()));
    option("run", common.run.as_ref().map(ToString::to_string));
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_on_with_absolute_paths() {
        let absolute = |path: &Path| Some(Path::new("/here").join(path));
        let nothing = gate_arguments(&GlobalOptions::default(), None, Some(Path::new("/w")), absolute);
        assert_eq!(nothing.unwrap(), ["mcp", "--no-config", "--workspace", "/w"]);
        let common = GlobalOptions {
            mounts: vec!["@docs=docs:ro".to_owned(), "@more=/more".to_owned()],
            state_dir: Some("state".into()),
            profile: Some("studio".to_owned()),
            agent: Some("reviewer".parse().unwrap()),
            trust: Some(toolgate_types::Trust::Autonomous),
            ..GlobalOptions::default()
        };
        let words = gate_arguments(&common, Some(Path::new("/etc/toolgate.yaml")), None, absolute).unwrap();
        assert_eq!(
            words.join(" "),
            "mcp --config /etc/toolgate.yaml --mount @docs=/here/docs:ro --mount @more=/more --state-dir /here/state \
             --profile studio --agent reviewer --trust autonomous"
        );
    }

    #[test]
    fn an_entry_for_a_project_names_no_path_of_one_person() {
        let plain = GlobalOptions { agent: Some("reviewer".parse().unwrap()), ..GlobalOptions::default() };
        let of = |common: &GlobalOptions, client: &str, config: Option<FoundConfig>| {
            portable_arguments(common, client, config).map(|words| words.join(" "))
        };
        let found = |names_workspace| Some(FoundConfig { names_workspace });
        for (client, config, expected) in [
            ("claude-code", None, Some("mcp --no-config --agent reviewer")),
            ("claude-code", found(false), Some("mcp --agent reviewer")),
            ("vscode", None, Some("mcp --no-config --agent reviewer --workspace ${workspaceFolder}")),
            ("vscode", found(true), Some("mcp --agent reviewer")),
            // It is not known where it starts its servers.
            ("junie", None, None),
        ] {
            assert_eq!(of(&plain, client, config).as_deref(), expected, "{client}");
        }
        let named = GlobalOptions { workspace: Some("/home/sam".into()), ..plain };
        assert_eq!(of(&named, "vscode", None), None);
    }
}
