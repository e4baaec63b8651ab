//! `toolgate check`: every problem of a configuration, with file, line and remedy.

use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_manifest::{Config, Problem};
use toolgate_tools::Profile;

use super::print;
use crate::ambient::{Surroundings, find_upward, read_file};
use crate::arguments::Common;
use crate::exit::{DONE, Failed, USAGE};
use crate::settings::reserved;

pub(crate) fn run(common: &Common, files: &[PathBuf]) -> Result<u8, Failed> {
    let surroundings = Surroundings::look()?;
    let files = match (files.is_empty(), &common.config) {
        (false, _) => files.to_vec(),
        (true, Some(file)) => vec![file.clone()],
        (true, None) => find_upward(&surroundings.current).into_iter().collect(),
    };
    if files.is_empty() {
        return Err(Failed::usage("there is no toolgate.yaml here or in a folder above")
            .help("name the file to check"));
    }
    let mut problems = Vec::new();
    for file in &files {
        problems.extend(check_file(common, file, &surroundings)?);
    }
    let checked: Vec<String> = files.iter().map(|file| surroundings.shown(file)).collect();
    if common.json {
        print(&format!("{}\n", json!({"files": checked, "problems": problems})))?;
    } else if problems.is_empty() {
        print(&format!("ok: {} checked, no problems\n", checked.join(", ")))?;
    } else {
        let rendered: Vec<String> = problems.iter().map(Problem::render).collect();
        print(&rendered.join("\n"))?;
    }
    Ok(if problems.is_empty() { DONE } else { USAGE })
}

fn check_file(common: &Common, file: &Path, surroundings: &Surroundings) -> Result<Vec<Problem>, Failed> {
    let absolute = surroundings.absolute(file)?;
    let bytes = read_file(&absolute).map_err(|error| {
        Failed::usage(format!("`{}` cannot be read: {error}", file.display())).help("name an existing file")
    })?;
    let config = match Config::parse_bytes(&surroundings.shown(file), &bytes) {
        Ok(config) => config,
        Err(problems) => return Ok(problems.as_slice().to_vec()),
    };
    let profile: Profile = match (&common.profile, &config.profile) {
        (Some(name), _) => name.parse().map_err(Failed::usage)?,
        (None, Some(name)) => name.value.as_str().parse().map_err(Failed::usage)?,
        (None, None) => Profile::Native,
    };
    let taken = config.mounts.iter().filter_map(|mount| {
        let help = reserved(&mount.alias.value)?;
        let message = format!("`{}` cannot be mounted by hand", mount.alias.value);
        Some(config.problem_at(&mount.alias, message, Some(help.to_owned())))
    });
    Ok(taken.chain(config.check_tools(&profile.tool_names())).collect())
}
