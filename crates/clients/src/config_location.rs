//! Where clients keep their configuration files.

use std::path::PathBuf;

/// The configuration file of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigLocation {
    /// In the home directory.
    Home(&'static str),
    /// In the configuration directory (`XDG_CONFIG_HOME`).
    Config(&'static str),
    /// In the directory of desktop applications.
    Application(&'static str),
    /// In the directory that a variable names, else in this directory below the home directory.
    Variable(&'static str, &'static str, &'static str),
}

/// The directories that the files are in.
#[derive(Clone, Debug, Default)]
pub struct BaseDirectories {
    /// See [`ConfigLocation`].
    pub home: Option<PathBuf>,
    /// See [`ConfigLocation`].
    pub config: Option<PathBuf>,
    /// See [`ConfigLocation`].
    pub application: Option<PathBuf>,
}

impl ConfigLocation {
    /// The file; `None` if there is no home directory.
    pub fn resolve(
        self,
        folders: &BaseDirectories,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<PathBuf> {
        let BaseDirectories { home, config, application } = folders;
        match self {
            Self::Home(path) => Some(home.as_ref()?.join(path)),
            Self::Config(path) => Some(config.as_ref()?.join(path)),
            Self::Application(path) => Some(application.as_ref()?.join(path)),
            Self::Variable(name, folder, file) => {
                let named = variable(name).map(PathBuf::from).filter(|named| named.is_absolute());
                let folder = named.or_else(|| Some(home.as_ref()?.join(folder)))?;
                Some(folder.join(file))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_counts_before_the_home_folder() {
        let folders = BaseDirectories { home: Some("/home/sam".into()), ..BaseDirectories::default() };
        let base = ConfigLocation::Variable("CODEX_HOME", ".codex", "config.toml");
        for (value, expected) in [
            (None, Some("/home/sam/.codex/config.toml")),
            (Some("/srv/codex"), Some("/srv/codex/config.toml")),
            (Some("relative"), Some("/home/sam/.codex/config.toml")),
        ] {
            let found = base.resolve(&folders, |_| value.map(str::to_owned));
            assert_eq!(found, expected.map(PathBuf::from), "{value:?}");
        }
        assert_eq!(base.resolve(&BaseDirectories::default(), |_| None), None);
        assert_eq!(ConfigLocation::Config("x").resolve(&folders, |_| None), None);
    }
}
