//! Editing a call before it is approved, in the user's editor.
//!
//! The text is in a file of mode 0600 in a directory of its own (mode 0700), which is removed with everything that the editor left there. The editor is
//! the one that git would start: `VISUAL`, else `EDITOR`, else `vi`, run by a shell so that it may have arguments.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use toolgate_text::diff::unified;

/// How often the editor is looked at.
const EDITOR_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An edited text is not longer than this.
const MAX_EDITED_BYTES: u64 = 16 * 1024 * 1024;

/// Unchanged lines around each change that is shown.
const CONTEXT_LINES: usize = 3;

/// The arguments that are edited as plain text: the command, or what is written to a file.
const TEXT_ARGUMENTS: [&str; 4] = ["command", "content", "patch", "new_text"];

/// A call in the editor.
pub(crate) struct EditableCall {
    arguments: Value,
    /// The argument that is edited; the whole arguments as JSON if there is none.
    field: Option<&'static str>,
}

/// What the editor left.
pub(crate) enum EditorOutcome {
    /// Other arguments.
    Changed(Value),
    /// The same arguments.
    Unchanged,
    /// The question ended while the editor was open.
    Ended,
}

impl EditableCall {
    pub(crate) fn new(arguments: &Value) -> Self {
        let is_text = |name: &&&str| arguments.get(**name).is_some_and(Value::is_string);
        let field = TEXT_ARGUMENTS.iter().find(is_text).copied();
        Self { arguments: arguments.clone(), field }
    }

    /// Opens the editor on the terminal.
    pub(crate) fn edit(
        &self,
        terminal: &File,
        deadline: Instant,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<EditorOutcome> {
        let before = self.text();
        let private = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("toolgate-").permissions(private).tempdir()?;
        let path = directory.path().join("call.txt");
        write_private(&path, &before)?;
        if !run_editor(&path, terminal, deadline, stop)? {
            return Ok(EditorOutcome::Ended);
        }
        let after = read_bounded(&path)?;
        directory.close()?;
        // Editors end the last line of a file.
        let after = match after.strip_suffix('\n') {
            Some(text) if !before.ends_with('\n') => text.to_owned(),
            _ => after,
        };
        if after == before {
            Ok(EditorOutcome::Unchanged)
        } else {
            self.with_text(after).map(EditorOutcome::Changed)
        }
    }

    /// The change as a diff.
    pub(crate) fn diff(&self, changed: &Value) -> String {
        let label = self.field.unwrap_or("arguments");
        let after = Self { arguments: changed.clone(), field: self.field }.text();
        unified(&self.text(), &after, label, label, CONTEXT_LINES)
    }

    fn text(&self) -> String {
        match self.field.and_then(|field| self.arguments.get(field)).and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => serde_json::to_string_pretty(&self.arguments).unwrap_or_default(),
        }
    }

    fn with_text(&self, text: String) -> io::Result<Value> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let Some(field) = self.field else {
            let changed: Value = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
            return if changed.is_object() {
                Ok(changed)
            } else {
                Err(invalid("it is no object".to_owned()))
            };
        };
        let mut changed = self.arguments.clone();
        if let Some(value) = changed.get_mut(field) {
            *value = Value::String(text);
        }
        Ok(changed)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a private file for the person's editor, in a directory of its own"
)]
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[expect(clippy::disallowed_methods, reason = "the same file; an editor may have replaced it")]
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_EDITED_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_EDITED_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the edited text is too long"));
    }
    Ok(text)
}

/// Returns whether the editor ended by itself; one that fails is an error.
#[expect(clippy::disallowed_methods, reason = "the person's own editor runs as the person")]
fn run_editor(path: &Path, terminal: &File, deadline: Instant, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".into());
    let mut line = editor.clone();
    line.push(" \"$@\"");
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(line)
        .arg(editor)
        .arg(path)
        .stdin(Stdio::from(terminal.try_clone()?))
        .stdout(Stdio::from(terminal.try_clone()?))
        .stderr(Stdio::from(terminal.try_clone()?))
        .spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return match status.success() {
                true => Ok(true),
                false => Err(io::Error::other(format!("the editor failed ({status})"))),
            };
        }
        if stop() || Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(false);
        }
        std::thread::sleep(EDITOR_POLL_INTERVAL);
    }
}
