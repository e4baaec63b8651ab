//! `package`: a server that is a package of a registry, such as `npm:@modelcontextprotocol/server-memory@2026.1.1`.
//!
//! Only names and versions of a registry are accepted: no URL, path, Git address or alias, which would be other sources of code.

use std::fmt;

/// The longest name or version.
const MAX_BYTES: usize = 214;

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackageRegistry {
    /// The npm registry that npm is configured for.
    Npm,
    /// The Python package index that pip or uv is configured for.
    Pypi,
}

impl PackageRegistry {
    /// The word before the colon.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
        }
    }
}

/// A package with the version that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackageSpec {
    registry: PackageRegistry,
    name: String,
    /// A version, range or tag for npm; version specifiers such as `==1.2` for Python; empty for the newest.
    version: String,
}

/// Why a text names no package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageSpecError {
    /// It does not begin with a registry.
    #[error("it does not begin with `npm:` or `pypi:`")]
    Registry,
    /// It is a URL, a path or another source.
    #[error("it is not a name in a registry")]
    Source,
    /// The name is invalid.
    #[error("`{0}` is not the name of a package")]
    Name(String),
    /// The version is invalid.
    #[error("`{0}` is not a version")]
    Version(String),
}

impl PackageSpec {
    /// Parses `npm:NAME@VERSION` or `pypi:NAME==VERSION`; the version may be left out.
    ///
    /// # Errors
    /// See [`PackageSpecError`].
    pub fn parse(text: &str) -> Result<Self, PackageSpecError> {
        match text.split_once(':') {
            Some(("npm", rest)) => Self::of(PackageRegistry::Npm, rest),
            Some(("pypi", rest)) => Self::of(PackageRegistry::Pypi, rest),
            _ => Err(PackageSpecError::Registry),
        }
    }

    /// Parses what follows the colon, which is also what `npx` and `uvx` accept.
    ///
    /// # Errors
    /// See [`PackageSpecError`].
    pub fn of(registry: PackageRegistry, text: &str) -> Result<Self, PackageSpecError> {
        if text.contains("://") || text.starts_with(['.', '/', '~', '-']) || text.contains([':', '\\', '#']) {
            return Err(PackageSpecError::Source);
        }
        let (name, version) = match registry {
            PackageRegistry::Npm => split_npm(text),
            PackageRegistry::Pypi => split_pypi(text),
        };
        let is_name = match registry {
            PackageRegistry::Npm => is_npm_name(name),
            PackageRegistry::Pypi => is_pypi_name(name),
        };
        if !is_name || name.len() > MAX_BYTES {
            return Err(PackageSpecError::Name(shown(name)));
        }
        let version = match (registry, version) {
            (PackageRegistry::Npm, "latest") | (PackageRegistry::Pypi, "@latest") => String::new(),
            (PackageRegistry::Pypi, version) => {
                version.strip_prefix('@').map_or_else(|| version.to_owned(), |exact| format!("=={exact}"))
            }
            (PackageRegistry::Npm, version) => version.to_owned(),
        };
        if version.len() > MAX_BYTES || !version.bytes().all(|byte| is_version_byte(registry, byte)) {
            return Err(PackageSpecError::Version(shown(&version)));
        }
        Ok(Self { registry, name: name.to_owned(), version })
    }

    /// The registry.
    #[must_use]
    pub fn registry(&self) -> PackageRegistry {
        self.registry
    }

    /// The name, with the extras of a Python package.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name without a scope or extras: the program that `npx` and `uvx` run.
    #[must_use]
    pub fn program(&self) -> &str {
        let name = self.name.rsplit('/').next().unwrap_or(&self.name);
        name.split('[').next().unwrap_or(name)
    }

    /// The wanted version; empty for the newest.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The package without a version.
    #[must_use]
    pub fn newest(&self) -> Self {
        Self { version: String::new(), ..self.clone() }
    }

