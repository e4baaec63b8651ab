//! Generates a first manifest for a command, to be narrowed by hand.
//!
//! Words of the command may contain placeholders: `{count}`, or with a type `{count:integer}`; the types are `string`, `integer`,
//! `number`, `boolean` and `path`. A word that is exactly `{verbose:boolean}` becomes the flag `--verbose`. Other braces are literal;
//! `{count:int}` is a placeholder with an unknown type.

use std::fmt::Write;

use toolgate_types::{ToolClass, ToolName};

use super::warnings::{INTERPRETERS, WRITERS};
use crate::decode::nearest_or_all;
use crate::problem::shown;

/// Programs whose effect cannot be undone.
const DESTRUCTIVE_PROGRAMS: &[&str] =
    &["rm", "rmdir", "dd", "shred", "unlink", "truncate", "mkfs", "kill", "pkill", "killall"];

/// Words in argument names that suggest integers.
const INTEGER_WORDS: &[&str] = &[
    "count", "limit", "number", "n", "num", "max", "min", "lines", "depth", "size", "days", "hours",
    "minutes", "seconds", "page", "offset", "width", "height", "level", "top", "port", "bytes", "line",
    "index",
];

/// Words in argument names that suggest paths.
const PATH_WORDS: &[&str] = &["path", "file", "filename", "dir", "directory", "folder"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentType {
    String,
    Integer,
    Number,
    Boolean,
    Path,
}

/// The types by their names.
const TYPES: [(&str, ArgumentType); 5] = [
    ("string", ArgumentType::String),
    ("integer", ArgumentType::Integer),
    ("number", ArgumentType::Number),
    ("boolean", ArgumentType::Boolean),
    ("path", ArgumentType::Path),
];

/// Why no manifest could be generated for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkeletonError {
    /// A placeholder has an unknown type.
    UnknownType {
        /// The placeholder without its braces.
        placeholder: String,
        /// The type.
        kind: String,
    },
}

impl SkeletonError {
    /// A remedy.
    #[must_use]
    pub fn help(&self) -> String {
        let Self::UnknownType { kind, .. } = self;
        nearest_or_all(kind, TYPES.iter().map(|(name, _)| *name))
    }
}

impl std::fmt::Display for SkeletonError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::UnknownType { placeholder, kind } = self;
        write!(formatter, "`{{{}}}`: there is no type `{}`", shown(placeholder), shown(kind))
    }
}

impl std::error::Error for SkeletonError {}

struct Placeholder {
    name: String,
    kind: ArgumentType,
}

enum WordPiece {
    Literal(String),
    Placeholder(Placeholder),
}

/// The text of a manifest for a command: it parses, and it allows as little as possible.
///
/// # Errors
/// A placeholder of an unknown type.
pub fn skeleton(name: &ToolName, command: &[impl AsRef<str>]) -> Result<String, SkeletonError> {
    let words: Vec<Vec<WordPiece>> =
        command.iter().map(|word| pieces(word.as_ref())).collect::<Result<_, SkeletonError>>()?;
    let program = command.first().map_or("true", AsRef::as_ref);
    let class = class(program);
    let mut arguments: Vec<&Placeholder> = Vec::new();
    for placeholder in words.iter().flatten().filter_map(placeholder) {
        if !arguments.iter().any(|known| known.name == placeholder.name) {
            arguments.push(placeholder);
        }
    }
    let shown: Vec<&str> = command.iter().map(AsRef::as_ref).collect();
    let mut text = String::new();
    let _ = write!(
        text,
        "# What models call it, and what they choose it by: say what it does and when to use it.\n\
         tool: {}\n\
         description: {}\n\
         \n\
         # read (changes nothing), write (can be put back) or destructive.\n\
         class: {}\n\
         # A caller must hold all of these.\n\
         permissions: [{}:{}]\n",
        quoted(name.as_str()),
        quoted(&format!("Runs `{}`", printable(&shown.join(" ")))),
        class.as_str(),
        area(program),
        class.as_str(),
    );
    input(&arguments, &mut text);
    text.push_str(
        "\n# One item for each argument; no shell reads them. A value never becomes two arguments, and one that begins\n\
         # with `-` is refused unless `\"--\"` stands before it. [\"--author\", \"{author}\"] is left out without a value.\n",
    );
    let items: Vec<String> = match words.is_empty() {
        true => vec![quoted("true")],
        false => words.iter().map(|word| item(word)).collect(),
    };
    let _ = writeln!(text, "command: [{}]", items.join(", "));
    text.push_str(REST);
    example(&arguments, &mut text);
    Ok(text)
}

