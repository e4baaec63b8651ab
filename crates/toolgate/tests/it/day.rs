//! A day with `toolgate chat`: a task with edits and tests, a host that is allowed once, a grant that is given and revoked, Ctrl-C, and resuming.
//!
//! The tests spend it on terminals of several sizes; `cargo xtask pictures` draws some of its screens.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::pty::Pty;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How a terminal looks.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) name: &'static str,
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) options: &'static [&'static str],
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

const fn look(name: &'static str, columns: u16, rows: u16) -> Look {
    Look { name, columns, rows, options: &[], variables: &[] }
}

pub(crate) const LOOKS: [Look; 5] = [
    look("80x24", 80, 24),
    look("120x40", 120, 40),
    look("narrow", 40, 60),
    Look { variables: &[("NO_COLOR", "1")], ..look("without-colour", 80, 24) },
    Look { options: &["--plain"], ..look("plain", 80, 24) },
];

/// A terminal in which the day is spent.
pub(crate) trait Terminal {
    fn press(&mut self, keys: &str);
    /// The screen, row by row.
    fn shown(&self) -> String;
    /// What was written, including what scrolled away, with its colours.
    fn everything(&self) -> Vec<u8>;
    /// Waits until the screen satisfies the predicate.
    fn wait(&mut self, what: &str, is_there: &dyn Fn(&str) -> bool) -> String;
    /// Waits until there may be more.
    fn step(&mut self, what: &str);
    /// Waits for the end of the program; returns whether it succeeded.
    fn has_ended_well(&mut self) -> bool;
    /// The screen with its colours, once nothing more is written.
    #[allow(dead_code, reason = "for the pictures")]
    fn screen(&mut self) -> vt100::Screen;
}

impl Terminal for Pty {
    fn press(&mut self, keys: &str) {
        self.press(keys);
    }

    fn shown(&self) -> String {
        self.shown()
    }

    fn everything(&self) -> Vec<u8> {
        self.written.clone()
    }

    fn wait(&mut self, what: &str, is_there: &dyn Fn(&str) -> bool) -> String {
        self.wait(what, is_there)
    }

    fn step(&mut self, what: &str) {
        self.step(what);
    }

    fn has_ended_well(&mut self) -> bool {
        self.ended().success()
    }

    fn screen(&mut self) -> vt100::Screen {
        self.settle();
        Pty::screen(self).clone()
    }
}

/// Starts a program on a terminal of so many rows and columns.
pub(crate) type Open<'o> = &'o dyn Fn(&Command, u16, u16) -> Box<dyn Terminal>;

/// The model of the day; a file beside the workspace.
pub(crate) const MODEL: &str = "day.yaml";

