//! Command lines that are rejected before they run, each with an alternative.
//!
//! This is advice, not the security boundary: a line can be written in more ways than a list knows, and whatever runs is confined by the sandbox
//! anyway. The list saves a model an attempt that could not work or is never wanted, and explains why. It works on the words that a shell would see:
//! quotes are removed, every simple command of a line is checked, and wrapper commands are looked through.

/// A rejected command: its name, the reason, and the alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) instead: &'static str,
}

const fn blocked(name: &'static str, meaning: &'static str, instead: &'static str) -> Blocked {
    Blocked { name, meaning, instead }
}

const NO_NETWORK: &str =
    "the operator can allow hosts with `sandbox.network`; go on with what is in the workspace";
const WHOLE_DISK: &str = "work on files of the workspace";

/// Programs rejected by name. A name also covers its variants: `mkfs` covers `mkfs.ext4`.
const PROGRAMS: [Blocked; 10] = [
    blocked(
        "sudo",
        "it asks for the rights of another user",
        "run the command without `sudo`: the workspace is yours already",
    ),
    blocked("shutdown", "it would turn the machine off", "leave the machine running"),
    blocked("reboot", "it would restart the machine", "leave the machine running"),
    blocked("format", "it would format a disk", WHOLE_DISK),
    blocked("mkfs", "it would format a disk", WHOLE_DISK),
    blocked("dd", "it copies over raw disks", "use `cp`, `head -c` or `truncate` on files of the workspace"),
    blocked("curl", "it reaches into the network", NO_NETWORK),
    blocked("wget", "it reaches into the network", NO_NETWORK),
    blocked("nc", "it opens connections", NO_NETWORK),
    blocked("netcat", "it opens connections", NO_NETWORK),
];

/// Programs that are allowed once there are hosts to reach.
const NETWORK_PROGRAMS: [&str; 2] = ["curl", "wget"];

const REMOVE_ALL: Blocked = blocked(
    "rm -rf /",
    "it would remove a whole tree outside the directory it runs in",
    "name the directory relative to where the command runs, such as `rm -rf build`",
);

const OPEN_TO_ALL: Blocked = blocked(
    "chmod 777",
    "it would let everybody change the file",
    "give only the right that is missing, such as `chmod u+x FILE`",
);

/// Commands that run the command that follows them.
const WRAPPER_COMMANDS: [&str; 13] = [
    "env", "command", "exec", "builtin", "nohup", "nice", "ionice", "time", "setsid", "stdbuf", "timeout",
    "xargs", "eval",
];

/// Shell keywords after which a command begins.
const SHELL_KEYWORDS: [&str; 9] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{"];

const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// Nesting of `sh -c` beyond this is not followed.
const MAX_DEPTH: usize = 4;

/// Why a line is rejected, if it is.
pub(crate) fn blocked_line(line: &str, has_network: bool) -> Option<Blocked> {
    let look = LineCheck { allowed: if has_network { &NETWORK_PROGRAMS } else { &[] } };
    removes_all_somewhere(line).then_some(REMOVE_ALL).or_else(|| look.in_line(line, MAX_DEPTH))
}

/// Whether `rm -rf /` or `rm -rf ~` appears anywhere, quoted or not: such a line is at best about to run it.
fn removes_all_somewhere(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(3).any(|three| match three {
        [first, "-rf", target] => {
            let before = first.strip_suffix("rm");
            let is_rm =
                before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            is_rm && target.starts_with(['/', '~'])
        }
        _ => false,
    })
}

/// The check of one line.
struct LineCheck {
    /// Programs that this check allows.
    allowed: &'static [&'static str],
}

impl LineCheck {
    fn in_line(&self, line: &str, depth: usize) -> Option<Blocked> {
        simple_commands(line).iter().find_map(|words| self.in_command(words, depth))
    }

    fn in_command(&self, words: &[String], depth: usize) -> Option<Blocked> {
        let mut rest = words;
        while let [first, after @ ..] = rest {
            let name = first.rsplit('/').next().unwrap_or(first);
            if SHELL_KEYWORDS.contains(&name) || is_assignment(first) {
                rest = after;
            } else if WRAPPER_COMMANDS.contains(&name) {
                let skipped = after.iter().take_while(|word| belongs_to_wrapper(word)).count();
                rest = after.get(skipped..).unwrap_or_default();
                if let ("eval", Some(depth)) = (name, depth.checked_sub(1)) {
                    return self.in_line(&rest.join(" "), depth);
                }
            } else {
                return self
                    .by_name(name, after)
                    .or_else(|| self.in_shell(name, after, depth.checked_sub(1)?));
            }
        }
        None
    }

