//! The input line of the chat, with history and completion.
//!
//! The editor blocks while it waits for input, so it runs on its own thread; the conversation and the upstream servers continue.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::config::{BellStyle, CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use tokio::sync::{mpsc, oneshot};
use toolgate_assembly::ambient::{directory_entries, write_new_file};

use super::slash_command::COMMANDS;
use crate::exit::CliError;
use crate::terminal::{escape_line, warn};

/// The most lines that the history keeps.
const MAX_HISTORY_LINES: usize = 1000;

/// An input of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditorInput {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or end of file.
    End,
}

/// The prompt, without and with colours.
pub(crate) struct PromptText {
    pub(crate) plain: String,
    pub(crate) styled: String,
}

/// A request for a line: the prompt, and the channel for the answer.
type LineRequest = (PromptText, oneshot::Sender<io::Result<EditorInput>>);

/// The source of input lines.
pub(crate) struct InputReader(mpsc::Sender<LineRequest>);

impl InputReader {
    /// Starts the reader: a line editor if standard input is a terminal, else plain lines from standard input. Typed lines are saved in the history
    /// file, if one is given.
    pub(crate) fn start(history: Option<PathBuf>, mounts: Vec<(String, PathBuf)>) -> Result<Self, CliError> {
        let (sender, mut wanted) = mpsc::channel::<LineRequest>(1);
        let work = move || {
            let mut typing =
                io::stdin().is_terminal().then(|| TerminalEditor::new(history, mounts)).transpose();
            while let Some((prompt, answer)) = wanted.blocking_recv() {
                let line = match &mut typing {
                    Ok(Some(typing)) => typing.read_line(&prompt),
                    Ok(None) => read_plain(),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // The receiver is gone when the program is about to exit.
                let _ = answer.send(line);
            }
        };
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(work)
            .map_err(|error| CliError::error(format!("no thread could be started: {error}")))?;
        Ok(Self(sender))
    }

    /// The next line.
    pub(crate) async fn next_line(&self, prompt: PromptText) -> io::Result<EditorInput> {
        let gone = || io::Error::other("the line editor has ended");
        let (sender, answer) = oneshot::channel();
        self.0.send((prompt, sender)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn read_plain() -> io::Result<EditorInput> {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line)? {
        0 => Ok(EditorInput::End),
        _ => Ok(EditorInput::Text(line)),
    }
}

/// A line editor on a terminal.
struct TerminalEditor {
    editor: Editor<PromptCompleter, DefaultHistory>,
    history: Option<PathBuf>,
}

impl TerminalEditor {
    fn new(history: Option<PathBuf>, mounts: Vec<(String, PathBuf)>) -> io::Result<Self> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(readline_error)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .bell_style(BellStyle::None)
            .build();
        let mut editor = Editor::with_config(config).map_err(readline_error)?;
        editor.set_helper(Some(PromptCompleter { mounts }));
        if let Some(history) = &history {
            // Created here with mode 0600, so that it is never readable by others, not even briefly.
            match write_new_file(history, b"", 0o600) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    warn(&format!("lines will not be remembered: {error}"));
                }
                _ => {
                    let _ = editor.load_history(history);
                }
            }
        }
        Ok(Self { editor, history })
    }

    fn read_line(&mut self, prompt: &PromptText) -> io::Result<EditorInput> {
        let read = self.editor.readline(&(prompt.plain.as_str(), prompt.styled.as_str()));
        match read {
            Ok(line) => {
                let is_new = self.editor.add_history_entry(&line).is_ok_and(|is_new| is_new);
                if let Some(history) = self.history.as_ref().filter(|_| is_new) {
                    let _ = self.editor.append_history(history);
                }
                Ok(EditorInput::Text(line))
            }
            Err(ReadlineError::Interrupted) => Ok(EditorInput::Interrupted),
            Err(ReadlineError::Eof) => Ok(EditorInput::End),
            Err(error) => Err(readline_error(error)),
        }
    }
}

