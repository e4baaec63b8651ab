//! The workspace of a session, where no option and no configuration names one: a root of the client, or else the current directory.
//!
//! A root only ever narrows: it counts if it is the directory that the operator allowed (`--roots-below`, or else the current directory, which would
//! have been the workspace) or lies below it. Roots are read when the session begins, and not again.

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;
use toolgate_assembly::ambient::{is_directory, real_path};
use toolgate_assembly::settings::Settings;
use toolgate_serve::{ServedSurfaces, StdioOpening};
use toolgate_types::Trust;

use super::mcp::standard_streams;
use super::mcp_startup_error;
use crate::arguments::GlobalOptions;
use crate::exit::CliError;
use crate::startup::resolve_settings;
use crate::terminal::{escape_line, warn};

/// A session whose workspace is known.
pub(super) struct BegunSession {
    /// With the workspace, if a root decided it.
    pub(super) common: GlobalOptions,
    pub(super) settings: Settings,
    /// What was read of it.
    pub(super) opening: StdioOpening,
}

/// Asks the client for its roots, if these decide the workspace.
pub(super) fn open(
    common: &GlobalOptions,
    settings: Settings,
    below: Option<&Path>,
    runtime: &Runtime,
) -> Result<BegunSession, CliError> {
    let is_named = common.workspace.is_some() || settings.loaded.config.workspace.is_some();
    if is_named {
        let opening = StdioOpening::default();
        return Ok(BegunSession { common: common.clone(), settings, opening });
    }
    let bound = match below {
        Some(below) => settings.environment.absolute(below)?,
        None => settings.workspace.clone(),
    };
    let has_upstream = !settings.loaded.config.mcp_servers.is_empty();
    let has_prompts = has_upstream && settings.profile.has_native_structure();
    let (input, output) = standard_streams()?;
    let opening = StdioOpening::negotiate(input, output, ServedSurfaces { has_upstream, has_prompts });
    let opening = runtime.block_on(opening).map_err(|error| CliError::error(error.to_string()))?;
    let chosen = match &opening.roots {
        None => allowed_without_roots(&settings.workspace, below.map(|_| bound.as_path())),
        Some(roots) => chosen_root(roots, &bound),
    };
    let begun = chosen.and_then(|chosen| {
        let common = GlobalOptions { workspace: chosen.or(common.workspace.clone()), ..common.clone() };
        let settings = match common.workspace.is_some() {
            true => resolve_settings(&common, Trust::Guided)?,
            false => settings,
        };
        Ok((common, settings))
    });
    match begun {
        Ok((common, settings)) => Ok(BegunSession { common, settings, opening }),
        Err(failed) => {
            mcp_startup_error::answer_after(opening.unanswered(), &failed);
            Err(failed)
        }
    }
}

/// The current directory is the workspace of a client without roots, if the operator allowed it.
fn allowed_without_roots(current: &Path, bound: Option<&Path>) -> Result<Option<PathBuf>, CliError> {
    match bound {
        Some(bound) if !real_path(current).starts_with(real_path(bound)) => {
            let message = format!(
                "the client named no root, and its directory `{}` is not below `{}`",
                escape_line(&current.display().to_string()),
                bound.display()
            );
            Err(CliError::usage(message).help("name the workspace with --workspace"))
        }
        _ => Ok(None),
    }
}

/// The first root that is allowed; `None` if the client has no directory open.
fn chosen_root(roots: &[PathBuf], bound: &Path) -> Result<Option<PathBuf>, CliError> {
    let bound = real_path(bound);
    let is_allowed =
        |root: &PathBuf| bound.parent().is_some() && is_directory(root) && root.starts_with(&bound);
    let named: Vec<PathBuf> = roots.iter().map(|path| real_path(path)).collect();
    let Some(chosen) = named.iter().find(|root| is_allowed(root)) else {
        let Some(first) = named.first() else { return Ok(None) };
        let message = format!(
            "the client's root `{}` is no directory below `{}`, so it does not become the workspace",
            escape_line(&first.display().to_string()),
            bound.display()
        );
        return Err(CliError::usage(message)
            .help("name the workspace with --workspace, or the directory that its roots may lie in with --roots-below"));
    };
    for other in named.iter().filter(|other| *other != chosen) {
        warn(&format!(
            "the workspace is the client's root `{}`; `{}` is left out",
            escape_line(&chosen.display().to_string()),
            escape_line(&other.display().to_string())
        ));
    }
    Ok(Some(chosen.clone()))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_directory_below_what_is_allowed() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| real_path(scratch.path()).join(path);
        for directory in ["work/a b", "work/shop", "workshop"] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        std::fs::write(at("work/file"), "").unwrap();
        std::os::unix::fs::symlink(at("workshop"), at("work/out")).unwrap();
        let chosen = |roots: &[PathBuf]| chosen_root(roots, &at("work"));
        assert_eq!(chosen(&[at("work/a b")]).unwrap(), Some(at("work/a b")));
        assert_eq!(chosen(&[at("work")]).unwrap(), Some(at("work")));
        assert_eq!(chosen(&[]).unwrap(), None);
        // The first that is allowed.
        assert_eq!(
            chosen(&[at("workshop"), at("work/shop"), at("work/a b")]).unwrap(),
            Some(at("work/shop"))
        );
        for outside in ["workshop", "", "work/out", "work/file", "work/missing", "work/../workshop"] {
            let refused = chosen(&[at(outside)]).unwrap_err();
            assert!(
                refused.message.contains("so it does not become the workspace"),
                "{outside}: {}",
                refused.message
            );
        }
        // The current directory, where there are no roots.
        assert!(allowed_without_roots(&at("work/shop"), Some(&at("work"))).is_ok());
        assert!(allowed_without_roots(&at("workshop"), Some(&at("work"))).is_err());
        assert!(allowed_without_roots(&at("workshop"), None).is_ok());
        // The whole machine is no bound.
        assert!(chosen_root(&[at("work")], Path::new("/")).is_err());
    }
}
