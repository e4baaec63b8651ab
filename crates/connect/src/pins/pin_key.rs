//! Which pins a server has.

use toolgate_types::Sha256;
use toolgate_types::digest::Sha256Hasher;

use crate::settings::ServerName;

/// How many hexadecimal digits of the origin's digest a file name has.
const FILE_DIGITS: usize = 16;

/// Where a server is declared, and what is started or connected to. Another configuration or another command is another server, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinOrigin {
    /// The configuration file.
    configuration: String,
    digest: Sha256,
}

impl PinOrigin {
    /// The origin of a server that `configuration` declares with this connection: a program and its arguments, or a URL, as they are written there.
    /// Only a digest of the connection is kept, because an argument may be a secret.
    #[must_use]
    pub fn new<'t>(configuration: &str, connection: impl IntoIterator<Item = &'t str>) -> Self {
        let mut hasher = Sha256Hasher::new();
        hasher.update_prefixed(b"toolgate.pins.v2");
        hasher.update_prefixed(configuration.as_bytes());
        connection.into_iter().for_each(|part| hasher.update_prefixed(part.as_bytes()));
        Self { configuration: configuration.to_owned(), digest: hasher.finish() }
    }

    /// The configuration file.
    #[must_use]
    pub fn configuration(&self) -> &str {
        &self.configuration
    }
}

/// Whose pins these are: a server's name, in one configuration, with one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinKey {
    server: ServerName,
    origin: Option<PinOrigin>,
}

impl PinKey {
    /// The pins of a server of this origin; without one, those of the name alone.
    #[must_use]
    pub fn new(server: ServerName, origin: Option<PinOrigin>) -> Self {
        Self { server, origin }
    }

    /// The server's name.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    pub(super) fn origin(&self) -> Option<&PinOrigin> {
        self.origin.as_ref()
    }

    /// The name of its file. A server's name has no dot.
    pub(super) fn file_name(&self) -> String {
        match &self.origin {
            None => self.legacy_file_name(),
            Some(origin) => {
                let digits: String = origin.digest.to_string().chars().take(FILE_DIGITS).collect();
                format!("{}.{digits}.json", self.server)
            }
        }
    }

    /// The name of the file of pins that belonged to the server's name alone.
    pub(super) fn legacy_file_name(&self) -> String {
        format!("{}.json", self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_configuration_or_command_has_another_file() {
        let key = |configuration: &str, connection: &[&str]| {
            let origin = PinOrigin::new(configuration, connection.iter().copied());
            PinKey::new("s".parse().unwrap(), Some(origin)).file_name()
        };
        let known = key("/a/toolgate.yaml", &["npx", "server", "1"]);
        assert_eq!(known, key("/a/toolgate.yaml", &["npx", "server", "1"]));
        for other in [
            key("/b/toolgate.yaml", &["npx", "server", "1"]),
            key("/a/toolgate.yaml", &["npx", "server", "2"]),
            key("/a/toolgate.yaml", &["npx", "server 1"]),
            key("/a/toolgate.yaml", &["npx", "server1"]),
            PinKey::new("s".parse().unwrap(), None).file_name(),
        ] {
            assert_ne!(known, other);
        }
        assert!(known.starts_with("s.") && known.ends_with(".json") && known.len() == 2 + 16 + 5, "{known}");
    }
}
