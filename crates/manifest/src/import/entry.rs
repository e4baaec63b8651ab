//! One server of a client, as an entry of `mcp_servers`.

use serde_json::{Map, Value};

use super::secret::{holds_secret, is_secret, variable};
use crate::tool::{is_reserved, is_variable, quoted};

type Fields = Map<String, Value>;

/// Keys that say what to run or where to go, under all the names that clients have for them.
const TAKEN: &[&str] = &[
    "command",
    "args",
    "env",
    "environment",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "type",
    "transport",
    "disabled",
    "enabled",
    "source",
];

/// Keys that let calls through unasked.
const UNASKED: &[&str] =
    &["autoApprove", "alwaysAllow", "alwaysApprove", "auto_approve", "trust", "autoAllow"];

/// A name that `mcp_servers` can have and nobody else has.
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

/// The lines of an entry; an error is why there is none.
pub(super) fn lines(server: &str, fields: &Fields, notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let mut lines = match address(fields) {
        Some(url) => remote(server, url, fields, notes)?,
        None => process(server, fields, notes)?,
    };
    if is_off(fields) {
        lines.push("disabled: true".to_owned());
    }
    lines.push("# Say what each tool can do: until then all of them count as destructive.".to_owned());
    lines.push("# tools: {NAME: {class: read}}".to_owned());
    left_out(fields, notes);
    Ok(lines)
}

fn address(fields: &Fields) -> Option<&str> {
    ["url", "serverUrl", "httpUrl"].iter().find_map(|key| fields.get(*key)).and_then(Value::as_str)
}

fn is_off(fields: &Fields) -> bool {
    fields.get("disabled") == Some(&Value::Bool(true)) || fields.get("enabled") == Some(&Value::Bool(false))
}

/// Says what was not taken over.
fn left_out(fields: &Fields, notes: &mut Vec<String>) {
    for key in fields.keys().filter(|key| !TAKEN.contains(&key.as_str())) {
        let note = if UNASKED.contains(&key.as_str()) {
            format!(
                "`{key}` is not taken over: which calls are asked about follows from trust and from each tool's class"
            )
        } else {
            format!("`{}` is not taken over", key.escape_debug())
        };
        notes.push(note);
    }
}

fn remote(server: &str, url: &str, fields: &Fields, notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    if holds_secret(url) {
        return Err("its address holds a password; write it by hand, with a variable in `headers`".to_owned());
    }
    let kind = ["type", "transport"].iter().find_map(|key| fields.get(*key)).and_then(Value::as_str);
    if kind == Some("sse") || url.trim_end_matches('/').ends_with("/sse") {
        notes.push("the older SSE transport is not spoken; ask for its streamable HTTP address".to_owned());
    }
    let mut lines = vec![format!("url: {}", quoted(&variables(url, notes).text))];
    let headers = texts(fields.get("headers"), "headers")?;
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(format!("  {}: {}", quoted(name), quoted(&header(server, name, &value, notes))));
    }
    if !written.is_empty() {
        lines.push("headers:".to_owned());
        lines.extend(written);
    }
    Ok(lines)
}

fn header(server: &str, name: &str, value: &str, notes: &mut Vec<String>) -> String {
    let Translated { text, has_variable } = variables(value, notes);
    if has_variable {
        return text;
    }
    let is_authorization = name.eq_ignore_ascii_case("authorization");
    if !is_authorization && !is_secret(name, value) {
        return text;
    }
    let (scheme, word) = match value.split_once(' ') {
        Some((scheme, _)) if is_authorization => (format!("{scheme} "), "token"),
        _ => (String::new(), if is_authorization { "token" } else { name }),
    };
    let variable = variable(&[server, word]);
    notes.push(format!(
        "put the value of the header `{name}` into the variable `{variable}`; it was not copied"
    ));
    format!("{scheme}${{{variable}}}")
}

fn process(server: &str, fields: &Fields, notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let (program, arguments) = command(fields)?;
    let mut lines = vec![format!("command: {}", quoted(&program))];
    let mut sees_project = false;
    let mut written = Vec::new();
    for argument in &arguments {
        written.push(quoted(&self::argument(server, argument, &mut sees_project, notes)));
    }
    if !written.is_empty() {
        lines.push(format!("args: [{}]", written.join(", ")));
    }
    lines.extend(environment(fields, notes)?);
    if let Some(directory) = fields.get("cwd").and_then(Value::as_str) {
        match in_project(directory) {
            Some(place) => lines.push(format!("cwd: \"{place}\"")),
            None => notes
                .push(format!("`cwd` is not taken over: mount `{}` and name the mount", shown(directory))),
        }
    }
    lines.push(if sees_project {
        "mounts: [\"@project\"]".to_owned()
    } else {
        "# mounts: [\"@project\"]  # it sees none yet; add `:rw` where it may change files".to_owned()
    });
    lines.push("# network: [api.example.com]  # it reaches nothing yet".to_owned());
    programs(&program, notes);
    Ok(lines)
}