    fn by_name(&self, name: &str, arguments: &[String]) -> Option<Blocked> {
        let is_kind_of = |known: &str| {
            name.strip_prefix(known).is_some_and(|kind| kind.is_empty() || kind.starts_with('.'))
        };
        let programs = PROGRAMS.iter().filter(|program| !self.allowed.contains(&program.name));
        let program = programs.copied().find(|program| is_kind_of(program.name));
        program.or_else(|| match name {
            "rm" if removes_all(arguments) => Some(REMOVE_ALL),
            "chmod" if opens_to_all(arguments) => Some(OPEN_TO_ALL),
            _ => None,
        })
    }

    /// The line of `sh -c LINE`.
    fn in_shell(&self, name: &str, arguments: &[String], depth: usize) -> Option<Blocked> {
        if !SHELLS.contains(&name) {
            return None;
        }
        let is_line = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        let at = arguments.iter().position(is_line)?;
        self.in_line(arguments.get(at + 1)?, depth)
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Whether a word is an option, number, duration or assignment that belongs to a wrapper command.
fn belongs_to_wrapper(word: &str) -> bool {
    word.starts_with('-') || is_assignment(word) || word.starts_with(|first: char| first.is_ascii_digit())
}

/// Recursive and forced, as short or long options, with a target at the root or at home.
fn removes_all(arguments: &[String]) -> bool {
    let has = |short: [char; 2], long: &str| {
        let is_short =
            |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains(short);
        arguments.iter().any(|word| is_short(word) || word == long)
    };
    has(['r', 'R'], "--recursive")
        && has(['f', 'f'], "--force")
        && arguments.iter().any(|word| {
            word.starts_with(['/', '~']) || word.starts_with("$HOME") || word.starts_with("${HOME")
        })
}

fn opens_to_all(arguments: &[String]) -> bool {
    let mode = arguments.iter().find(|word| !word.starts_with('-'));
    mode.is_some_and(|mode| {
        let digits = mode.trim_start_matches('0');
        digits.starts_with("777")
            || matches!(&**mode, "a+rwx" | "a=rwx" | "ugo+rwx" | "ugo=rwx" | "+rwx" | "=rwx")
    })
}

/// The words of every simple command in a line, including those within `$( )` and backticks. Malformed lines yield too many commands rather than too
/// few.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut reader = ShellWordReader::default();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        match (reader.quote, character) {
            (Some('\''), '\'') | (Some('"'), '"') => reader.quote = None,
            (Some('\''), inside) => reader.push(inside),
            (_, '\\') => {
                characters.next();
                if let Some(taken) = next.filter(|taken| *taken != '\n') {
                    reader.push(taken);
                }
            }
            // A command of its own, wherever it appears; its output becomes part of a word that is unknown here.
            (_, '`') => reader.end_command(),
            (_, '$') if next == Some('(') => {
                characters.next();
                reader.open();
            }
            (Some(_), ')') if reader.is_within() => reader.close(),
            (Some(_), inside) => reader.push(inside),
            (None, '\'' | '"') => {
                reader.quote = Some(character);
                reader.begun = true;
            }
            (None, ' ' | '\t') => reader.end_word(),
            (None, '#') if !reader.begun => while characters.next_if(|next| *next != '\n').is_some() {},
            (None, ')') => reader.close(),
            (None, ';' | '&' | '|' | '\n' | '(') => reader.end_command(),
            // A redirection: what follows is a file, not a command; what came before may be a descriptor number.
            (None, '<' | '>') => reader.end_word(),
            (None, plain) => reader.push(plain),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct ShellWordReader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: String,
    begun: bool,
    quote: Option<char>,
    /// The quote state around each open `$(`.
    around: Vec<Option<char>>,
}

impl ShellWordReader {
    fn push(&mut self, character: char) {
        self.word.push(character);
        self.begun = true;
    }

    fn end_word(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.words.push(std::mem::take(&mut self.word));
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }

    fn open(&mut self) {
        self.end_command();
        self.around.push(self.quote.take());
    }

    fn is_within(&self) -> bool {
        !self.around.is_empty() && self.quote.is_none()
    }

    fn close(&mut self) {
        self.end_command();
        self.quote = self.around.pop().flatten();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(line: &str) -> Option<&'static str> {
        blocked_line(line, false).map(|blocked| blocked.name)
    }

