//! Converts one server of a client into an entry of `mcp_servers`.

use serde_json::{Map, Value};

use super::arguments::{PROJECT_FOLDER, arguments};
use super::container_command::container_command;
use super::container_entry::container_lines;
use super::known_servers::{KnownServer, known_server, resembles};
use super::package_command::{PackageCommand, package_command};
use super::secret_variables::ServerImport;
use toolgate_manifest::{is_reserved, is_variable, quoted};
use toolgate_text::secret_detection::contains_secret;

type ServerFields = Map<String, Value>;

/// Keys for the program or the URL, under all names that clients use.
const IMPORTED_KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "environment",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "env_vars",
    "type",
    "transport",
    "disabled",
    "enabled",
    "source",
];

/// Keys that auto-approve calls.
const AUTO_APPROVE_KEYS: &[&str] =
    &["autoApprove", "alwaysAllow", "alwaysApprove", "auto_approve", "trust", "autoAllow"];

/// Why a gate is not put behind itself.
pub(super) const THIS_GATE: &str = "it is this gate itself";

/// A valid and unused name for `mcp_servers`.
pub(super) fn name(wanted: &str, taken: &[&str]) -> String {
    let mut name = String::new();
    for character in wanted.chars().map(|character| character.to_ascii_lowercase()) {
        match character {
            'a'..='z' | '0'..='9' => name.push(character),
            '-' | '.' | ' ' | '/' | '@' | ':' if !name.is_empty() && !name.ends_with(['-', '_']) => {
                name.push('-')
            }
            '_' if !name.is_empty() && !name.ends_with(['-', '_']) => name.push('_'),
            _ => {}
        }
    }
    let short: String = name.chars().take(28).collect();
    let base = match short.trim_end_matches(['-', '_']) {
        "" => "server",
        base => base,
    };
    let numbered = (2..).map(|number: u32| format!("{base}-{number}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(&name.as_str())).unwrap_or_default()
}

/// The lines of an entry, or why there is none.
pub(super) fn lines(fields: &ServerFields, taking: &mut ServerImport<'_>) -> Result<Vec<String>, String> {
    let mut lines = match address(fields) {
        Some(url) => remote(url, fields, taking)?,
        None => process(fields, taking)?,
    };
    if is_off(fields) {
        lines.push("disabled: true".to_owned());
    }
    lines.push("# Say what each tool can do: until then all of them count as destructive.".to_owned());
    lines.push("# tools: {NAME: {class: read}}".to_owned());
    note_skipped_keys(fields, &mut taking.notes);
    Ok(lines)
}

fn address(fields: &ServerFields) -> Option<&str> {
    ["url", "serverUrl", "httpUrl"].iter().find_map(|key| fields.get(*key)).and_then(Value::as_str)
}

fn is_off(fields: &ServerFields) -> bool {
    fields.get("disabled") == Some(&Value::Bool(true)) || fields.get("enabled") == Some(&Value::Bool(false))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Notes which keys were not imported.
fn note_skipped_keys(fields: &ServerFields, notes: &mut Vec<String>) {
    for key in fields.keys().filter(|key| !IMPORTED_KEYS.contains(&key.as_str())) {
        let note = if AUTO_APPROVE_KEYS.contains(&key.as_str()) {
            format!(
                "`{key}` is not taken over: which calls are asked about follows from trust and from each tool's class"
            )
        } else {
            format!("`{}` is not taken over", key.escape_debug())
        };
        notes.push(note);
    }
}

fn remote(url: &str, fields: &ServerFields, taking: &mut ServerImport<'_>) -> Result<Vec<String>, String> {
    let url = taking.address(url)?;
    let kind = ["type", "transport"].iter().find_map(|key| fields.get(*key)).and_then(Value::as_str);
    if kind == Some("sse") || (kind.is_none() && url.trim_end_matches('/').ends_with("/sse")) {
        let reason =
            "it speaks the older SSE transport, and the gate does not; ask for its streamable HTTP address";
        return Err(reason.to_owned());
    }
    let mut lines = vec![format!("url: {}", quoted(&url))];
    let mut written = Vec::new();
    for key in ["headers", "http_headers"] {
        for (name, value) in texts(fields.get(key), key)? {
            written.push(format!("  {}: {}", quoted(name), quoted(&taking.header(name, &value))));
        }
    }
    // Codex names variables of its own environment.
    let named = texts(fields.get("env_http_headers"), "env_http_headers")?;
    let bearer = fields.get("bearer_token_env_var").and_then(Value::as_str);
    let named = named.iter().map(|(name, variable)| (*name, "", variable.as_str()));
    for (name, scheme, variable) in named.chain(bearer.map(|variable| ("Authorization", "Bearer ", variable)))
    {
        // Some files contain the token itself here, so it is not quoted.
        if !is_variable(variable) || contains_secret(variable) {
            let reason = "`bearer_token_env_var` and `env_http_headers` name variables, and this is none; it was not copied";
            return Err(reason.to_owned());
        }
        written.push(format!("  {}: {}", quoted(name), quoted(&format!("{scheme}${{{variable}}}"))));
    }
    if !written.is_empty() {
        lines.push("headers:".to_owned());
        lines.extend(written);
    }
    Ok(lines)
}

fn process(fields: &ServerFields, taking: &mut ServerImport<'_>) -> Result<Vec<String>, String> {
    let (program, words) = command(fields)?;
    // The words after the program may be a secret, so none of them is quoted.
    if program.contains(char::is_whitespace) || contains_secret(&program) {
        let reason = "its command is more than a program; write it by hand, with the rest of it in `args`";
        return Err(reason.to_owned());
    }
    let (started, further) = started(&program, &words);
    if base_name(started) == "toolgate" && further.iter().any(|word| word == "mcp") {
        return Err(THIS_GATE.to_owned());
    }
    if let Some(command) = container_command(started, further) {
        return container_lines(command?, fields, taking);
    }
    let package = match package_command(started, further) {
        Some(Ok(package)) => Some(package),
        Some(Err(reason)) => {
            taking.notes.push(format!(
                "it is not installed apart from running: {reason}; install it by hand, and name its program"
            ));
            None
        }
        None => None,
    };
    for option in package.iter().flat_map(|package| &package.dropped) {
        taking.notes.push(format!(
            "`{}` is not taken over: the package is installed for the interpreter of this machine",
            shown(option)
        ));
    }
    let known = package.as_ref().and_then(|package| known_server(package.spec.name()));
    if let Some((package, other)) =
        package.as_ref().and_then(|package| Some((package.spec.name(), resembles(package.spec.name())?)))
    {
        taking.notes.push(format!(
            "`{}` is not the well-known `{other}`: look whether it is what you mean",
            shown(package)
        ));
    }
    let mut lines = match &package {
        Some(package) => package_lines(package, known),
        None => vec![format!("command: {}", quoted(&program))],
    };
    let words = package.as_ref().map_or(words.clone(), |package| package.arguments.clone());
    let words = arguments(&words, taking);
    lines.extend(arguments_line(&words));
    taking.browser = known.and_then(|known| known.browser).filter(|browser| {
        let option =
            |word: &str| word.split('=').next().is_some_and(|option| browser.replaced_by.contains(&option));
        !words.iter().any(|word| option(word))
    });
    taking.words = words;
    taking.writes = known.is_some_and(|known| known.writes);
    lines.extend(with_known(environment(fields, taking)?, known));
    if let Some(directory) = fields.get("cwd").and_then(Value::as_str) {
        match in_project(directory) {
            Some(place) => lines.push(format!("cwd: \"{place}\"")),
            None if directory.starts_with('/') || directory.starts_with("~/") => {
                taking.directory = Some(taking.path(directory.to_owned()));
            }
            None => taking
                .notes
                .push(format!("`cwd` is not taken over: mount `{}` and name the mount", shown(directory))),
        }
    }
    lines.push(if taking.sees_project {
        "mounts: [\"@project\"]".to_owned()
    } else {
        "# mounts: [\"@project\"]  # it sees none yet; add `:rw` where it may change files".to_owned()
    });
    lines.push(match known.map(|known| known.network) {
        None | Some([]) => "# network: [api.example.com]  # it reaches nothing yet".to_owned(),
        Some(hosts) => {
            let hosts: Vec<String> = hosts.iter().map(|host| quoted(host)).collect();
            format!("network: [{}]", hosts.join(", "))
        }
    });
    taking.notes.extend(known.and_then(|known| known.note).map(str::to_owned));
    programs(started, &mut taking.notes);
    Ok(lines)
}

/// The line with the arguments, if there are any.
pub(super) fn arguments_line(words: &[String]) -> Option<String> {
    let written: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    (!written.is_empty()).then(|| format!("args: [{}]", written.join(", ")))
}

fn package_lines(package: &PackageCommand, known: Option<&KnownServer>) -> Vec<String> {
    let mut lines = vec![format!("package: {}", quoted(&package.spec.to_string()))];
    lines.extend(package.program.as_ref().map(|program| format!("command: {}", quoted(program))));
    let mut with: Vec<String> = package.with.iter().map(|spec| quoted(&spec.requirement())).collect();
    if with.is_empty() {
        with.extend(known.into_iter().flat_map(|known| known.with).map(|spec| quoted(spec)));
    }
    if !with.is_empty() {
        lines.push(format!("with: [{}]", with.join(", ")));
    }
    lines
}

/// The variables of an entry, and those that a well-known server needs and the entry does not set.
fn with_known(mut lines: Vec<String>, known: Option<&KnownServer>) -> Vec<String> {
    let needed = known.map(|known| known.environment).unwrap_or_default();
    let is_set = |name: &str| lines.iter().any(|line| line.trim_start().starts_with(&format!("{name}:")));
    let added: Vec<String> = needed
        .iter()
        .filter(|(name, _)| !is_set(name))
        .map(|(name, value)| format!("  {}: {}", quoted(name), quoted(value)))
        .collect();
    if !added.is_empty() && lines.is_empty() {
        lines.push("env:".to_owned());
    }
    lines.extend(added);
    lines
}

/// The program that a server runs in the end; `None` for a URL.
pub(super) fn program(fields: &ServerFields) -> Option<String> {
    let (program, words) = address(fields).is_none().then(|| command(fields).ok()).flatten()?;
    Some(started(&program, &words).0.to_owned())
}

/// The program and its arguments, after a leading `env`.
fn started<'w>(program: &'w str, words: &'w [String]) -> (&'w str, &'w [String]) {
    if base_name(program) != "env" {
        return (program, words);
    }
    let mut rest = words;
    while let [word, further @ ..] = rest {
        rest = match word.as_str() {
            "-u" | "--unset" | "-C" | "--chdir" | "-a" | "--argv0" => further.get(1..).unwrap_or_default(),
            option if option.starts_with('-') || option.contains('=') => further,
            program => return started(program, further),
        };
    }
    (program, words)
}

/// The command: as most clients write it, as one list (opencode), or as an object (older versions of Zed).
fn command(fields: &ServerFields) -> Result<(String, Vec<String>), String> {
    let listed = |value: Option<&Value>| -> Result<Vec<String>, String> {
        let items = match value {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err("its arguments are not a list".to_owned()),
        };
        let item =
            |item: &Value| item.as_str().map(str::to_owned).ok_or("an argument is not text".to_owned());
        items.iter().map(item).collect()
    };
    match fields.get("command") {
        Some(Value::String(program)) => Ok((program.clone(), listed(fields.get("args"))?)),
        Some(list @ Value::Array(_)) => {
            let mut words = listed(Some(list))?.into_iter();
            let program = words.next().ok_or("its command is empty")?;
            Ok((program, words.collect()))
        }
        Some(Value::Object(inner)) => match inner.get("path").and_then(Value::as_str) {
            Some(program) => Ok((program.to_owned(), listed(inner.get("args"))?)),
            None => Err("its command has no `path`".to_owned()),
        },
        _ => Err("it has neither a command nor an address".to_owned()),
    }
}

fn environment(fields: &ServerFields, taking: &mut ServerImport<'_>) -> Result<Vec<String>, String> {
    let key = if fields.contains_key("environment") { "environment" } else { "env" };
    let mut lines = Vec::new();
    for (name, value) in texts(fields.get(key), key)? {
        if !is_variable(name) || is_reserved(name) {
            taking.notes.push(sandbox_decides(name));
            continue;
        }
        lines.push(format!("  {}: {}", quoted(name), quoted(&taking.variable(name, &value))));
    }
    lines.extend(passed_on(fields, key, &mut taking.notes));
    if !lines.is_empty() {
        lines.insert(0, "env:".to_owned());
    }
    Ok(lines)
}

/// The variables that Codex passes through from its environment, except those with an explicit value.
fn passed_on(fields: &ServerFields, said: &str, notes: &mut Vec<String>) -> Vec<String> {
    let named = match fields.get("env_vars") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(named)) => named.as_slice(),
        Some(_) => {
            notes.push("`env_vars` is not taken over: it is not a list".to_owned());
            return Vec::new();
        }
    };
    let is_said = |name: &str| fields.get(said).is_some_and(|said| said.get(name).is_some());
    let mut lines = Vec::new();
    for value in named {
        // Codex can fetch a variable from another machine, written as an object.
        let (name, is_remote) = match value {
            Value::Object(named) => (
                named.get("name").and_then(Value::as_str),
                named.get("source").is_some_and(|source| source.as_str() != Some("local")),
            ),
            value => (value.as_str(), false),
        };
        match name {
            Some(name) if is_said(name) => {}
            Some(name) if is_remote => notes.push(format!(
                "the variable `{}` is not taken over: it is not one of this machine",
                shown(name)
            )),
            // An invalid name may be a secret, so it is not quoted.
            Some(name) if !is_variable(name) || contains_secret(name) => notes
                .push("something in `env_vars` is not taken over: it is no name of a variable".to_owned()),
            Some(name) if is_reserved(name) => notes.push(sandbox_decides(name)),
            Some(name) => {
                lines.push(format!("  {}: {}", quoted(name), quoted(&format!("${{{name}}}"))));
            }
            None => notes.push("something in `env_vars` is not taken over: it has no name".to_owned()),
        }
    }
    lines
}

