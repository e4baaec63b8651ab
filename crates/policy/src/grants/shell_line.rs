//! A shell line as a list of simple commands, or nothing.
//!
//! This is not a shell parser: it accepts the few lines whose words are what they look like in every POSIX shell and in bash, and refuses all others.
//! A line is simple commands between `;`, `&&` and `||`. A word is plain, or wholly within one pair of quotes. Everything that a shell expands,
//! redirects, nests or runs in the background is refused, and so is every character outside of printable ASCII, since a blank that is none to the
//! shell, or the other way round, would be a different line.

/// Longer lines are refused.
pub const MAX_LINE_BYTES: usize = 4096;

/// More simple commands than this are refused as a whole, never judged in part.
const MAX_COMMANDS: usize = 16;

/// Words that mean something else than a program where a command begins.
const RESERVED: [&str; 24] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while", "alias", "eval", "exec", "source", "export", "set", "unset",
];

/// The words of a simple command, unquoted; at least one.
pub type SimpleCommand = Vec<String>;

/// The simple commands of a line; `None` where a word might mean anything but itself.
#[must_use]
pub fn parse_line(line: &str) -> Option<Vec<SimpleCommand>> {
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    if line.len() > MAX_LINE_BYTES || !line.bytes().all(is_printable) {
        return None;
    }
    let mut rest = line.trim_matches(' ');
    let mut commands = Vec::new();
    loop {
        let (command, after) = simple_command(rest)?;
        commands.push(command);
        if commands.len() > MAX_COMMANDS {
            return None;
        }
        if after.is_empty() {
            return Some(commands);
        }
        let separator = ["&&", "||", ";"].into_iter().find(|separator| after.starts_with(separator))?;
        rest = after.get(separator.len()..)?.trim_start_matches(' ');
    }
}

/// A simple command, and the rest from its separator on.
fn simple_command(mut rest: &str) -> Option<(SimpleCommand, &str)> {
    let mut words: SimpleCommand = Vec::new();
    loop {
        let (word, after) = match words.is_empty() {
            true => program(rest)?,
            false => word(rest)?,
        };
        words.push(word);
        let next = after.trim_start_matches(' ');
        if next.is_empty() || next.starts_with([';', '&', '|']) {
            return Some((words, next));
        }
        if next.len() == after.len() {
            // Two parts of one word, such as `a"b"`.
            return None;
        }
        rest = next;
    }
}

/// The program of a command: a plain name. A path could lead anywhere, and `=` makes it an assignment.
fn program(rest: &str) -> Option<(String, &str)> {
    let (name, after) = plain(rest)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte);
    (name.bytes().all(is_name) && !RESERVED.contains(&name)).then(|| (name.to_owned(), after))
}

fn word(rest: &str) -> Option<(String, &str)> {
    let (quoted, after) = match rest.as_bytes().first()? {
        b'\'' => rest.get(1..)?.split_once('\'')?,
        b'"' => {
            let (quoted, after) = rest.get(1..)?.split_once('"')?;
            // `!` is history expansion in an interactive bash.
            if quoted.contains(['$', '`', '\\', '!']) {
                return None;
            }
            (quoted, after)
        }
        _ => plain(rest)?,
    };
    Some((quoted.to_owned(), after))
}

/// The longest run of characters that no shell treats specially.
fn plain(rest: &str) -> Option<(&str, &str)> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    let length = rest.bytes().take_while(|byte| is_plain(*byte)).count();
    (length > 0).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        let shown = |line: &str| {
            parse_line(line)
                .map(|commands| commands.iter().map(|words| words.join("·")).collect::<Vec<_>>().join(" ; "))
        };
        for (line, expected) in [
            ("cargo test", Some("cargo·test")),
            ("  cargo   test -p a  ", Some("cargo·test·-p·a")),
            ("git commit -m 'a $b; c' \"it's\"", Some("git·commit·-m·a $b; c·it's")),
            ("a b&&c||d;e f", Some("a·b ; c ; d ; e·f")),
            ("a ''", Some("a·")),
            ("a --x=1 b:c @d 100%", Some("a·--x=1·b:c·@d·100%")),
            ("", None),
            (" ", None),
            ("a;", None),
            (";a", None),
            ("a &", None),
            ("a & b", None),
            ("a | b", None),
            ("a |& b", None),
            ("a &&", None),
            ("a &&& b", None),
            ("a ;; b", None),
            ("a\nb", None),
            ("a\tb", None),
            ("a\rb", None),
            ("a\u{a0}b", None),
            ("a b\u{2003}c", None),
            ("ca\u{440}go test", None),
            ("a > b", None),
            ("a 2>&1", None),
            ("a <b", None),
            ("a $b", None),
            ("a $(b)", None),
            ("a `b`", None),
            ("a \"$b\"", None),
            ("a \"`b`\"", None),
            ("a \"b\\c\"", None),
            ("a \"b!c\"", None),
            ("a b\\ c", None),
            ("a 'b", None),
            ("a 'b'c", None),
            ("a b'c'", None),
            ("a 'b''c'", None),
            ("'a' b", None),
            ("\"a\" b", None),
            ("a=b c", None),
            ("./a b", None),
            ("/bin/a b", None),
            ("a *", None),
            ("a ?", None),
            ("a [b]", None),
            ("a {b,c}", None),
            ("a ~", None),
            ("a ~/b", None),
            ("a # b", None),
            ("a #", None),
            ("! a", None),
            ("a !b", None),
            ("(a)", None),
            ("{ a; }", None),
            ("a() { b; }", None),
            ("if a", None),
            ("exec a", None),
            ("time a", None),
            ("a ^b", None),
        ] {
            assert_eq!(shown(line).as_deref(), expected, "{line:?}");
        }
        assert!(parse_line(&format!("a {}", "b".repeat(MAX_LINE_BYTES - 2))).is_some());
        assert!(parse_line(&format!("a {}", "b".repeat(MAX_LINE_BYTES - 1))).is_none());
        assert!(parse_line(&vec!["a"; MAX_COMMANDS].join(";")).is_some());
        assert!(parse_line(&vec!["a"; MAX_COMMANDS + 1].join(";")).is_none(), "never judged in part");
    }
}