    /// As npm and pip take it.
    #[must_use]
    pub fn requirement(&self) -> String {
        match (self.registry, self.version.as_str()) {
            (_, "") => self.name.clone(),
            (PackageRegistry::Npm, version) => format!("{}@{version}", self.name),
            (PackageRegistry::Pypi, version) => format!("{}{version}", self.name),
        }
    }
}

impl fmt::Display for PackageSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.registry.as_str(), self.requirement())
    }
}

/// `@scope/name@version`: the first `@` belongs to the name.
fn split_npm(text: &str) -> (&str, &str) {
    let from = usize::from(text.starts_with('@'));
    let at = text.get(from..).and_then(|rest| rest.find('@')).map(|at| at + from);
    at.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))).unwrap_or((text, ""))
}

fn split_pypi(text: &str) -> (&str, &str) {
    let at = text.find(['=', '<', '>', '!', '~', '@']).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// The rule of npm for new packages.
fn is_npm_name(name: &str) -> bool {
    let part = |part: &str| {
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.' | b'~')
        };
        !part.is_empty() && !part.starts_with(['.', '_', '-']) && part.bytes().all(allowed)
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    }
}

/// PEP 508: letters, digits and `-_.`, beginning and ending with a letter or a digit; extras in brackets.
fn is_pypi_name(name: &str) -> bool {
    let word = |word: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let ends = |word: &str| {
            word.starts_with(|first: char| first.is_ascii_alphanumeric())
                && word.ends_with(|last: char| last.is_ascii_alphanumeric())
        };
        ends(word) && word.bytes().all(allowed)
    };
    match name.split_once('[') {
        Some((name, extras)) => {
            word(name) && extras.strip_suffix(']').is_some_and(|extras| extras.split(',').all(word))
        }
        None => word(name),
    }
}

fn is_version_byte(registry: PackageRegistry, byte: u8) -> bool {
    let of_registry: &[u8] = match registry {
        PackageRegistry::Npm => b"^~<>=",
        PackageRegistry::Pypi => b"<>=!~,",
    };
    byte.is_ascii_alphanumeric() || b".*+-_".contains(&byte) || of_registry.contains(&byte)
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_of_registries_are_accepted() {
        for (text, name, version, program) in [
            ("npm:server", "server", "", "server"),
            ("npm:@a/b", "@a/b", "", "b"),
            ("npm:@a/b@1.2.3", "@a/b", "1.2.3", "b"),
            ("npm:@a/b@latest", "@a/b", "", "b"),
            ("npm:x@^2", "x", "^2", "x"),
            ("pypi:mcp-server-time", "mcp-server-time", "", "mcp-server-time"),
            ("pypi:mcp-server-time==1.0", "mcp-server-time", "==1.0", "mcp-server-time"),
            ("pypi:mcp-server-time@1.0", "mcp-server-time", "==1.0", "mcp-server-time"),
            ("pypi:a[cli,x]>=1,<2", "a[cli,x]", ">=1,<2", "a"),
            ("pypi:a@latest", "a", "", "a"),
        ] {
            let spec = PackageSpec::parse(text).unwrap();
            assert_eq!((spec.name(), spec.version(), spec.program()), (name, version, program), "{text}");
            assert_eq!(PackageSpec::parse(&spec.to_string()).unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn other_sources_of_code_are_refused() {
        for text in [
            "server",
            "git:x",
            "npm:",
            "npm:./here",
            "npm:/abs",
            "npm:../up",
            "npm:-g",
            "npm:--registry=http://x",
            "npm:a/b",
            "npm:a@npm:b",
            "npm:a@file:../x",
            "npm:https://x/y.tgz",
            "npm:user/repo#main",
            "npm:a@1 --registry",
            "npm:A",
            "npm:@a",
            "npm:@a/../b",
            "pypi:a @ https://x/y.whl",
            "pypi:-r",
            "pypi:a;python_version<'3'",
            "pypi:a==1 --index-url",
            "pypi:git+https://x",
            "pypi:./a",
            "pypi:a[",
        ] {
            assert!(PackageSpec::parse(text).is_err(), "{text}");
        }
    }
}
