//! The mounts, environment, network and limits of a command.

use std::net::IpAddr;

use toolgate_text::secret_detection::looks_secret;
use toolgate_types::ToolClass;

use super::{CommandLimits, CommandMount, MountPath};
use crate::decode::{
    ConfigField, KeySpec, Section, count, duration, key, list, located_text, named, size, text,
};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::read::is_alias;

const LIMITS: &[KeySpec] = &[
    key("memory", "memory: 512MiB"),
    key("processes", "processes: 64"),
    key("file_size", "file_size: 100MiB"),
    key("open_files", "open_files: 256"),
    key("cpu_time", "cpu_time: 30s"),
    key("output", "output: 1MiB"),
];

/// Variables that control which code runs or where a command connects to; the sandbox sets those that are
/// needed.
const RESERVED: &[&str] = &[
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "FTP_PROXY",
];

impl MountPath {
    /// Parses `@alias` or `@alias/sub/directory`; the error has a message and a remedy.
    pub(super) fn parse(text: &str) -> Result<Self, (String, String)> {
        let help =
            || "write an alias and perhaps a folder, such as `\"@project\"` or `\"@project/src\"`".to_owned();
        let (alias, path) = text.split_once('/').unwrap_or((text, ""));
        if !is_alias(alias) {
            return Err((format!("`{}` does not begin with the alias of a mount", shown(text)), help()));
        }
        let path = path.trim_end_matches('/');
        if path.contains(['{', '}']) {
            return Err((
                format!("`{}` must be literal", shown(text)),
                "leave out the placeholder".to_owned(),
            ));
        }
        let odd = |part: &str| matches!(part, "" | "." | "..") || part.contains(char::is_control);
        if !path.is_empty() && path.split('/').any(odd) {
            let message =
                format!("`{}` has an empty, `.` or `..` part, or an invisible character", shown(text));
            return Err((message, help()));
        }
        Ok(Self { alias: alias.to_owned(), path: path.to_owned() })
    }
}

pub(crate) fn directory(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<MountPath>> {
    let text = text(field, report)?;
    match MountPath::parse(&text) {
        Ok(path) => Some(field.locate(path)),
        Err((message, help)) => {
            report.node(&field.node, format!("{}: {message}", field.name), Some(help));
            None
        }
    }
}

/// The declared mounts, or the one of `cwd`.
pub(crate) fn mounts(
    section: &Section,
    directory: Option<&Located<MountPath>>,
    class: Option<ToolClass>,
    report: &mut ProblemReport<'_>,
) -> Vec<CommandMount> {
    let of_directory = directory.map(|directory| directory.with(directory.value.alias.clone()));
    let Some(field) = section.field("mounts") else {
        let writable = class.is_some_and(ToolClass::has_effect);
        return of_directory.into_iter().map(|alias| CommandMount { alias, writable }).collect();
    };
    let declared = list(field, "mount", report, mount).unwrap_or_default();
    for (index, mount) in declared.iter().enumerate() {
        let earlier = declared.iter().take(index).any(|other| other.alias.value == mount.alias.value);
        if earlier {
            let help = Some("keep one of them".to_owned());
            report.located(&mount.alias, format!("`{}` appears twice", mount.alias.value), help);
        }
    }
    let names = |alias: &Located<String>| declared.iter().any(|mount| mount.alias.value == alias.value);
    if let Some(alias) = of_directory.filter(|alias| !names(alias)) {
        let message = format!("`cwd` lies in `{}`, which `mounts` does not name", alias.value);
        report.located(&alias, message, Some(format!("add `\"{}\"` to `mounts`", alias.value)));
    }
    declared
}

fn mount(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<CommandMount> {
    let text = located_text(field, report)?;
    let (alias, mode) = text.value.split_once(':').unwrap_or((&text.value, "ro"));
    if !is_alias(alias) || !matches!(mode, "ro" | "rw") {
        let help =
            "write an alias, and `:rw` where it may be changed, such as `\"@docs\"` or `\"@project:rw\"`";
        report.located(&text, format!("`{}` is not a mount", shown(&text.value)), Some(help.to_owned()));
        return None;
    }
    Some(CommandMount { alias: text.with(alias.to_owned()), writable: mode == "rw" })
}

pub(super) fn environment(
    field: &ConfigField,
    placeholders: &[&str],
    report: &mut ProblemReport<'_>,
) -> Option<Vec<(String, String)>> {
    let entries = named(field, "variable", report)?;
    let entry = |(name, value): (Located<String>, ConfigField)| {
        check_variable(&name, report);
        let value_text = text(&value, report)?;
        let placeholder = placeholders.iter().find(|name| value_text.contains(&format!("{{{name}}}")));
        if let Some(placeholder) = placeholder {
            let help = "give the value as an argument or on `stdin`".to_owned();
            let message =
                format!("{} must be literal, so `{{{placeholder}}}` cannot stand in it", value.name);
            report.node(&value.node, message, Some(help));
        }
        if value_text.contains('\0') {
            report.node(&value.node, format!("{} holds NUL", value.name), None);
        }
        Some((name.value, value_text))
    };
    Some(entries.into_iter().filter_map(entry).collect())
}

fn check_variable(name: &Located<String>, report: &mut ProblemReport<'_>) {
    let text = &name.value;
    if !is_variable(text) {
        let help = "use letters, digits and `_`, not beginning with a digit".to_owned();
        report.located(name, format!("`{}` is not the name of a variable", shown(text)), Some(help));
    } else if is_reserved(text) {
        let help = "remove it: the sandbox sets what a command needs".to_owned();
        report.located(
            name,
            format!("`{}` decides what code runs or where it connects to", shown(text)),
            Some(help),
        );
    } else if looks_secret(text) {
        let help = "a manifest holds no secrets; pass the variable through with `sandbox.environment` in toolgate.yaml";
        report.located(
            name,
            format!("`{}` looks like the name of a secret", shown(text)),
            Some(help.to_owned()),
        );
    }
}

/// Whether a text can name an environment variable: `[A-Za-z_][A-Za-z0-9_]*`.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a variable would undo what the sandbox sets up.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    RESERVED.contains(&&*upper)
        || ["LD_", "DYLD_", "GIT_CONFIG", "BASH_FUNC"].iter().any(|prefix| upper.starts_with(prefix))
}

pub(crate) fn network(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    list(field, "host", report, |field, report| {
        let host = located_text(field, report)?;
        if let Some((message, help)) = not_a_host(&host.value) {
            report.located(&host, message, Some(help));
        }
        Some(host)
    })
}

/// Why a text is not a host that the filtering proxy could connect to, and a remedy.
pub(crate) fn not_a_host(text: &str) -> Option<(String, String)> {
    let help = "write a host, such as `example.com`, `*.example.com` or `localhost:3000`".to_owned();
    let because = |reason: &str| Some((format!("`{}` {reason}", shown(text)), help.clone()));
    if text.contains("://") {
        return because("is a URL, not a host");
    }
    if !text.is_ascii() || text.contains(|character: char| character.is_ascii_control() || character == ' ') {
        return because("holds characters that no host has");
    }
    if text.parse::<IpAddr>().is_ok() || is_network(text) {
        return None;
    }
    let Some((host, port)) = split_port(text) else { return because("has a port that does not exist") };
    if port == Some(0) {
        return because("has a port that does not exist");
    }
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if literal.parse::<IpAddr>().is_ok() {
        return None;
    }
    let (name, wild) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
    if name.contains('*') {
        return because("would open more than a domain");
    }
    if wild && name.split('.').count() < 2 {
        return because("would open a whole top-level domain");
    }
    // `2130706433` and `0x7f.1` are IPv4 addresses in other notations.
    if name.rsplit('.').next().is_some_and(|label| label.starts_with(|first: char| first.is_ascii_digit())) {
        return because("is an odd way to write an address");
    }
    if name.len() > 253 || !name.split('.').all(is_label) {
        return because("is not a host");
    }
    None
}

/// `10.0.0.0/8`
fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    match (address.parse::<IpAddr>(), bits.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(bits)) => bits <= 32,
        (Ok(IpAddr::V6(_)), Ok(bits)) => bits <= 128,
        _ => false,
    }
}

fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => port.parse().ok().map(|port| (host, Some(port))),
        _ => Some((text, None)),
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

pub(super) fn limits(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<CommandLimits> {
    let section = Section::read(field, LIMITS, report)?;
    Some(CommandLimits {
        memory: section.get("memory", report, size),
        processes: section.get("processes", report, count),
        file_size: section.get("file_size", report, size),
        open_files: section.get("open_files", report, count),
        cpu_time: section.get("cpu_time", report, duration),
        output: section.get("output", report, size),
    })
}

pub(super) fn success_codes(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<u8>> {
    let codes = list(field, "exit code", report, |field, report| {
        let code = field.scalar("an exit code", report)?.parse::<u8>().ok();
        if code.is_none() {
            field.report_expected("a number from 0 to 255", report);
        }
        code
    })?;
    if codes.is_empty() {
        let help = Some("leave it out for `[0]`".to_owned());
        report.node(&field.node, "without a code every run would count as failed", help);
    }
    Some(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_a_proxy_can_open() {
        for good in [
            "example.com",
            "*.example.com",
            "api.example.com:8443",
            "localhost:3000",
            "10.0.0.5:5432",
            "10.0.0.0/8",
            "[::1]:80",
            "::1",
            "fd00::/8",
            "xn--bcher-kva.example",
            "a_b.example.com",
        ] {
            assert_eq!(not_a_host(good), None, "{good}");
        }
        for bad in [
            "",
            "*",
            "*.com",
            "*.*.example.com",
            "a.*.com",
            "https://example.com",
            "example.com/x",
            "a b.com",
            "user@example.com",
            "bücher.example",
            "example.com:0",
            "example.com:99999",
            "example..com",
            "-a.com",
            "10.0.0.0/33",
            "a\0.com",
            ".example.com",
            "example.com.",
            "2130706433",
            "127.1",
            "0x7f.0.0.1",
            "5",
        ] {
            assert!(not_a_host(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn places_in_mounts() {
        for (text, alias, path, inside) in [
            ("@project", "@project", "", "/mnt/project"),
            ("@project/", "@project", "", "/mnt/project"),
            ("@docs/a/b", "@docs", "a/b", "/mnt/docs/a/b"),
        ] {
            let parsed = MountPath::parse(text).unwrap();
            assert_eq!((&*parsed.alias, &*parsed.path, &*parsed.inside()), (alias, path, inside), "{text}");
        }
        for bad in [
            "",
            "project",
            "/etc",
            "@",
            "@project/..",
            "@project/a/../b",
            "@project//a",
            "@project/{x}",
            "@p/\n",
        ] {
            assert!(MountPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_variables() {
        for secret in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "api_key", "KEY"] {
            assert!(looks_secret(secret), "{secret}");
        }
        for plain in ["LC_ALL", "GIT_PAGER", "KEYBOARD", "TZ", "MONKEY_MODE"] {
            assert!(!looks_secret(plain) && !is_reserved(plain), "{plain}");
        }
        for reserved in ["PATH", "LD_PRELOAD", "https_proxy", "BASH_ENV", "GIT_CONFIG_COUNT"] {
            assert!(is_reserved(reserved), "{reserved}");
        }
    }
}
