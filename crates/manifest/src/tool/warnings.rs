//! Warnings about what is allowed but probably not intended: schemas that accept more than it seems, tools that do
//! more than they declare.

use std::rc::Rc;

use toolgate_schema::pattern;
use toolgate_types::{ArgumentRole, FlowEffect, ToolClass};

use super::property::Properties;
use super::template::{Element, TemplatePart, TemplatePiece, slots};
use super::{OutputParse, StderrRule, ToolManifest, Treatment, schema};
use crate::decode::{ConfigField, Section};
use crate::problem::shown;
use crate::problem_report::ProblemReport;
use crate::yaml_tree::{ConfigNode, NodeKind};

/// Programs that change files or processes.
pub(super) const WRITERS: &[&str] = &[
    "rm", "rmdir", "mv", "cp", "dd", "tee", "ln", "touch", "mkdir", "mkfifo", "mknod", "truncate", "shred",
    "install", "chmod", "chown", "chgrp", "unlink", "rsync", "patch", "kill", "pkill", "killall", "mount",
    "umount", "mkfs", "wget",
];

/// Programs that run code from their arguments or input.
pub(super) const INTERPRETERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "ash",
    "fish",
    "busybox",
    "pwsh",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "tclsh",
    "expect",
    "awk",
    "gawk",
    "mawk",
    "env",
    "xargs",
    "sudo",
    "su",
    "doas",
    "ssh",
    "eval",
    "osascript",
    "R",
    "Rscript",
    "julia",
    "guile",
    "emacs",
    "vim",
    "ed",
    "make",
];

/// Options that are followed by code.
const CODE_OPTIONS: &[&str] =
    &["-c", "-e", "-E", "-r", "-ec", "-lc", "-ic", "-p", "--eval", "--command", "--exec", "--print"];

/// Words in field names that should hardly ever be sent to a model.
const PRIVATE_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "tokens",
    "secret",
    "secrets",
    "key",
    "keys",
    "apikey",
    "authorization",
    "auth",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "session",
    "ssn",
    "email",
    "emails",
    "phone",
    "iban",
    "card",
    "cvv",
    "pin",
    "dob",
    "birthday",
    "birthdate",
    "address",
];

/// Words in a description that indicate network access.
const NETWORK_WORDS: &[&str] = &[
    "network", "http", "url", "web", "internet", "online", "remote", "fetch", "download", "upload", "api",
    "host", "server", "registry", "query", "send", "publish", "push", "pull", "clone",
];

/// Reports all warnings.
pub(super) fn of(
    tool: &ToolManifest,
    properties: &Properties,
    section: &Section,
    report: &mut ProblemReport<'_>,
) {
    if let Some(input) = section.field("input") {
        schema::visit(&input.node, &mut |schema| input_schema(schema, report));
        unused(tool, properties, input, report);
    }
    class(tool, section, report);
    flow(tool, properties, section, report);
    code(tool, section, report);
    network(tool, section, report);
    output(tool, section, report);
    stderr(tool, section, report);
    policy(tool, section, report);
}

fn input_schema(schema: &ConfigNode, report: &mut ProblemReport<'_>) {
    let is_text = schema.get("type").is_some_and(|kind| match &kind.kind {
        NodeKind::Scalar { text, .. } => text == "string",
        NodeKind::List(items) => items.iter().any(|item| item.text() == Some("string")),
        NodeKind::Map(_) => false,
    });
    let bounds = ["maxLength", "enum", "const", "pattern", "x-toolgate-path"];
    if let Some(kind) =
        schema.get("type").filter(|_| is_text && !bounds.iter().any(|name| schema.get(name).is_some()))
    {
        report.warn(kind, "this text can be of any length", "add `maxLength`, `pattern` or `enum`");
    }
    if let Some(pattern) = schema.get("pattern") {
        let text = pattern.text().unwrap_or_default();
        if !pattern::is_anchored(text) {
            let message = format!("the pattern `{}` holds for a part of the text only", shown(text));
            report.warn(
                pattern,
                message,
                "begin it with `^` and end it with `$`, around all of its alternatives",
            );
        }
    }
    if let Some(format) = schema.get("format") {
        report.warn(format, "`format` is told to the model and not checked", "add a `pattern`");
    }
    if let Some(default) = schema.get("default") {
        let help = "let the command leave the argument out, or make it `required`";
        report.warn(default, "`default` is told to the model and not filled in", help);
    }
}