const REST: &str = r#"
# Where it runs. It sees this mount and nothing else; list `mounts` for more, with `:rw` where it may change files.
cwd: "@project"
timeout: 30s

# How its output is read: text, lines, json or jsonl; and what an answer must look like.
output:
  parse: text
  schema: {type: string}
# What of an answer may leave, by field: allow, mask or redact. What no rule names is dropped.
policy: {"*": allow}

# More that a manifest can say:
# elevated: {when: input.count > 20, permissions: [area:more]}
# network: [api.example.com]
# environment: {LC_ALL: C}
# limits: {memory: 512MiB, processes: 64, output: 1MiB}
# success_codes: [0, 1]
# stderr: show
# rate: {calls: 60, per: 1m}
# version: "1.0"
"#;

fn placeholder(piece: &WordPiece) -> Option<&Placeholder> {
    match piece {
        WordPiece::Placeholder(placeholder) => Some(placeholder),
        WordPiece::Literal(_) => None,
    }
}

fn class(program: &str) -> ToolClass {
    let program = program.rsplit('/').next().unwrap_or(program);
    if DESTRUCTIVE_PROGRAMS.contains(&program) {
        ToolClass::Destructive
    } else if WRITERS.contains(&program) || INTERPRETERS.contains(&program) {
        ToolClass::Write
    } else {
        ToolClass::Read
    }
}

/// The program's name as the prefix of a permission.
fn area(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    let area: String = name
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-'))
        .take(64)
        .collect();
    let area = area.trim_start_matches(['-', '.']);
    if area.is_empty() { "tool".to_owned() } else { area.to_owned() }
}

fn input(arguments: &[&Placeholder], text: &mut String) {
    if arguments.is_empty() {
        text.push_str("\n# It takes no arguments.\ninput: {properties: {}}\n");
        return;
    }
    text.push_str("\n# What it takes: JSON Schema. Whatever is not declared is refused, so declare as narrowly as you can.\ninput:\n  properties:\n");
    for argument in arguments {
        let schema = match argument.kind {
            ArgumentType::String => "{type: string, maxLength: 200, pattern: \"^[^-@].*$\"}",
            ArgumentType::Integer => "{type: integer, minimum: 0, maximum: 1000}",
            ArgumentType::Number => "{type: number, minimum: 0}",
            ArgumentType::Boolean => "{type: boolean}",
            ArgumentType::Path => "{type: string, x-toolgate-path: \"@project\"}",
        };
        let _ = writeln!(text, "    {}: {schema}", quoted(&argument.name));
    }
    let required = arguments.iter().filter(|argument| argument.kind != ArgumentType::Boolean);
    let required: Vec<String> = required.map(|argument| quoted(&argument.name)).collect();
    let _ = writeln!(text, "  required: [{}]", required.join(", "));
}

fn example(arguments: &[&Placeholder], text: &mut String) {
    let value = |argument: &&Placeholder| {
        let value = match argument.kind {
            ArgumentType::String => "example",
            ArgumentType::Integer | ArgumentType::Number => "1",
            ArgumentType::Boolean => "true",
            ArgumentType::Path => "README.md",
        };
        format!("{}: {value}", quoted(&argument.name))
    };
    let values: Vec<String> = arguments.iter().map(value).collect();
    text.push_str("\n# Calls that must be allowed or denied; `toolgate check` tries them.\n");
    let _ = writeln!(text, "examples:\n  - {{input: {{{}}}, expect: allowed}}", values.join(", "));
}

