//! Parses a line of the prompt: a message to the model, or a slash command.

use toolgate_text::nearest_name::nearest_name;
use toolgate_types::Trust;

use crate::approval_screen::Screen;

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedInput {
    /// A message to the model.
    Prompt(String),
    /// A command.
    Command(SlashCommand),
    /// Nothing.
    Empty,
    /// An unknown or malformed command, with a message that says what to do instead.
    Invalid(String),
}

/// A command to this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlashCommand {
    Help,
    Tools,
    Trust(Option<Trust>),
    Model(Option<String>),
    Context,
    /// What the conversation has seen, for information flow.
    Labels,
    Cost,
    Diff,
    Copy,
    Export(String),
    Compact,
    /// The lasting grants; with an id, revokes one.
    Grants(Option<String>),
    Init,
    Clear,
    Open(usize),
    Last,
    Undo,
    Sessions,
    New,
    Quit,
}

/// The syntax of a command, and its description.
pub(crate) struct CommandHelp {
    pub(crate) name: &'static str,
    pub(crate) argument: &'static str,
    pub(crate) meaning: &'static str,
}

/// Every command, in the order of `/help`.
pub(crate) const COMMANDS: &[CommandHelp] = &[
    command_help("/help", "", "this list"),
    command_help("/tools", "", "the tools that the model may use"),
    command_help("/trust", "[LEVEL]", "how much is asked: supervised, guided or autonomous"),
    command_help("/model", "[PROVIDER/NAME]", "list the models; with a name, take another one"),
    command_help("/context", "", "how full the model's context is"),
    command_help("/labels", "", "what the model has seen: untrusted, secret"),
    command_help("/compact", "", "summarise the conversation, to make room"),
    command_help("/cost", "", "the tokens of this conversation, and their cost"),
    command_help("/open", "N", "the whole of call #N"),
    command_help("/last", "", "the whole of the last call"),
    command_help("/diff", "", "what this conversation changed"),
    command_help("/undo", "", "put back the newest change, after showing it"),
    command_help("/copy", "", "the last answer to the clipboard"),
    command_help("/export", "FILE", "write this conversation to a new file, as Markdown"),
    command_help("/init", "", "write a toolgate.yaml to start with"),
    command_help("/grants", "[revoke ID]", "list the lasting grants; revoke one"),
    command_help("/sessions", "", "the conversations of this workspace"),
    command_help("/new", "", "begin a new conversation"),
    command_help("/clear", "", "the same, with an empty screen"),
    command_help("/quit", "", "leave; so does Ctrl-D"),
];

const fn command_help(name: &'static str, argument: &'static str, meaning: &'static str) -> CommandHelp {
    CommandHelp { name, argument, meaning }
}

/// Parses a line. A backslash at the end of a line continues it and is removed.
pub(crate) fn parse_input(text: &str) -> ParsedInput {
    let text = text.replace("\\\n", "\n");
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return ParsedInput::Empty;
    }
    // A path such as /etc/hosts at the beginning is a prompt and not a command; `//` escapes a leading slash.
    let Some(rest) = trimmed.strip_prefix('/').filter(|rest| !rest.contains('\n')) else {
        return ParsedInput::Prompt(trimmed.to_owned());
    };
    if let Some(escaped) = rest.strip_prefix('/') {
        return ParsedInput::Prompt(format!("/{escaped}"));
    }
    let (name, argument) =
        rest.split_once(char::is_whitespace).map_or((rest, ""), |(name, rest)| (name, rest.trim()));
    if name.contains('/') {
        return ParsedInput::Prompt(trimmed.to_owned());
    }
    command(name, argument)
}

