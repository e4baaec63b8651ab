//! `toolgate tools new`: creates a manifest for a command.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_assembly::ambient::{HostEnvironment, real_path, write_new_file};
use toolgate_assembly::settings::LoadedConfig;
use toolgate_assembly::trust::ConfigOrigin;
use toolgate_manifest::skeleton;
use toolgate_types::ToolName;

use super::print;
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS};
use crate::startup::load_config;
use crate::terminal::warn;

/// The default directory of manifests.
const DEFAULT_DIRECTORY: &str = "tools.d";

pub(crate) fn run(
    common: &GlobalOptions,
    name: &ToolName,
    output: Option<&Path>,
    words: &[String],
) -> Result<u8, CliError> {
    let text =
        skeleton(name, words).map_err(|error| CliError::usage(error.to_string()).help(error.help()))?;
    if output == Some(Path::new("-")) {
        return print(&text).map(|_| SUCCESS);
    }
    let surroundings = HostEnvironment::detect()?;
    let loaded = load_config(common, &surroundings)?;
    let file = match output {
        Some(file) => surroundings.absolute(file)?,
        None => loaded.directory().join(DEFAULT_DIRECTORY).join(format!("{name}.yaml")),
    };
    let shown = surroundings.display_path(&file);
    let is_named = is_named(&loaded, &file, &surroundings);
    if output.is_none() && !is_named && !real_path(&file).starts_with(real_path(loaded.directory())) {
        return Err(CliError::usage(format!("`{shown}` leads out of its folder by a link"))
            .help("name the file with --output"));
    }
    write_new_file(&file, text.as_bytes(), 0o644).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => CliError::usage(format!("`{shown}` is there already"))
            .help("name another file with --output, or - to write to standard output"),
        _ => CliError::usage(format!("`{shown}` cannot be written: {error}")),
    })?;
    match common.json {
        true => print(&format!("{}\n", json!({"tool": name, "file": shown})))?,
        false => print(&format!("wrote {shown}\n"))?,
    };
    warn(&format!("narrow it by hand, then run `toolgate check {shown}`"));
    if !is_named {
        let place =
            loaded.file().map_or_else(|| "toolgate.yaml".to_owned(), |file| surroundings.display_path(file));
        let entry =
            file.parent().filter(|_| output.is_none()).map_or(shown, |_| DEFAULT_DIRECTORY.to_owned());
        warn(&format!("to use it, write `tools: [{entry}]` in {place}"));
    }
    if is_named && matches!(loaded.origin, ConfigOrigin::Found(_)) {
        warn("it counts once you agree to it: run `toolgate trust`");
    }
    Ok(SUCCESS)
}

/// Whether the configuration names the file or its directory.
fn is_named(loaded: &LoadedConfig, file: &Path, surroundings: &HostEnvironment) -> bool {
    let named = loaded.config.tools.iter().filter_map(|path| loaded.resolve(&path.value, surroundings).ok());
    let mut named = named.map(|path: PathBuf| real_path(&path));
    let file = real_path(file);
    named.any(|path| path == file || Some(path.as_path()) == file.parent())
}