/// What is run: as most clients write it, in one list as opencode does, or in an object as older versions of Zed do.
fn command(fields: &Fields) -> Result<(String, Vec<String>), String> {
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

fn argument(server: &str, text: &str, sees_project: &mut bool, notes: &mut Vec<String>) -> String {
    let (option, value) = match text.split_once('=') {
        Some((option, value)) if text.starts_with('-') => (format!("{option}="), value),
        _ => (String::new(), text),
    };
    if holds_secret(value) {
        let variable = variable(&[server, "secret"]);
        notes.push(format!(
            "put the secret among the arguments into the variable `{variable}`; it was not copied"
        ));
        return format!("{option}${{{variable}}}");
    }
    let text = match text.contains(PROJECT_FOLDER) {
        true => {
            *sees_project = true;
            text.replace(PROJECT_FOLDER, "/mnt/project")
        }
        false => text.to_owned(),
    };
    if value.starts_with('/') && value.len() > 1 || value.starts_with("~/") {
        notes.push(format!(
            "`{}` is a path of the host: mount what it needs, and write `/mnt/NAME`",
            shown(value)
        ));
    }
    variables(&text, notes).text
}

fn environment(fields: &Fields, notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let key = if fields.contains_key("environment") { "environment" } else { "env" };
    let mut lines = Vec::new();
    for (name, value) in texts(fields.get(key), key)? {
        if !is_variable(name) || is_reserved(name) {
            notes.push(format!(
                "the variable `{}` is not taken over: the sandbox sets what a server needs",
                shown(name)
            ));
            continue;
        }
        let Translated { mut text, has_variable } = variables(&value, notes);
        if !has_variable && is_secret(name, &value) {
            notes.push(format!(
                "put the value of `{name}` into a variable of that name for the gate; it was not copied"
            ));
            text = format!("${{{name}}}");
        }
        lines.push(format!("  {}: {}", quoted(name), quoted(&text)));
    }
    if !lines.is_empty() {
        lines.insert(0, "env:".to_owned());
    }
    Ok(lines)
}

/// The members of an object whose values are text, numbers or yes and no.
fn texts<'v>(value: Option<&'v Value>, key: &str) -> Result<Vec<(&'v str, String)>, String> {
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

/// The folder that an editor has open.
const PROJECT_FOLDER: &str = "${workspaceFolder}";

fn in_project(directory: &str) -> Option<String> {
    let rest = directory.strip_prefix(PROJECT_FOLDER).or_else(|| directory.strip_prefix('.'))?;
    Some(format!("@project{}", rest.trim_end_matches('/')))
}

/// Text with the variables of a client as variables of the gate.
struct Translated {
    text: String,
    has_variable: bool,
}

/// `${env:NAME}` and `{env:NAME}` become `${NAME}`, `${input:name}` and whatever else a client knows a variable of its own.
fn variables(text: &str, notes: &mut Vec<String>) -> Translated {
    let mut translated = String::new();
    let mut has_variable = false;
    let mut rest = text;
    while let Some((at, inside, behind)) = next_variable(rest) {
        translated.push_str(rest.get(..at).unwrap_or_default());
        let (name, otherwise) = inside.split_once(":-").map_or((inside, ""), |(name, _)| (name, inside));
        let (kind, bare) = name.split_once(':').unwrap_or(("", name));
        let known = match (kind, bare) {
            ("", "userHome") => "HOME".to_owned(),
            ("" | "env", bare) if is_variable(bare) => bare.to_owned(),
            (_, bare) => variable(&[bare]),
        };
        if kind != "env" && known != bare {
            notes.push(format!("`${{{}}}` is the variable `{known}` here", shown(inside)));
        }
        let otherwise = otherwise.split_once(":-").map(|(_, text)| format!(":-{text}")).unwrap_or_default();
        translated.push_str(&format!("${{{known}{otherwise}}}"));
        has_variable = true;
        rest = behind;
    }
    translated.push_str(rest);
    Translated { text: translated, has_variable }
}

/// Where the next variable is, what it is called, and what follows it.
fn next_variable(text: &str) -> Option<(usize, &str, &str)> {
    let dollar = text.find("${").map(|at| (at, 2));
    let braces = text.find("{env:").map(|at| (at, 1));
    let (at, width) = [dollar, braces].into_iter().flatten().min_by_key(|(at, _)| *at)?;
    let (inside, behind) = text.get(at + width..)?.split_once('}')?;
    Some((at, inside, behind))
}

/// What is worth knowing about some programs.
fn programs(program: &str, notes: &mut Vec<String>) {
    let name = program.rsplit('/').next().unwrap_or_default();
    let note = match name {
        "npx" | "bunx" | "uvx" | "pipx" | "pnpx" => {
            format!(
                "`{name}` downloads at every start, which needs `network` and somewhere to write; better install the server and name its program"
            )
        }
        "docker" | "podman" => {
            format!("`{name}` does not work inside the sandbox; name the server's own program")
        }
        "cmd" | "cmd.exe" | "powershell" | "pwsh" => format!("`{name}` is no program of this system"),
        _ => return,
    };
    notes.push(note);
}

fn shown(text: &str) -> String {
    crate::problem::shown(text)
}
