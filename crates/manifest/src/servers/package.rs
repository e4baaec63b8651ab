//! `package`: a server that is a package of a registry, such as `npm:@modelcontextprotocol/server-memory@2026.1.1`.
//!
//! Only names and versions of a registry are accepted: no URL, path, Git address or alias, which would be other sources of code.

use std::fmt;

use super::image::{is_image_name, is_image_version, split_image};

/// The longest name or version.
const MAX_BYTES: usize = 214;

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackageRegistry {
    /// The npm registry that npm is configured for.
    Npm,
    /// The Python package index that pip or uv is configured for.
    Pypi,
    /// Container images of the registries that the engine of the machine is configured for.
    Image,
}

impl PackageRegistry {
    /// The word before the colon.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Image => "image",
        }
    }
}

/// A package with the version that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackageSpec {
    registry: PackageRegistry,
    name: String,
    /// A version, range or tag for npm; version specifiers such as `==1.2` for Python; `:TAG` or `@sha256:DIGEST` for images; empty for the newest.
    version: String,
}

/// Why a text names no package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageSpecError {
    /// It does not begin with a registry.
    #[error("it does not begin with `npm:`, `pypi:` or `image:`")]
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
    /// Parses `npm:NAME@VERSION`, `pypi:NAME==VERSION` or `image:NAME:TAG`; the version may be left out.
    ///
    /// # Errors
    /// See [`PackageSpecError`].
    pub fn parse(text: &str) -> Result<Self, PackageSpecError> {
        match text.split_once(':') {
            Some(("npm", rest)) => Self::of(PackageRegistry::Npm, rest),
            Some(("pypi", rest)) => Self::of(PackageRegistry::Pypi, rest),
            Some(("image", rest)) => Self::of(PackageRegistry::Image, rest),
            _ => Err(PackageSpecError::Registry),
        }
    }

    /// Parses what follows the colon, which is also what `npx`, `uvx` and `docker run` accept.
    ///
    /// # Errors
    /// See [`PackageSpecError`].
    pub fn of(registry: PackageRegistry, text: &str) -> Result<Self, PackageSpecError> {
        let has_colon = text.contains(':') && registry != PackageRegistry::Image;
        if text.contains("://")
            || text.starts_with(['.', '/', '~', '-'])
            || text.contains(['\\', '#'])
            || has_colon
        {
            return Err(PackageSpecError::Source);
        }
        let (name, version) = match registry {
            PackageRegistry::Npm => split_npm(text),
            PackageRegistry::Pypi => split_pypi(text),
            PackageRegistry::Image => split_image(text),
        };
        let is_name = match registry {
            PackageRegistry::Npm => is_npm_name(name),
            PackageRegistry::Pypi => is_pypi_name(name),
            PackageRegistry::Image => is_image_name(name),
        };
        if !is_name || name.len() > MAX_BYTES {
            return Err(PackageSpecError::Name(shown(name)));
        }
        let version = match (registry, version) {
            (PackageRegistry::Npm, "latest")
            | (PackageRegistry::Pypi, "@latest")
            | (PackageRegistry::Image, ":latest") => String::new(),
            (PackageRegistry::Pypi, version) => {
                version.strip_prefix('@').map_or_else(|| version.to_owned(), |exact| format!("=={exact}"))
            }
            (PackageRegistry::Npm | PackageRegistry::Image, version) => version.to_owned(),
        };
        let is_version = match registry {
            PackageRegistry::Image => is_image_version(&version),
            _ => version.bytes().all(|byte| is_version_byte(registry, byte)),
        };
        if version.len() > MAX_BYTES || !is_version {
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

    /// As npm, pip and container engines take it.
    #[must_use]
    pub fn requirement(&self) -> String {
        match (self.registry, self.version.as_str()) {
            (_, "") => self.name.clone(),
            (PackageRegistry::Npm, version) => format!("{}@{version}", self.name),
            (PackageRegistry::Pypi | PackageRegistry::Image, version) => format!("{}{version}", self.name),
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
        PackageRegistry::Image => b"",
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
            ("image:mcp/time", "mcp/time", "", "time"),
            ("image:mcp/time:latest", "mcp/time", "", "time"),
            ("image:ghcr.io/a/b-c:1.2", "ghcr.io/a/b-c", ":1.2", "b-c"),
            ("image:localhost:5000/a", "localhost:5000/a", "", "a"),
            ("image:localhost:5000/a:v1", "localhost:5000/a", ":v1", "a"),
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
            "image:",
            "image:-v",
            "image:--privileged",
            "image:/a",
            "image:../a",
            "image:a//b",
            "image:a b",
            "image:a:",
            "image:a:-x",
            "image:a@sha256:0",
            "image:a@md5:0",
            "image:docker://a",
            "image:A/b:c:d",
        ] {
            assert!(PackageSpec::parse(text).is_err(), "{text}");
        }
    }
}
