//! The files beside the configuration that it names: tool manifests, policies, keys.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_llm::Wire;
use toolgate_manifest::{Config, ConfigProblem, ConfigProblems, DeclaredPath, Located};

use crate::ambient::{HostEnvironment, list_directory, read_regular_file};
use crate::settings::LoadedConfig;
use crate::trust::CoveredConfig;

/// Parses a configuration. Whether its model servers speak known wires is checked here, since `manifest` does not know the wires.
pub fn parse_config(shown: &str, bytes: &[u8]) -> Result<Config, ConfigProblems> {
    Config::parse_bytes(shown, bytes)?.require_wires(Wire::NAMES)
}

/// A file or directory that the configuration names.
#[derive(Clone, Debug)]
pub struct ConfiguredPath {
    /// Where it is named.
    pub at: Located<DeclaredPath>,
    /// Where it is.
    pub path: PathBuf,
}

/// Where the content of the files comes from that a configuration names: manifests, policies, system prompts, keys.
#[derive(Clone, Debug)]
pub enum FileSource {
    /// The configuration was named explicitly: its files are read from disk when they are needed.
    OnDisk,
    /// The user agreed to exactly these bytes, which were read once; the disk is not read again.
    Agreed(Arc<CoveredConfig>),
}

impl FileSource {
    /// The files of a directory by name; `None` if the path is not a directory.
    fn list(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        match self {
            Self::OnDisk => list_directory(path),
            Self::Agreed(covered) => Ok(covered.list(path)),
        }
    }

    /// The content of a file. A FIFO or a device is refused: opening or reading it could block for ever.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self {
            Self::OnDisk => read_regular_file(path),
            Self::Agreed(covered) => covered.read(path),
        }
    }
}

/// One file with its content.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path as messages show it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The file extensions of manifests.
pub const MANIFEST_EXTENSIONS: &[&str] = &["yaml", "yml"];
/// The file extensions of policies.
pub const POLICY_EXTENSIONS: &[&str] = &["cedar"];

impl ConfiguredPath {
    /// The file itself, or the files of the directory by name. Subdirectories are not searched.
    pub fn files(&self, endings: &[&str], from: &FileSource) -> io::Result<Vec<PathBuf>> {
        let Some(files) = from.list(&self.path)? else { return Ok(vec![self.path.clone()]) };
        Ok(files.into_iter().filter(|file| ends_with(file, endings)).collect())
    }
}

/// Whether a file has one of these extensions.
pub fn ends_with(file: &Path, endings: &[&str]) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

/// Reads all files of these paths.
pub fn read_all(
    named: &[ConfiguredPath],
    endings: &[&str],
    loaded: &LoadedConfig,
    surroundings: &HostEnvironment,
) -> Result<Vec<SourceFile>, Vec<ConfigProblem>> {
    let (mut contents, mut problems): (Vec<SourceFile>, Vec<ConfigProblem>) = (Vec::new(), Vec::new());
    for one in named {
        let from = &loaded.file_source;
        let read = one.files(endings, from).and_then(|files| {
            files
                .into_iter()
                .map(|path| read(path, from, surroundings))
                .collect::<io::Result<Vec<SourceFile>>>()
        });
        match read {
            // A file that is named twice, by itself and through its directory, counts once.
            Ok(read) => {
                let is_new = |content: &SourceFile| !contents.iter().any(|known| known.path == content.path);
                let fresh: Vec<SourceFile> = read.into_iter().filter(is_new).collect();
                contents.extend(fresh);
            }
            Err(error) => problems.push(unreadable(&loaded.config, &one.at, &error)),
        }
    }
    if problems.is_empty() { Ok(contents) } else { Err(problems) }
}

fn read(path: PathBuf, from: &FileSource, surroundings: &HostEnvironment) -> io::Result<SourceFile> {
    let name = surroundings.display_path(&path);
    let bytes = from.read(&path).map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    Ok(SourceFile { name, path, bytes })
}

/// The problem of a named path that cannot be read.
pub fn unreadable(config: &Config, at: &Located<DeclaredPath>, error: &io::Error) -> ConfigProblem {
    let message = format!("`{}` cannot be read: {error}", at.value.as_str());
    config.problem_at(at, message, Some("name something that exists and that you may read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_server_of_an_unknown_wire_is_a_mistake_with_its_place() {
        for wire in Wire::NAMES {
            let text = format!("models:\n  near: {{wire: {wire}}}\n");
            assert!(parse_config("toolgate.yaml", text.as_bytes()).is_ok(), "{wire}");
        }
        let problems = parse_config("toolgate.yaml", b"models:\n  near: {wire: grpc}\n").unwrap_err();
        assert_eq!(
            problems.to_string(),
            "toolgate.yaml:2:16: `grpc` is not a wire — use `anthropic`, `openai`, `openai-chat` or `ollama`"
        );
    }
}
