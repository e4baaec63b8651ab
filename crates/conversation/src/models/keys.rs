//! API keys of models: read from a variable or a file of this user, and passed only to the client that sends them.

use std::path::Path;

use toolgate_assembly::secrets::{self, SecretError};
use toolgate_llm::ApiKey;

use super::catalogue::KeyLocation;
use crate::model_error::ModelError;

/// Reads a key. No message ever contains a part of it.
pub(crate) fn read(
    place: &KeyLocation,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ApiKey>, ModelError> {
    match place {
        KeyLocation::NotNeeded => Ok(None),
        KeyLocation::OptionalVariable(name) => Ok(variable(name).map(ApiKey::new)),
        KeyLocation::Variable(name) => match variable(name) {
            Some(key) => Ok(Some(ApiKey::new(key))),
            None => Err(ModelError::usage(format!("the variable {name} is not set, so there is no key for the model"))
                .help(format!(
                    "set {name}, or keep the key in a file and name it with `key_file:` under `models:`; to look around \
                     without a key, pass --model scripted/demo"
                ))),
        },
        KeyLocation::File(path) => from_file(path).map(Some),
    }
}

fn from_file(path: &Path) -> Result<ApiKey, ModelError> {
    let shown = path.display().to_string();
    let secret = secrets::read(path).map_err(|error| {
        let help = match error {
            SecretError::Unreadable(_) => {
                "write the key into the file, alone, and keep others out with `chmod 600`".to_owned()
            }
            SecretError::Open => error.help(&shown),
        };
        ModelError::usage(error.message(&shown)).help(help)
    })?;
    match std::str::from_utf8(secret.expose()) {
        Ok(text) if !text.trim().is_empty() && text.trim().bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(ApiKey::new(text))
        }
        _ => Err(ModelError::usage(format!("`{shown}` holds no key"))
            .help("write the key into the file, alone on one line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes files by hand")]
    fn keys_come_from_where_they_are_kept_and_are_never_shown() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            KeyLocation::File(path)
        };
        let variable = |name: &str| (name == "SET").then(|| "sk-secret".to_owned());
        let told = |place: &KeyLocation| match read(place, &variable) {
            Ok(key) => format!("{key:?}"),
            Err(failed) => format!("{} / {}", failed.message, failed.help.unwrap_or_default()),
        };
        let table = [
            (KeyLocation::NotNeeded, "None"),
            (KeyLocation::Variable("SET".to_owned()), "Some(…)"),
            (KeyLocation::OptionalVariable("UNSET".to_owned()), "None"),
            (KeyLocation::Variable("UNSET".to_owned()), "the variable UNSET is not set"),
            (file("good", "sk-secret\n", 0o600), "Some(…)"),
            (file("open", "sk-secret\n", 0o644), "others may read or change the secret"),
            (file("empty", "\n", 0o600), "holds no key"),
            (file("two", "sk-secret sk-secret\n", 0o600), "holds no key"),
            (KeyLocation::File(folder.path().join("missing")), "cannot be read"),
        ];
        for (place, expected) in table {
            let told = told(&place);
            assert!(told.contains(expected), "{place:?}: {told}");
            assert!(!told.contains("sk-"), "{told}");
        }
    }
}