fn readline_error(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

/// Completes commands, and paths that begin with a mount.
struct PromptCompleter {
    mounts: Vec<(String, PathBuf)>,
}

impl PromptCompleter {
    /// Where the completed word begins, and its candidates.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        if line.starts_with('/') && !line.contains(char::is_whitespace) {
            let names = COMMANDS.iter().map(|command| command.name).filter(|name| name.starts_with(line));
            return (0, names.map(str::to_owned).collect());
        }
        let start = line.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let word = line.get(start..).unwrap_or_default();
        if !word.starts_with('@') {
            return (start, Vec::new());
        }
        (start, self.paths(word))
    }

    /// Paths with the alias of a mount, and those of the workspace without.
    fn paths(&self, word: &str) -> Vec<String> {
        let named = |alias: &str| self.mounts.iter().find(|(known, _)| known == alias);
        let (folder, begun) = word.rsplit_once('/').unwrap_or(("@", word.trim_start_matches('@')));
        // What is offered is what could be attached: nothing above a mount.
        if folder.trim_start_matches('@').split('/').any(|name| name == "..") {
            return Vec::new();
        }
        let (alias, beneath) = folder.split_once('/').unwrap_or((folder, ""));
        let (root, beneath) = match (named(alias), self.mounts.first()) {
            (Some((_, root)), _) => (root, beneath),
            (None, Some((_, root))) => (root, folder.trim_start_matches('@')),
            (None, None) => return Vec::new(),
        };
        let aliases = self.mounts.iter().filter(|(alias, _)| folder == "@" && alias.starts_with(word));
        let aliases = aliases.map(|(alias, _)| format!("{alias}/"));
        let is_plain = |name: &str| escape_line(name) == name && !name.contains(char::is_whitespace);
        let found = directory_entries(&root.join(beneath)).into_iter();
        // Names with invisible characters are not offered; nor are dotfiles, unless the prefix begins with a dot.
        let fitting = found.filter(|(name, _)| {
            name.starts_with(begun) && is_plain(name) && (begun.starts_with('.') || !name.starts_with('.'))
        });
        let before = if folder == "@" { "@".to_owned() } else { format!("{folder}/") };
        let paths =
            fitting.map(|(name, is_folder)| format!("{before}{name}{}", if is_folder { "/" } else { "" }));
        aliases.chain(paths).collect()
    }
}

impl Completer for PromptCompleter {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, candidates) = self.candidates(line.get(..position).unwrap_or_default());
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

impl Validator for PromptCompleter {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for PromptCompleter {
    type Hint = String;
}

impl Highlighter for PromptCompleter {}

impl Helper for PromptCompleter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes files by hand")]
    fn words_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/.hidden")).unwrap();
        for name in ["src/main.rs", "src/map.rs", "src/ma\u{1b}[2J"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let assistant =
            PromptCompleter { mounts: vec![("@project".to_owned(), folder.path().to_path_buf())] };
        let table: [(&str, usize, &[&str]); 11] = [
            ("@s", 0, &["@src/"]),
            ("@src/mai", 0, &["@src/main.rs"]),
            ("@../", 0, &[]),
            ("/mo", 0, &["/model"]),
            ("/t", 0, &["/tools", "/trust"]),
            ("/model x", 7, &[]),
            ("look at @p", 8, &["@project/"]),
            ("look at @project/s", 8, &["@project/src/"]),
            ("@project/src/ma", 0, &["@project/src/main.rs", "@project/src/map.rs"]),
            ("@project/src/.", 0, &["@project/src/.hidden/"]),
            ("@nothing/src/", 0, &[]),
        ];
        for (line, start, expected) in table {
            let (at, mut found) = assistant.candidates(line);
            found.sort();
            assert_eq!(
                (at, found),
                (start, expected.iter().map(|text| (*text).to_owned()).collect()),
                "{line}"
            );
        }
    }
}
