//! Warnings about servers.

use toolgate_text::secret_detection::looks_secret;
use toolgate_types::{ArgumentRole, FlowEffect};

use super::{ServerConfig, ServerTransport};
use crate::config::Config;
use crate::problem::{ConfigWarning, Located};
use crate::variables::VariableText;

pub(crate) fn warnings(config: &Config) -> Vec<ConfigWarning> {
    let enabled = config.mcp_servers.iter().filter(|server| !server.disabled);
    let unclassified = enabled.clone().filter_map(|server| unclassified(config, server));
    let secrets = enabled.flat_map(|server| {
        let arguments = written_arguments(config, server).into_iter().chain(shown_arguments(config, server));
        secrets(config, server).into_iter().chain(arguments)
    });
    let enabled = config.mcp_servers.iter().filter(|server| !server.disabled);
    let unguarded = enabled.flat_map(|server| unguarded(config, server));
    unclassified.chain(secrets).chain(unguarded).collect()
}

/// A server none of whose tools has a class.
fn unclassified(config: &Config, server: &ServerConfig) -> Option<ConfigWarning> {
    if server.class.is_some() || server.tools.iter().any(|tool| tool.class.is_some()) {
        return None;
    }
    let name = &server.name;
    let message = format!("no tool of `{}` has a class, so all of them count as destructive", name.value);
    let help = format!(
        "run `toolgate mcp list {}` and write for example `tools: {{NAME: {{class: read}}}}`",
        name.value
    );
    Some(config.problem_at(name, message, Some(help)).into())
}

/// Tools that are declared to send something out, without a target.
fn unguarded(config: &Config, server: &ServerConfig) -> Vec<ConfigWarning> {
    let is_target = |role: &ArgumentRole| matches!(role, ArgumentRole::Target(_));
    let declared = server.tools.iter().filter(|tool| {
        tool.allowed
            && tool.flow.effect == Some(FlowEffect::Egress)
            && !tool.flow.arguments.values().any(is_target)
    });
    let warning = |tool: &super::ServerToolConfig| {
        let message = "it sends something out, and none of its arguments is a target";
        let help = "say which argument names where it goes, such as `arguments: {to: target}`".to_owned();
        config.problem_at(tool.name.as_written(), message, Some(help)).into()
    };
    declared.map(warning).collect()
}

/// Secrets in clear text.
fn secrets(config: &Config, server: &ServerConfig) -> Vec<ConfigWarning> {
    let secret = |(name, value): &(Located<String>, Located<VariableText>)| {
        let written = value.value.is_literal() && !value.value.beginning().is_empty();
        let named = looks_secret(&name.value.replace('-', "_"));
        (written && (named || name.value.eq_ignore_ascii_case("authorization"))).then(|| name.clone())
    };
    let found: Vec<Located<String>> = match &server.transport {
        ServerTransport::Process(process) => process.environment.iter().filter_map(secret).collect(),
        ServerTransport::Remote(remote) => {
            let own = remote.oauth.as_ref().map(|oauth| &oauth.client_secret);
            let client = own.or(remote.login.as_ref().and_then(|login| login.client_secret.as_ref()));
            let client = client.filter(|secret| secret.value.is_literal());
            let client = client.map(|secret| secret.with("client_secret".to_owned()));
            remote.headers.iter().filter_map(secret).chain(client).collect()
        }
    };
    let warning = |name: &Located<String>| {
        let message = format!("`{}` looks like a secret that is written out", name.value);
        let help = "keep it in a variable of the gate's own environment and write `\"${NAME}\"`".to_owned();
        config.problem_beside_secrets(name, message, Some(help)).into()
    };
    found.iter().map(warning).collect()
}

/// Prefixes of API keys of well-known services.
const KEY_BEGINNINGS: &[&str] =
    &["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza", "hf_", "eyJ"];
/// Suffixes of options whose value describes a secret but is none, such as `--token-file`.
const ABOUT_SECRETS: &[&str] =
    &["file", "path", "dir", "env", "size", "length", "id", "name", "type", "url", "ttl", "timeout"];
/// A shorter word is no key, whatever its prefix.
const SHORTEST_KEY: usize = 16;

/// Secrets in clear text among the arguments of a process: they are in the file, and visible to every user who lists
/// processes.
fn written_arguments(config: &Config, server: &ServerConfig) -> Vec<ConfigWarning> {
    let ServerTransport::Process(process) = &server.transport else { return Vec::new() };
    let texts: Vec<&str> = process.arguments.iter().map(|argument| argument.value.beginning()).collect();
    let is_secret = |index: usize, argument: &Located<VariableText>| {
        if !argument.value.is_literal() {
            return false;
        }
        let text = argument.value.beginning();
        let option = |text: &str| {
            let name = text.trim_start_matches('-').replace('-', "_");
            let about = name.rsplit('_').next().unwrap_or_default().to_ascii_lowercase();
            text.starts_with('-') && looks_secret(&name) && !ABOUT_SECRETS.contains(&&*about)
        };
        let before = index.checked_sub(1).and_then(|before| texts.get(before));
        let after_option = before.is_some_and(|text| option(text) && !text.contains('='));
        let joined = text.split_once('=').is_some_and(|(name, value)| option(name) && !value.is_empty());
        let value = text.split_once('=').map_or(text, |(_, value)| value);
        let is_key =
            value.len() >= SHORTEST_KEY && KEY_BEGINNINGS.iter().any(|known| value.starts_with(known));
        joined || is_key || (after_option && !text.starts_with('-') && !text.is_empty())
    };
    let written =
        process.arguments.iter().enumerate().filter(|(index, argument)| is_secret(*index, argument));
    let warning = |(_, argument): (usize, &Located<VariableText>)| {
        let message = "this argument looks like a secret that is written out, and everybody who lists processes is shown it";
        let help =
            "pass it in `env` as `\"${NAME}\"`, from a variable of the gate's own environment".to_owned();
        config.problem_beside_secrets(argument, message, Some(help)).into()
    };
    written.map(warning).collect()
}

/// Variables with secrets among the arguments of a process: every user of the machine can read those in
/// `/proc/PID/cmdline`.
fn shown_arguments(config: &Config, server: &ServerConfig) -> Vec<ConfigWarning> {
    let ServerTransport::Process(process) = &server.transport else { return Vec::new() };
    let warning = |argument: &Located<VariableText>| {
        let name = argument.value.names().find(|name| looks_secret(name))?;
        let message = format!("`${{{name}}}` among `args` is shown to everybody who lists processes");
        let help = format!("pass it in `env`, if the server can take it there: `{name}: \"${{{name}}}\"`");
        Some(config.problem_beside_secrets(argument, message, Some(help)).into())
    };
    process.arguments.iter().filter_map(warning).collect()
}