    #[test]
    fn every_blocked_pattern_is_refused() {
        for (line, pattern) in [
            ("sudo ls", "sudo"),
            ("  sudo", "sudo"),
            ("rm -rf /", "rm -rf /"),
            ("rm -rf /etc", "rm -rf /"),
            ("rm -rf ~", "rm -rf /"),
            ("rm -rf ~/x", "rm -rf /"),
            ("shutdown -h now", "shutdown"),
            ("reboot", "reboot"),
            ("format c:", "format"),
            ("mkfs /dev/sda", "mkfs"),
            ("mkfs.ext4 /dev/sda", "mkfs"),
            ("dd if=/dev/zero of=/dev/sda", "dd"),
            ("chmod 777 x", "chmod 777"),
            ("curl http://example.com", "curl"),
            ("wget http://example.com", "wget"),
            ("nc -l 80", "nc"),
            ("netcat -l 80", "netcat"),
        ] {
            assert_eq!(name(line), Some(pattern), "{line}");
        }
    }

    #[test]
    fn every_command_of_a_line_is_looked_at() {
        for line in [
            "ls; sudo ls",
            "ls && sudo ls",
            "ls || sudo ls",
            "ls | sudo tee x",
            "ls & sudo ls",
            "ls\nsudo ls",
            "echo $(sudo ls)",
            "echo \"$(sudo ls)\"",
            "echo \"a $(echo b; sudo ls) c\"",
            "echo `sudo ls`",
            "(sudo ls)",
            "{ sudo ls; }",
            "if true; then sudo ls; fi",
            "! sudo ls",
            "X=1 Y=2 sudo ls",
            "env X=1 sudo ls",
            "env -i sudo ls",
            "command sudo ls",
            "exec sudo ls",
            "nohup nice -n 10 sudo ls",
            "timeout 5s sudo ls",
            "/usr/bin/sudo ls",
            "s'u'do ls",
            "\\sudo ls",
            "\"sudo\" ls",
            "sh -c 'sudo ls'",
            "bash -lc \"true && sudo ls\"",
            "eval 'sudo ls'",
            "eval sudo ls",
            "find . | xargs sudo rm",
            "ls > out; sudo ls",
            "ls 2>&1 | sudo tee",
            "sh -c \"sh -c 'sudo ls'\"",
        ] {
            assert_eq!(name(line), Some("sudo"), "{line}");
        }
        for line in [
            "rm -fr /",
            "rm -r -f /x",
            "rm --recursive --force /x",
            "rm -Rf -- /x",
            "rm -rf build /",
            "rm -rf $HOME",
            "cd x && rm -rf ~",
            "echo 'rm -rf /'",
        ] {
            assert_eq!(name(line), Some("rm -rf /"), "{line}");
        }
        for line in ["chmod -R 777 .", "chmod 0777 x", "chmod a+rwx x"] {
            assert_eq!(name(line), Some("chmod 777"), "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not_refused() {
        for line in [
            "",
            "ls -la",
            "echo sudo",
            "grep -r 'sudo ls' .",
            "echo 'a; sudo b'",
            "echo \"a; curl b\"",
            "git log --format=%s",
            "cargo fmt # sudo",
            "rm -rf build",
            "rm -rf ./build target/debug",
            "rm file /tmp/x",
            "rm -r /tmp/x",
            "chmod 755 x",
            "chmod u+x x",
            "cat dd nc",
            "echo a\\;sudo",
            "formatter x",
            "npm run format",
            "xargs grep sudo",
            "ncdu",
            "sed 's/curl/wget/' x",
            "farm -rf /x",
        ] {
            assert_eq!(name(line), None, "{line}");
        }
    }

    #[test]
    fn with_hosts_to_reach_fetching_is_no_longer_pointless() {
        assert_eq!(blocked_line("curl https://example.com", true), None);
        assert_eq!(blocked_line("wget https://example.com", true), None);
        assert!(blocked_line("nc example.com 80", true).is_some());
        assert!(blocked_line("curl https://example.com; sudo ls", true).is_some());
    }

    #[test]
    fn odd_lines_are_read_to_their_end() {
        for line in ["'", "\"", "\\", "$(", "`", ")))", "$(((", "'\"$(`\\", "a\\\nb", "<>|&;"] {
            let _ = name(line);
        }
        let deep = "sh -c '".repeat(2000);
        let _ = name(&deep);
        assert_eq!(name("ls \\\n; sudo x"), Some("sudo"));
    }
}