/// One item of the command.
fn item(word: &[WordPiece]) -> String {
    match word {
        [WordPiece::Placeholder(Placeholder { name, kind: ArgumentType::Boolean })] => {
            let flag = quoted(&format!("--{}", name.replace('_', "-")));
            format!("{{if: {}, then: [{flag}]}}", quoted(name))
        }
        // Text directly after a short option could be read as more options, so it becomes an argument of its own.
        [
            WordPiece::Literal(option),
            WordPiece::Placeholder(Placeholder { name, kind: ArgumentType::String | ArgumentType::Path }),
        ] if option.len() == 2 && option.starts_with('-') && option != "--" => {
            format!("[{}, {}]", quoted(&escaped(option)), quoted(&format!("{{{name}}}")))
        }
        _ => {
            let text: String = word
                .iter()
                .map(|piece| match piece {
                    WordPiece::Literal(text) => escaped(text),
                    WordPiece::Placeholder(placeholder) => format!("{{{}}}", placeholder.name),
                })
                .collect();
            quoted(&text)
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Splits a word at its placeholders.
fn pieces(word: &str) -> Result<Vec<WordPiece>, SkeletonError> {
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), word);
    while let Some((before, after)) = rest.split_once('{') {
        literal.push_str(before);
        let found = match after.split_once('}') {
            Some((inside, after)) => typed(inside, &literal, pieces.is_empty())?.zip(Some(after)),
            None => None,
        };
        match found {
            Some((placeholder, after)) => {
                if !literal.is_empty() {
                    pieces.push(WordPiece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(WordPiece::Placeholder(placeholder));
                rest = after;
            }
            None => {
                literal.push('{');
                rest = after;
            }
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(WordPiece::Literal(literal));
    }
    Ok(pieces)
}

/// `name` or `name:type`, after some literal text; `None` if it is neither.
fn typed(inside: &str, before: &str, first: bool) -> Result<Option<Placeholder>, SkeletonError> {
    let (name, kind) = inside.split_once(':').map_or((inside, None), |(name, kind)| (name, Some(kind)));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(plain) || name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let known = |kind: &str| TYPES.iter().find(|(known, _)| *known == kind).map(|(_, kind)| *kind);
    let kind = match kind {
        None => suggested(name),
        Some(kind) => match known(kind) {
            Some(kind) => kind,
            None if kind.starts_with(|first: char| first.is_ascii_alphabetic())
                && kind.bytes().all(plain) =>
            {
                let (placeholder, kind) = (inside.to_owned(), kind.to_owned());
                return Err(SkeletonError::UnknownType { placeholder, kind });
            }
            None => return Ok(None),
        },
    };
    // A path is written relative to the working directory, so it must be at the start of an argument or value.
    let begins = (before.is_empty() && first) || before.ends_with(['=', ':', ',']);
    let short = first && before.len() == 2 && before.starts_with('-');
    let kind = if kind == ArgumentType::Path && !begins && !short { ArgumentType::String } else { kind };
    Ok(Some(Placeholder { name: name.to_owned(), kind }))
}

fn suggested(name: &str) -> ArgumentType {
    let lower = name.to_ascii_lowercase();
    let has = |known: &[&str]| lower.split('_').any(|word| known.contains(&word));
    if has(PATH_WORDS) {
        ArgumentType::Path
    } else if has(INTEGER_WORDS) {
        ArgumentType::Integer
    } else {
        ArgumentType::String
    }
}

/// Characters besides control characters that are ambiguous, or that YAML accepts only as escapes.
const UNSAFE_CHARS: [char; 5] = ['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{ffff}'];

/// Quotes text that YAML would otherwise read as something else.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-' | b'=');
    let simple = text.bytes().all(plain)
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '-' || first == '/');
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    if simple
        && text.trim_start_matches('-').starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && !words.contains(&&*text.to_ascii_lowercase())
    {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            hidden if hidden.is_control() || UNSAFE_CHARS.contains(&hidden) => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(hidden));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(200).collect()
}
