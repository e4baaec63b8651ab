//! The environment of a command: an allowlist without secrets.

use std::ffi::CString;

use crate::error::SandboxError;

/// Variables that programs need; any other must be named by the operator.
pub(crate) fn base(search_path: &str, temporary: &str, home: &str) -> Vec<(String, String)> {
    let pairs = [
        ("PATH", search_path),
        ("HOME", home),
        ("TMPDIR", temporary),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("TERM", "dumb"),
        ("SHELL", "/bin/sh"),
        ("USER", "toolgate"),
        ("LOGNAME", "toolgate"),
        ("TZ", "UTC"),
        // Disable paging, colours and prompts: the command is not interactive.
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("NO_COLOR", "1"),
        ("CI", "true"),
        ("DEBIAN_FRONTEND", "noninteractive"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Parts of variable names that indicate a secret.
const SECRET_MARKS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSW",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
    "PRIVATE",
    "COOKIE",
    "SESSION",
    "BEARER",
    "DSN",
    "DATABASE_URL",
    "CONNECTION_STRING",
];

/// Variables that make the loader, a shell or an interpreter run other code before the program.
const LOADER_VARIABLES: &[&str] = &[
    "LD_",
    "DYLD_",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC_",
    "PROMPT_COMMAND",
    "PS4",
    "IFS",
    "CDPATH",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "PERL5LIB",
    "PERL5OPT",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "GIT_",
    "EDITOR",
    "VISUAL",
    "BROWSER",
];

/// Why a variable is not passed on, if it is not.
#[must_use]
pub fn refused_variable(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    let is_secret = SECRET_MARKS.iter().any(|mark| upper.contains(mark));
    loader_variable(name).or(is_secret.then_some("looks like a secret"))
}

/// Why a variable is not passed on even if the operator set it for this very program. Secrets are allowed here, because the program may need one.
#[must_use]
pub fn loader_variable(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Some("is not the name of a variable");
    }
    let steers = |mark: &&str| if mark.ends_with('_') { upper.starts_with(*mark) } else { upper == **mark };
    LOADER_VARIABLES.iter().any(steers).then_some("steers how programs start")
}

/// Pairs as `execve` takes them; a later one replaces an earlier one.
pub(crate) fn as_strings(pairs: &[(String, String)]) -> Result<Vec<CString>, SandboxError> {
    let mut kept: Vec<(&str, &str)> = Vec::new();
    for (name, value) in pairs {
        kept.retain(|(other, _)| other != name);
        kept.push((name, value));
    }
    let string = |(name, value): &(&str, &str)| {
        CString::new(format!("{name}={value}")).map_err(|_| SandboxError::Nul { what: "the environment" })
    };
    kept.iter().map(string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_steering_are_refused() {
        for name in [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "aws_secret_access_key",
            "DB_PASSWORD",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "SSH_AUTH_SOCK",
            "",
            "A=B",
            "A B",
            "1A",
            "NÄME",
        ] {
            assert!(refused_variable(name).is_some(), "{name}");
        }
        for name in ["RUST_LOG", "CARGO_HOME", "LANG", "FOO", "JAVA_HOME", "ENVIRONMENT"] {
            assert_eq!(refused_variable(name), None, "{name}");
        }
        for (name, refused) in
            [("GITHUB_TOKEN", false), ("LD_PRELOAD", true), ("A=B", true), ("GIT_SSH_KEY", true)]
        {
            assert_eq!(loader_variable(name).is_some(), refused, "{name}");
        }
    }

    #[test]
    fn a_later_value_replaces_an_earlier_one() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let strings = as_strings(&[pair("A", "1"), pair("B", "2"), pair("A", "3")]).unwrap();
        assert_eq!(strings, [c"B=2".to_owned(), c"A=3".to_owned()]);
        assert!(as_strings(&[pair("A", "\0")]).is_err());
    }
}