/// Arguments without effect mislead a model.
fn unused(tool: &ToolManifest, properties: &Properties, input: &ConfigField, report: &mut ProblemReport<'_>) {
    let parts = &tool.command.template.parts;
    let in_command = parts.iter().flat_map(TemplatePart::elements).flat_map(Element::slots);
    let in_input = tool.command.stdin.iter().flat_map(|stdin| slots(&stdin.pieces));
    let used: Vec<&str> = in_command.chain(in_input).map(|slot| slot.name.as_str()).collect();
    let chosen = |name: &str| {
        parts.iter().any(|part| matches!(part, TemplatePart::Choice { name: choice, .. } if choice == name))
    };
    let decides =
        |name: &str| tool.elevated.as_ref().is_some_and(|elevated| elevated.when.value.contains(name));
    let Some(NodeKind::Map(declared)) = input.node.get("properties").map(|node| &node.kind) else { return };
    for property in properties.iter() {
        let name = property.name.as_str();
        let key = declared.iter().map(|(key, _)| key).find(|key| key.text() == Some(name));
        if let Some(key) = key.filter(|_| !used.contains(&name) && !chosen(name) && !decides(name)) {
            let help = format!("use `{{{name}}}` in `command`, or remove it");
            report.warn(key, format!("nothing uses the argument `{}`", shown(name)), help);
        }
    }
}

/// Roles of arguments that do not exist, and egress that nothing guards.
fn flow(tool: &ToolManifest, properties: &Properties, section: &Section, report: &mut ProblemReport<'_>) {
    if let Some(NodeKind::Map(roles)) = section.field("arguments").map(|field| &field.node.kind) {
        for (key, _) in roles {
            let name = key.text().unwrap_or_default();
            let first = name.split('.').next().unwrap_or_default();
            if name != "*" && !properties.names().any(|known| known == name || known == first) {
                let help = crate::decode::nearest_or_all(first, properties.names());
                report.node(key, format!("there is no argument `{}`", shown(name)), Some(help));
            }
        }
    }
    let has_target = tool.flow.arguments.values().any(|role| matches!(role, ArgumentRole::Target(_)));
    let Some(field) = section.field("effect") else { return };
    match tool.flow.effect {
        Some(FlowEffect::Egress) if !has_target && properties.names().next().is_some() => {
            let help = "say which argument names where it goes, such as `arguments: {to: target}`";
            report.warn(&field.node, "it sends something out, and none of its arguments is a target", help);
        }
        Some(FlowEffect::Read | FlowEffect::Write | FlowEffect::Destroy)
            if !tool.command.network.is_empty() =>
        {
            let help = "write `effect: egress` unless no argument leaves the machine; a GET is egress";
            report.warn(&field.node, "it has hosts to reach, and does not count as egress", help);
        }
        _ => {}
    }
}

/// The program's base name.
fn program(tool: &ToolManifest) -> &str {
    let program = tool.command.template.program();
    program.rsplit('/').next().unwrap_or(program)
}

/// The node of a key's value, or of an item in it.
fn node<'s>(section: &'s Section, key: &str, pointer: &str) -> Option<&'s ConfigNode> {
    section.field(key).map(|field| field.node.at(pointer))
}

fn class(tool: &ToolManifest, section: &Section, report: &mut ProblemReport<'_>) {
    let mounted = tool.command.template.program().starts_with("/mnt/");
    if let Some(place) = node(section, "command", "/0").filter(|_| mounted) {
        let help = "keep programs outside of the mounts";
        report.warn(place, "a program in a mount can be replaced by what it is meant to bound", help);
    }
    if tool.class.value != ToolClass::Read {
        return;
    }
    let program = program(tool);
    let reason = if WRITERS.contains(&program) {
        "is there to change things"
    } else if INTERPRETERS.contains(&program) {
        "runs whatever it is given"
    } else {
        ""
    };
    if let Some(place) = node(section, "command", "/0").filter(|_| !reason.is_empty()) {
        let message = format!("the class is `read`, and `{program}` {reason}");
        report.warn(
            place,
            message,
            "say `class: write` or `class: destructive`, or run a program that only reads",
        );
    }
    for mount in section.field("mounts").map(|_| &tool.command.mounts).into_iter().flatten() {
        if mount.writable {
            let message = format!("the class is `read`, and `{}` may be changed", mount.alias.value);
            let help = "leave out `:rw`, or say `class: write`";
            report.warn_at(mount.alias.position(), mount.alias.width, message, help);
        }
    }
}

/// A placeholder where an interpreter expects code: no rule about arguments protects against that.
fn code(tool: &ToolManifest, section: &Section, report: &mut ProblemReport<'_>) {
    let program = program(tool);
    if !INTERPRETERS.contains(&program) {
        return;
    }
    let elements: Vec<&Element> =
        tool.command.template.parts.iter().flat_map(TemplatePart::elements).collect();
    let literal = |element: &Element| match &*element.pieces {
        [TemplatePiece::Literal(text)] => Some(text.clone()),
        _ => None,
    };
    let after_option = elements.windows(2).find_map(|pair| match pair {
        [option, value] if literal(option).is_some_and(|text| CODE_OPTIONS.contains(&&*text)) => {
            value.slots().next()
        }
        _ => None,
    });
    let begins = |element: &&&Element| !literal(element).is_some_and(|text| text.starts_with('-'));
    let first = elements.iter().find(begins).and_then(|element| element.slots().next());
    let Some(slot) = after_option.or(first) else { return };
    if let Some(place) = node(section, "command", "/0") {
        let message = format!("`{{{}}}` stands where `{program}` expects code", slot.name);
        let help = "give the value as an argument of fixed code, on `stdin`, or run the program itself";
        report.warn(place, message, help);
    }
}

