//! The files beside the configuration that it names: tool manifests, policies, keys.

use std::path::{Path, PathBuf};

use toolgate_manifest::{Config, DeclaredPath, Located, Problem};

use crate::ambient::{Surroundings, list_folder, read_file};

/// A file or folder that the configuration names.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// Where it is named.
    pub(crate) at: Located<DeclaredPath>,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// One file with its content.
#[derive(Debug)]
pub(crate) struct Content {
    /// The file as messages name it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// How the names of manifests end.
pub(crate) const MANIFESTS: &[&str] = &["yaml", "yml"];
/// How the names of policies end.
pub(crate) const POLICIES: &[&str] = &["cedar"];

impl Named {
    /// The files: itself, or what a folder holds, by name. Folders in a folder are not looked into.
    pub(crate) fn files(&self, endings: &[&str]) -> std::io::Result<Vec<PathBuf>> {
        let Some(files) = list_folder(&self.path)? else { return Ok(vec![self.path.clone()]) };
        Ok(files.into_iter().filter(|file| ends_with(file, endings)).collect())
    }
}

/// Whether a file's name ends like this.
pub(crate) fn ends_with(file: &Path, endings: &[&str]) -> bool {
    file.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}

/// Reads everything that is named.
pub(crate) fn read_all(
    named: &[Named],
    endings: &[&str],
    config: &Config,
    surroundings: &Surroundings,
) -> Result<Vec<Content>, Vec<Problem>> {
    let (mut contents, mut problems): (Vec<Content>, Vec<Problem>) = (Vec::new(), Vec::new());
    for one in named {
        let read = one.files(endings).and_then(|files| {
            files.into_iter().map(|path| read(path, surroundings)).collect::<std::io::Result<Vec<Content>>>()
        });
        match read {
            // A file that is named twice, by itself and in its folder, is one file.
            Ok(read) => {
                let is_new = |content: &Content| !contents.iter().any(|known| known.path == content.path);
                let fresh: Vec<Content> = read.into_iter().filter(is_new).collect();
                contents.extend(fresh);
            }
            Err(error) => problems.push(unreadable(config, &one.at, &error)),
        }
    }
    if problems.is_empty() { Ok(contents) } else { Err(problems) }
}

fn read(path: PathBuf, surroundings: &Surroundings) -> std::io::Result<Content> {
    let name = surroundings.shown(&path);
    let bytes =
        read_file(&path).map_err(|error| std::io::Error::new(error.kind(), format!("{name}: {error}")))?;
    Ok(Content { name, path, bytes })
}

/// A problem with something that is named and cannot be read.
pub(crate) fn unreadable(config: &Config, at: &Located<DeclaredPath>, error: &std::io::Error) -> Problem {
    let message = format!("`{}` cannot be read: {error}", at.value.as_str());
    config.problem_at(at, message, Some("name something that exists and that you may read".to_owned()))
}