fn command(name: &str, argument: &str) -> ParsedInput {
    let alone = |command: SlashCommand| match argument {
        "" => ParsedInput::Command(command),
        _ => ParsedInput::Invalid(format!("/{name} stands alone")),
    };
    match name {
        "help" | "?" => alone(SlashCommand::Help),
        "tools" => alone(SlashCommand::Tools),
        "trust" if argument.is_empty() => ParsedInput::Command(SlashCommand::Trust(None)),
        "trust" => match argument.parse() {
            Ok(trust) => ParsedInput::Command(SlashCommand::Trust(Some(trust))),
            Err(_) => ParsedInput::Invalid(format!(
                "there is no trust `{argument}`: use supervised, guided or autonomous"
            )),
        },
        "model" => {
            let model = (!argument.is_empty()).then(|| argument.to_owned());
            ParsedInput::Command(SlashCommand::Model(model))
        }
        "context" => alone(SlashCommand::Context),
        "labels" => alone(SlashCommand::Labels),
        "cost" => alone(SlashCommand::Cost),
        "compact" => alone(SlashCommand::Compact),
        "grants" if argument.is_empty() => ParsedInput::Command(SlashCommand::Grants(None)),
        "grants" => match argument.strip_prefix("revoke").map(str::trim).filter(|id| !id.is_empty()) {
            Some(id) => ParsedInput::Command(SlashCommand::Grants(Some(id.to_owned()))),
            None => ParsedInput::Invalid("write /grants, or /grants revoke ID".to_owned()),
        },
        "diff" => alone(SlashCommand::Diff),
        "copy" => alone(SlashCommand::Copy),
        "init" => alone(SlashCommand::Init),
        "clear" => alone(SlashCommand::Clear),
        "export" if argument.is_empty() => ParsedInput::Invalid("write /export FILE".to_owned()),
        "export" => ParsedInput::Command(SlashCommand::Export(argument.to_owned())),
        "open" => match argument.trim_start_matches('#').parse() {
            Ok(number) => ParsedInput::Command(SlashCommand::Open(number)),
            Err(_) => {
                ParsedInput::Invalid("write /open N, with the number behind the # of a call".to_owned())
            }
        },
        "last" => alone(SlashCommand::Last),
        "undo" => alone(SlashCommand::Undo),
        "sessions" => alone(SlashCommand::Sessions),
        "new" => alone(SlashCommand::New),
        "quit" | "exit" | "q" => alone(SlashCommand::Quit),
        _ => {
            let known = COMMANDS.iter().map(|command| command.name.trim_start_matches('/'));
            let guess = nearest_name(name, known).map(|near| format!("did you mean /{near}? "));
            ParsedInput::Invalid(format!(
                "there is no command /{name}: {}/help lists them; // begins words with a slash",
                guess.unwrap_or_default()
            ))
        }
    }
}

/// The terminal that the list of commands fits beside their names.
const MIN_TABLE_COLUMNS: usize = 80;

/// The list of commands; on a narrow terminal the meaning stands below the name.
pub(crate) fn help(screen: Screen) -> String {
    let row = |name: &str, meaning: &str| match screen.columns >= MIN_TABLE_COLUMNS {
        true => format!("  {name:<24} {meaning}\n"),
        false => format!("  {name}\n{}", screen.indented(meaning)),
    };
    let command =
        |command: &CommandHelp| row(&format!("{} {}", command.name, command.argument), command.meaning);
    let rows: String = COMMANDS.iter().map(command).collect();
    rows + &row("\\ at the end of a line", "goes on in the next one; pasted lines stay together")
        + &row("Ctrl-C", "stops the model; twice at the prompt leaves")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood() {
        let words = |text: &str| ParsedInput::Prompt(text.to_owned());
        let table = [
            ("", ParsedInput::Empty),
            (" \n ", ParsedInput::Empty),
            ("hello", words("hello")),
            ("first\\\nsecond", words("first\nsecond")),
            ("/etc/hosts is wrong", words("/etc/hosts is wrong")),
            ("//help me", words("/help me")),
            ("/help\nme", words("/help\nme")),
            ("/help", ParsedInput::Command(SlashCommand::Help)),
            (" /open #3 ", ParsedInput::Command(SlashCommand::Open(3))),
            ("/trust autonomous", ParsedInput::Command(SlashCommand::Trust(Some(Trust::Autonomous)))),
            ("/trust", ParsedInput::Command(SlashCommand::Trust(None))),
            ("/grants", ParsedInput::Command(SlashCommand::Grants(None))),
            ("/grants revoke abc", ParsedInput::Command(SlashCommand::Grants(Some("abc".to_owned())))),
            ("/model a/b", ParsedInput::Command(SlashCommand::Model(Some("a/b".to_owned())))),
        ];
        for (text, expected) in table {
            assert_eq!(parse_input(text), expected, "{text:?}");
        }
        let ParsedInput::Invalid(help) = parse_input("/opne 3") else { panic!() };
        assert!(help.contains("did you mean /open?"), "{help}");
        for text in [
            "/export",
            "/grants revoke",
            "/grants all",
            "/compact now",
            "/opn 3",
            "/open",
            "/open x",
            "/trust me",
            "/quit now",
        ] {
            assert!(matches!(parse_input(text), ParsedInput::Invalid(_)), "{text}");
        }
    }

    #[test]
    fn a_misspelt_command_gets_the_nearest_one() {
        for (text, expected) in [
            (
                "/opn 3",
                "there is no command /opn: did you mean /open? /help lists them; // begins words with a slash",
            ),
            (
                "/tolls",
                "there is no command /tolls: did you mean /tools? /help lists them; // begins words with a slash",
            ),
            ("/zzzzzz", "there is no command /zzzzzz: /help lists them; // begins words with a slash"),
        ] {
            assert_eq!(parse_input(text), ParsedInput::Invalid(expected.to_owned()));
        }
    }

    #[test]
    fn every_command_of_the_help_is_understood() {
        for CommandHelp { name, argument, .. } in COMMANDS {
            let argument = match *argument {
                "N" => "1",
                "FILE" => "a.md",
                _ => "",
            };
            assert!(matches!(parse_input(&format!("{name} {argument}")), ParsedInput::Command(_)), "{name}");
        }
    }
}