fn network(tool: &ToolManifest, section: &Section, report: &mut ProblemReport<'_>) {
    let Some(place) = node(section, "network", "").filter(|_| !tool.command.network.is_empty()) else {
        return;
    };
    let said = tool.description.value.to_lowercase();
    let names = tool.command.network.iter().flat_map(|host| host.value.split(['.', ':']));
    let mut words = NETWORK_WORDS.iter().copied().chain(names.filter(|name| name.len() > 3));
    if !words.any(|word| said.contains(&word.to_lowercase())) {
        let message = "the description does not say that this tool uses the network";
        report.warn(place, message, "say in `description` what it connects to");
    }
}

fn output(tool: &ToolManifest, section: &Section, report: &mut ProblemReport<'_>) {
    let parsed = matches!(tool.output.parse, OutputParse::Json | OutputParse::JsonLines);
    if tool.output.schema.is_some() || !parsed {
        return;
    }
    if let Some(place) = node(section, "output", "") {
        report.warn(
            place,
            "any answer would fit, for there is no `schema`",
            "say under `output.schema` what comes back",
        );
    }
}

/// The output policy does not filter standard error.
fn stderr(tool: &ToolManifest, section: &Section, report: &mut ProblemReport<'_>) {
    let keeps_back =
        tool.policy.is_empty() || tool.policy.iter().any(|rule| rule.treatment != Treatment::Allow);
    let place = node(section, "stderr", "").filter(|_| tool.command.stderr == StderrRule::Show);
    if let Some(place) = place.filter(|_| keeps_back) {
        let message = "`stderr: show` lets leave what `policy` keeps back, where the program quotes it";
        report.warn(place, message, "leave it out: the operator is told what a failed command said");
    }
}

fn policy(tool: &ToolManifest, section: &Section, report: &mut ProblemReport<'_>) {
    if tool.policy.is_empty() {
        let place = node(section, "policy", "").or_else(|| node(section, "tool", ""));
        if let Some(place) = place {
            let help = "name what may leave, for example `policy: {\"*\": allow}`";
            report.warn(place, "without `policy` nothing of an answer ever leaves", help);
        }
        return;
    }
    let kept: Vec<&str> = tool
        .policy
        .iter()
        .filter(|rule| rule.treatment != Treatment::Allow)
        .filter_map(|rule| rule.path.value.rsplit(['.', ']']).next())
        .collect();
    let mut private = Vec::new();
    if let Some(schema) = section.field("output").and_then(|output| output.node.get("schema")) {
        schema::visit(schema, &mut |schema| private.extend(private_fields(schema)));
    }
    private.retain(|name| !kept.contains(&name.as_str()));
    let wild = |path: &str| matches!(path, "*" | "**") || path.ends_with(".*") || path.ends_with(".**");
    for rule in tool.policy.iter().filter(|rule| rule.treatment == Treatment::Allow && wild(&rule.path.value))
    {
        if let Some(name) = private.first() {
            let message = format!("`{}` lets `{}` leave", rule.path.value, shown(name));
            let help =
                format!("add `\"*.{}\": redact` or `mask`, or name the fields that may leave", shown(name));
            report.warn_at(rule.path.position(), rule.path.width, message, help);
        }
    }
}

/// Properties whose names look private.
fn private_fields(schema: &ConfigNode) -> Vec<String> {
    let Some(NodeKind::Map(properties)) = schema.get("properties").map(|node: &Rc<ConfigNode>| &node.kind)
    else {
        return Vec::new();
    };
    let names = properties.iter().filter_map(|(key, _)| key.text());
    names
        .filter(|name| words(name).iter().any(|word| PRIVATE_WORDS.contains(&word.as_str())))
        .map(str::to_owned)
        .collect()
}

/// `userEmail`, `user_email` and `user-email` have the same words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for character in name.chars() {
        if !character.is_alphanumeric() || (lower && character.is_uppercase()) {
            words.push(String::new());
        }
        lower = character.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_words() {
        for (name, expected) in [
            ("userEmail", vec!["user", "email"]),
            ("user_email", vec!["user", "email"]),
            ("APIKey", vec!["apikey"]),
            ("x-api-key", vec!["x", "api", "key"]),
            ("monkey", vec!["monkey"]),
        ] {
            assert_eq!(words(name), expected, "{name}");
        }
    }
}
