//! The command that a client starts.

use std::path::{Path, PathBuf};

use crate::arguments::GlobalOptions;

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
}
