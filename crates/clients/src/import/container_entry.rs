//! The lines of an entry whose server is a container image.

use serde_json::{Map, Value};

use super::arguments::{PROJECT_FOLDER, arguments};
use super::container_command::ContainerCommand;
use super::entry::{sandbox_decides, texts};
use super::secret_variables::ServerImport;
use toolgate_manifest::{is_reserved, is_variable, quoted, shown};

pub(super) fn container_lines(
    command: ContainerCommand,
    fields: &Map<String, Value>,
    taking: &mut ServerImport<'_>,
) -> Result<Vec<String>, String> {
    let image = command.image.as_ref().ok_or("it names no image")?;
    let mut lines = vec![format!("package: {}", quoted(&image.to_string()))];
    if let Some(entrypoint) = &command.entrypoint {
        lines.push(format!("entrypoint: {}", quoted(entrypoint)));
    }
    taking.notes.extend(command.notes.iter().cloned());
    let before = taking.paths.len();
    let words: Vec<String> = arguments(&command.arguments, taking).iter().map(|word| quoted(word)).collect();
    // They are paths in the container.
    taking.paths.truncate(before);
    if !words.is_empty() {
        lines.push(format!("args: [{}]", words.join(", ")));
    }
    let variables = environment(&command, fields, taking)?;
    if !variables.is_empty() {
        lines.push("env:".to_owned());
        lines.extend(variables);
    }
    taking.container_paths = Some(Vec::new());
    directories(&command, taking);
    lines.push(match taking.sees_project {
        true => "mounts: [\"@project\"]".to_owned(),
        false => "# mounts: [\"@docs\"]  # it sees none yet, and changes none".to_owned(),
    });
    lines.push("# network: engine  # it reaches nothing yet; the engine's network has no list of hosts, and reaches private addresses".to_owned());
    Ok(lines)
}

/// The variables that the command passes on. What else the client sets is for the engine's own program.
fn environment(
    command: &ContainerCommand,
    fields: &Map<String, Value>,
    taking: &mut ServerImport<'_>,
) -> Result<Vec<String>, String> {
    let given = texts(fields.get("env"), "env")?;
    let mut lines = Vec::new();
    for (name, value) in &command.environment {
        if !is_variable(name) || is_reserved(name) {
            taking.notes.push(sandbox_decides(name));
            continue;
        }
        let value = value
            .clone()
            .or_else(|| given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()));
        let text = match value {
            Some(value) => {
                let before = taking.paths.len();
                let text = taking.variable(name, &value);
                taking.paths.truncate(before);
                text
            }
            None => format!("${{{name}}}"),
        };
        lines.push(format!("  {}: {}", quoted(name), quoted(&text)));
    }
    let is_passed = |name: &str| command.environment.iter().any(|(known, _)| known == name);
    for (name, _) in given.iter().filter(|(name, _)| !is_passed(name)) {
        taking
            .notes
            .push(format!("the variable `{}` is not passed to the container by its command", shown(name)));
    }
    Ok(lines)
}

fn directories(command: &ContainerCommand, taking: &mut ServerImport<'_>) {
    for (source, target, writable) in &command.directories {
        if source == PROJECT_FOLDER {
            taking.sees_project = true;
            taking.container_paths.get_or_insert_default().push((source.clone(), target.clone()));
        } else {
            let before = taking.paths.len();
            let path = taking.path(source.clone());
            if taking.paths.len() == before {
                taking
                    .notes
                    .push(format!("`{}` is not shown to it: it is not an absolute path", shown(source)));
                continue;
            }
            taking.container_paths.get_or_insert_default().push((path, target.clone()));
        }
        if *writable {
            taking.notes.push(format!(
                "`{}` is read-only: what a container leaves in a directory is not looked through",
                shown(source)
            ));
        }
    }
}
