//! What fits the last word of a line that is not finished, by the definition that also parses whole lines.

use clap::{Arg, Command};

use super::candidates::values_of;

/// One word that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) value: String,
    /// What it is; empty if its name says it.
    pub(crate) about: String,
}

impl Candidate {
    pub(crate) fn new(value: impl Into<String>) -> Self {
        Self { value: value.into(), about: String::new() }
    }

    pub(crate) fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }
}

/// Where a line is after some words.
struct LinePosition<'c> {
    command: &'c Command,
    /// The names of the subcommands.
    path: Vec<&'c str>,
    /// The option whose value comes next.
    expected: Option<&'c Arg>,
    /// How many positional arguments were given.
    positional: usize,
    /// Whether `--` was given.
    is_literal: bool,
}

/// The candidates for the last of these words. `root` must be built.
pub(super) fn complete(root: &Command, words: &[String]) -> Vec<Candidate> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let start =
        LinePosition { command: root, path: Vec::new(), expected: None, positional: 0, is_literal: false };
    let position = before.iter().fold(start, |position, word| position.after(word));
    let mut candidates = position.candidates(current, words);
    candidates.retain(|candidate| candidate.value.starts_with(current.as_str()));
    candidates
}

impl<'c> LinePosition<'c> {
    fn after(mut self, word: &str) -> Self {
        if self.expected.take().is_some() {
            return self;
        }
        let option = match word.strip_prefix("--") {
            _ if self.is_literal => None,
            Some("") => {
                self.is_literal = true;
                return self;
            }
            Some(name) => self.options().find(|option| {
                let names = option.get_long_and_visible_aliases().unwrap_or_default();
                names.contains(&name)
            }),
            None => word.strip_prefix('-').and_then(|letters| {
                let last = letters.chars().last()?;
                self.options().find(|option| option.get_short() == Some(last))
            }),
        };
        if !self.is_literal && word.len() > 1 && word.starts_with('-') {
            self.expected = option.filter(|option| option.get_action().takes_values());
        } else if let Some(command) =
            self.command.find_subcommand(word).filter(|_| self.positional == 0 && !self.is_literal)
        {
            self.path.push(command.get_name());
            self.command = command;
        } else {
            self.positional += 1;
        }
        self
    }

    fn options(&self) -> impl Iterator<Item = &'c Arg> + use<'c> {
        self.command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_hide_set())
    }

    fn candidates(&self, current: &str, words: &[String]) -> Vec<Candidate> {
        if let Some(option) = self.expected {
            return self.values(option, words);
        }
        if current.starts_with('-') && !self.is_literal {
            let named = self.options().filter_map(|option| {
                let about = option.get_help().map(ToString::to_string).unwrap_or_default();
                Some(Candidate::new(format!("--{}", option.get_long()?)).about(about))
            });
            return named.collect();
        }
        let positional: Vec<&Arg> = self.command.get_positionals().collect();
        let takes_several =
            |argument: &&&Arg| argument.get_num_args().is_some_and(|count| count.max_values() > 1);
        let argument = positional.get(self.positional).or_else(|| positional.last().filter(takes_several));
        let values = argument.map(|argument| self.values(argument, words)).unwrap_or_default();
        let is_first = self.positional == 0 && !self.is_literal;
        let commands = self.command.get_subcommands().filter(|command| is_first && !command.is_hide_set());
        let commands = commands.map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            Candidate::new(command.get_name()).about(about)
        });
        commands.chain(values).collect()
    }

    fn values(&self, argument: &Arg, words: &[String]) -> Vec<Candidate> {
        let declared = argument.get_possible_values();
        if declared.is_empty() {
            return values_of(&self.path, argument.get_id().as_str(), words);
        }
        let shown = declared.iter().filter(|value| !value.is_hide_set());
        let candidate = |value: &clap::builder::PossibleValue| {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            Candidate::new(value.get_name()).about(about)
        };
        shown.map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Cli;

    fn offered(line: &str) -> Vec<String> {
        let mut root = Cli::command();
        root.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        complete(&root, &words).into_iter().map(|candidate| candidate.value).collect()
    }

    #[test]
    fn commands_options_and_their_values_are_offered_where_they_fit() {
        for (line, expected) in [
            ("aud", &["audit"][..]),
            ("audit s", &["show"]),
            ("--json --workspace there audit t", &["tail"]),
            ("mcp install --clie", &["--client"]),
            ("audit show --limit 3 --dec", &["--decision"]),
            ("sessions export last --format m", &["markdown"]),
            ("--trust gui", &["guided"]),
            ("tools --profile cr", &["crew"]),
            ("completions z", &["zsh"]),
            // Neither after `--` nor as the value of an option is a word a command.
            ("--workspace audit sh", &[]),
            ("tools new x -- au", &[]),
            ("no-such-command x", &[]),
        ] {
            assert_eq!(offered(line), expected, "{line}");
        }
        assert!(offered("").len() > 15 && offered("-").contains(&"--state-dir".to_owned()));
    }
}
