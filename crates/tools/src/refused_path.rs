//! The details of a refusal: the mount, the normalised path below it, and the reason.

use serde_json::{Value, json};
use toolgate_text::line_index::truncate_at_char_boundary;
use toolgate_types::Failure;

/// Paths are cut to this length.
const MAX_PATH_BYTES: usize = 200;

/// A path as a call names it. Nothing is resolved: the file may not exist, and the caller may not have access.
pub(crate) struct RefusedPath {
    /// The alias, known or not.
    mount: Option<String>,
    /// Slashes only, no `.` and no empty components; `..` stays, because it may be the reason of the refusal.
    path: String,
}

impl RefusedPath {
    /// The path among the arguments of a call.
    pub(crate) fn of(arguments: &Value) -> Option<Self> {
        let text = arguments.get("path").and_then(Value::as_str)?;
        let slashed = truncate_at_char_boundary(text, MAX_PATH_BYTES).replace('\\', "/");
        let is_absolute = slashed.starts_with('/');
        let names: Vec<&str> = slashed.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let mount = names.first().filter(|name| name.starts_with('@')).map(|name| (*name).to_owned());
        let root = if is_absolute && mount.is_none() { "/" } else { "" };
        Some(Self { path: format!("{root}{}", names.join("/")), mount })
    }
}

/// Adds the mount, the path and the reason. Details that the failure already has take precedence.
pub(crate) fn explain_refusal(named: Option<RefusedPath>, failure: &mut Failure) {
    let reason = json!(failure.message);
    if let Some(RefusedPath { mount, path }) = named {
        failure.details.entry("mount").or_insert(json!(mount));
        failure.details.entry("path").or_insert(json!(path));
    }
    failure.details.entry("reason").or_insert(reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_in_one_spelling() {
        for (written, mount, path) in [
            ("@project/src/main.rs", Some("@project"), "@project/src/main.rs"),
            ("./@project//src/./a", Some("@project"), "@project/src/a"),
            ("/@state", Some("@state"), "@state"),
            ("@project\\..\\evil.txt", Some("@project"), "@project/../evil.txt"),
            ("@nowhere/x", Some("@nowhere"), "@nowhere/x"),
            ("/etc/passwd", None, "/etc/passwd"),
            ("a/../b", None, "a/../b"),
        ] {
            let named = RefusedPath::of(&json!({"path": written})).unwrap();
            assert_eq!((named.mount.as_deref(), named.path.as_str()), (mount, path), "{written}");
        }
        assert!(RefusedPath::of(&json!({"path": 1})).is_none());
        assert!(RefusedPath::of(&json!("text")).is_none());
    }
}
