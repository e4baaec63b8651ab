//! `toolgate completions`: a script for a shell. Those of bash, fish and zsh ask this program what fits, so that also names and ids are completed.

mod candidates;
mod line;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::print;
use crate::arguments::Cli;
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};
use crate::terminal::escape_line;

use self::line::{Candidate, complete};

/// Names the shell that asks.
const VARIABLE: &str = "TOOLGATE_COMPLETE";

const BASH: &str = r#"_toolgate() {
    local IFS=$'\n'
    COMPREPLY=($(TOOLGATE_COMPLETE=bash toolgate -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _toolgate toolgate
"#;

const FISH: &str = r#"complete --command toolgate --arguments '(TOOLGATE_COMPLETE=fish toolgate -- (commandline --tokenize --cut-at-cursor --current-process)[2..] (commandline --current-token --cut-at-cursor) 2>/dev/null)'
"#;

const ZSH: &str = r#"#compdef toolgate
_toolgate() {
    local -a found
    found=(${(f)"$(TOOLGATE_COMPLETE=zsh toolgate -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then _describe toolgate found; else _files; fi
}
compdef _toolgate toolgate
"#;

pub(crate) fn run(shell: Shell) -> Result<u8, CliError> {
    match shell {
        Shell::Bash => print(BASH)?,
        Shell::Fish => print(FISH)?,
        Shell::Zsh => print(ZSH)?,
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "toolgate", &mut script);
            print(&String::from_utf8_lossy(&script))?
        }
    };
    Ok(SUCCESS)
}

/// Answers a shell that asks what fits its line, and returns the exit code. A question writes nothing and starts nothing.
pub(crate) fn answer() -> Option<u8> {
    let shell = std::env::var(VARIABLE).ok()?;
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut root = Cli::command();
    root.build();
    let rows: String = complete(&root, &words).iter().map(|candidate| row(candidate, &shell)).collect();
    Some(if print(&rows).is_ok() { SUCCESS } else { TOOL_ERROR })
}

/// A candidate as a shell takes it. What it is about may be words of a model.
fn row(candidate: &Candidate, shell: &str) -> String {
    let (value, about) = (escape_line(&candidate.value), escape_line(&candidate.about));
    match (shell, about.is_empty()) {
        ("fish", false) => format!("{value}\t{about}\n"),
        ("zsh", false) => format!("{}:{about}\n", value.replace(':', "\\:")),
        ("zsh", true) => format!("{}\n", value.replace(':', "\\:")),
        _ => format!("{value}\n"),
    }
}