/// A workspace with a mistake, in a git repository.
pub(crate) fn furnish(shop: &Path, beside: &Path) {
    std::fs::create_dir_all(shop.join("src")).unwrap();
    std::fs::write(
        shop.join("src/price.sh"),
        "# The price of $1 euros in cents.\ncents() { echo $(($1 * 10)); }\n",
    )
    .unwrap();
    let test = ". src/price.sh\nif [ \"$(cents 3)\" = 300 ]; then echo \"1 test passed\"; else echo \"1 test failed: cents 3 is $(cents 3)\"; exit 1; fi\n";
    std::fs::write(shop.join("test.sh"), test).unwrap();
    std::fs::write(beside.join(MODEL), script()).unwrap();
    for arguments in
        [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message", "the shop"]]
    {
        let mut git = Command::new("git");
        git.current_dir(shop).args(["-c", "user.name=me", "-c", "user.email=me@example.com"]).args(arguments);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(git.status().unwrap().success(), "git {arguments:?}");
    }
}

fn script() -> String {
    let plan = |first: &str, second: &str| {
        format!(
            "{{tool: update_plan, arguments: {{steps: [{{step: Run the tests, status: {first}}}, {{step: Correct the price, status: {second}}}]}}}}"
        )
    };
    let test = "{tool: run_command, arguments: {command: sh test.sh}}";
    let fetch =
        "{tool: run_command, arguments: {command: curl -sS http://registry.npmjs.org/left-pad/latest}}";
    format!(
        r#"
steps:
  - when: {{prompt: prices, result: run_command, contains: 1 test passed}}
    calls: [{done}]
  - when: {{prompt: prices, result: run_command, contains: 1 test failed}}
    say: "A euro has **100** cents, not 10:"
    calls: [{{tool: edit_file, arguments: {{path: src/price.sh, old_text: "$1 * 10", new_text: "$1 * 100"}}}}]
  - when: {{prompt: prices, result: edit_file}}
    calls: [{test}]
  - when: {{prompt: prices, result: update_plan, contains: "2 of 2"}}
    say: "Prices are right: `cents 3` is 300.\n"
  - when: {{prompt: prices, result: update_plan}}
    calls: [{test}]
  - when: {{prompt: prices}}
    say: "I run the tests first."
    calls: [{begun}]
  - when: {{prompt: changed, result: run_command, contains: "1 file"}}
    say: "One line.\n"
  - when: {{prompt: changed, result: run_command, contains: price.sh}}
    calls: [{{tool: run_command, arguments: {{command: git diff --stat}}}}]
  - when: {{prompt: changed}}
    calls: [{{tool: run_command, arguments: {{command: git diff src}}}}]
  - when: {{prompt: registry, result: run_command, lacks: asks a person}}
    say: "Looked it up.\n"
  - when: {{prompt: registry, result: run_command}}
    calls: [{fetch}]
  - when: {{prompt: registry}}
    calls: [{fetch}]
  - when: {{prompt: story}}
    do: [{{say: "Once upon a time "}}, {{pause: 300s}}, {{say: never}}]
  - say: "We corrected the price.\n"
    repeat: true
"#,
        done = plan("completed", "completed"),
        begun = plan("in_progress", "pending"),
    )
}

/// Spends the day. `chat` is `toolgate chat` in the workspace, to which options may be added, `open` makes the terminals, and `seen` is
/// shown the named screens.
pub(crate) fn spend(
    chat: &dyn Fn() -> Command,
    open: Open<'_>,
    look: Look,
    seen: &mut dyn FnMut(&str, &mut dyn Terminal),
) {
    let begin = |more: &[&str]| {
        let mut command = chat();
        command.args(look.options).args(more).env_remove("PAGER").envs(look.variables.iter().copied());
        let mut terminal = open(&command, look.rows, look.columns);
        prompt(terminal.as_mut(), 0);
        terminal
    };
    let mut terminal = begin(&["--model", &format!("scripted/{MODEL}")]);

    say(terminal.as_mut(), "the prices are wrong, please look", question);
    say(terminal.as_mut(), "y", question);
    seen("edit", terminal.as_mut());
    say(terminal.as_mut(), "y", question);
    say(terminal.as_mut(), "y", prompt);
    seen("done", terminal.as_mut());
    let written = String::from_utf8_lossy(&terminal.everything()).into_owned();
    assert!(written.contains("exit code 1"), "{written}");

    // A grant by leading words answers for another line that begins with them.
    say(terminal.as_mut(), "what changed?", question);
    seen("grant", terminal.as_mut());
    say(terminal.as_mut(), "2w", prompt);
    assert!(terminal.shown().contains("One line."), "{}", terminal.shown());
    command(terminal.as_mut(), "/grants", "revokes one");
    seen("grants", terminal.as_mut());
    let id = grant_id(&terminal.shown());
    command(terminal.as_mut(), &format!("/grants revoke {}", &id[..5]), "is revoked");
    seen("revoked", terminal.as_mut());
    say(terminal.as_mut(), "what changed since?", question);
    say(terminal.as_mut(), "n not again", prompt);

    say(terminal.as_mut(), "ask the registry", question);
    say(terminal.as_mut(), "y", question);
    seen("registry", terminal.as_mut());
    say(terminal.as_mut(), "+1", prompt);
    seen("allowed", terminal.as_mut());

    terminal.press("tell me a story\r");
    terminal.wait("the story", &|shown| shown.contains("Once upon a time"));
    terminal.press("\u{3}");
    prompt(terminal.as_mut(), 0);
    seen("stopped", terminal.as_mut());
    terminal.press("/quit\r");
    assert!(terminal.has_ended_well());
    let left = terminal.shown().replace('\n', " ");
    let words: Vec<&str> = left.split_whitespace().collect();
    let place = words.iter().rposition(|word| *word == "--resume").expect("the line that resumes");
    let session = words[place + 1].to_owned();

    let mut terminal = begin(&["--resume", &session]);
    command(terminal.as_mut(), "where were we?", "We corrected the price.");
    seen("resumed", terminal.as_mut());
    terminal.press("\u{4}");
    assert!(terminal.has_ended_well());
}

/// Says something to a model, or answers a question, and waits for what comes then.
fn say(terminal: &mut dyn Terminal, words: &str, then: fn(&mut dyn Terminal, usize)) {
    let questions = questions(terminal);
    terminal.press(&format!("{words}\r"));
    then(terminal, questions);
}

/// Says something that is answered with this text.
fn command(terminal: &mut dyn Terminal, words: &str, answer: &str) {
    terminal.press(&format!("{words}\r"));
    terminal.wait(answer, &|shown| shown.contains(answer) && last_row(shown).ends_with('❯'));
}

/// How many questions were asked. Their rows but the last are written once.
fn questions(terminal: &dyn Terminal) -> usize {
    String::from_utf8_lossy(&terminal.everything()).matches("[y] once").count()
}

fn question(terminal: &mut dyn Terminal, before: usize) {
    let deadline = Instant::now() + TIMEOUT;
    while questions(terminal) == before || !last_row(&terminal.shown()).ends_with("answer:") {
        // The countdown is written anew each second.
        assert!(Instant::now() < deadline, "a question does not come:\n{}", terminal.shown());
        terminal.step("a question");
    }
}

/// Between turns, or after a question.
fn prompt(terminal: &mut dyn Terminal, _: usize) {
    terminal.wait("a prompt", &|shown| last_row(shown).ends_with('❯'));
}

fn last_row(shown: &str) -> &str {
    shown.lines().rev().find(|row| !row.trim().is_empty()).unwrap_or_default()
}

/// The id in a list of grants.
fn grant_id(shown: &str) -> String {
    let mut words = shown.split_whitespace().rev();
    let is_id = |word: &&str| {
        word.len() == 13 && word.starts_with('g') && word[1..].bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    words.find(is_id).expect("a grant is listed").to_owned()
}