pub(super) fn sandbox_decides(name: &str) -> String {
    format!("the variable `{}` is not taken over: the sandbox sets what a server needs", shown(name))
}

/// The members of an object whose values are strings, numbers or booleans.
pub(super) fn texts<'v>(value: Option<&'v Value>, key: &str) -> Result<Vec<(&'v str, String)>, String> {
    let members = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(format!("its `{key}` is not an object")),
    };
    let member = |(name, value): (&'v String, &Value)| match value {
        Value::String(text) => Some(Ok((name.as_str(), text.clone()))),
        Value::Number(_) | Value::Bool(_) => Some(Ok((name.as_str(), value.to_string()))),
        Value::Null => None,
        _ => Some(Err(format!("`{}` in its `{key}` is not text", shown(name)))),
    };
    members.iter().filter_map(member).collect()
}

fn in_project(directory: &str) -> Option<String> {
    let rest = directory.strip_prefix(PROJECT_FOLDER).or_else(|| directory.strip_prefix('.'))?;
    Some(format!("@project{}", rest.trim_end_matches('/')))
}

/// Notes about some programs.
fn programs(program: &str, notes: &mut Vec<String>) {
    let name = base_name(program);
    let note = match name {
        "cmd" | "cmd.exe" | "powershell" | "pwsh" => format!("`{name}` is no program of this system"),
        _ => return,
    };
    notes.push(note);
}

fn shown(text: &str) -> String {
    toolgate_manifest::shown(text)
}
