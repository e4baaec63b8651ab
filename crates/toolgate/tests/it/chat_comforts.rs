//! What a chat shows besides answers: plans, paged texts, summaries, grants, notes of the gate.

use std::process::Command;

use crate::completions::offered;
use crate::fixture::CliFixture;
use crate::pty::Pty;

/// A model with a plan of three steps, one of which imitates a question of the gate.
const PLANNING: &str = r#"
steps:
  - when: {result: update_plan}
    say: "That is the plan."
  - calls:
      - tool: update_plan
        arguments:
          steps:
            - {step: "Read the code", status: completed}
            - {step: "Write a test\n[y] once  [n] no\u001b[2J", status: in_progress}
            - {step: "Run it", status: pending}
"#;

struct Chat {
    place: CliFixture,
    terminal: Pty,
}

impl Chat {
    fn begin(script: &str, rows: u16, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let place = CliFixture::new();
        place.write("script.yaml", script);
        std::fs::write(place.workspace.join("notes.md"), "one\ntwo\n").unwrap();
        Self::on(place, rows, options, variables)
    }

    fn on(place: CliFixture, rows: u16, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
        command.args(["chat", "--model", "scripted/script.yaml"]).args(options).env_remove("PAGER");
        command.envs(variables.iter().copied());
        let terminal = Pty::start(&command, rows, 80);
        let mut chat = Self { place, terminal };
        chat.terminal.wait_for("❯");
        chat
    }

    fn say(&mut self, words: &str, answer: &str) -> String {
        self.terminal.press(&format!("{words}\r"));
        self.terminal.wait(&format!("`{answer}` and a prompt"), |shown| {
            shown.contains(answer) && shown.lines().last().is_some_and(|row| row.ends_with('❯'))
        })
    }
}

#[test]
fn a_plan_is_shown_as_a_list_and_told_to_programs() {
    let mut chat = Chat::begin(PLANNING, 40, &[], &[]);
    let shown = chat.say("go", "That is the plan.");
    let list = "plan: 1 of 3 steps completed\n  ✓ Read the code\n  ▶ Write a test\\n[y] once  [n] no\\u{1b}[2J\n  ○ Run it\n";
    assert!(shown.contains(list), "{shown}");
    // It needs no approval, is recorded like every call, and changes nothing.
    assert_eq!(chat.place.records().last().unwrap().tool.name, "update_plan");
    let output = chat
        .place
        .toolgate()
        .args(["run", "--model", "scripted/script.yaml", "--json", "go"])
        .output()
        .unwrap();
    let events = String::from_utf8(output.stdout).unwrap();
    let event = events.lines().find(|line| line.contains("chat:plan")).unwrap();
    let event: serde_json::Value = serde_json::from_str(event).unwrap();
    assert_eq!(
        event["data"]["steps"][1],
        serde_json::json!({"step": "Write a test\n[y] once  [n] no\u{1b}[2J", "status": "in_progress"})
    );
    let order: Vec<&str> = ["tool-start", "tool-result", "chat:plan", "text-delta"]
        .into_iter()
        .filter(|kind| events.contains(kind))
        .collect();
    let places: Vec<usize> = order.iter().map(|kind| events.find(kind).unwrap()).collect();
    assert!(order.len() == 4 && places.is_sorted(), "{events}");
}

#[test]
fn a_text_that_is_higher_than_the_terminal_is_paged() {
    let mut chat = Chat::begin(PLANNING, 9, &[], &[]);
    chat.terminal.press("/help\r");
    let shown = chat.terminal.wait_for("-- more: 8 of ");
    assert!(shown.lines().last().unwrap().ends_with("Enter goes on, q ends --"), "{shown}");
    chat.terminal.press("\r");
    chat.terminal.wait_for("-- more: 16 of ");
    chat.terminal.press("q");
    chat.terminal.wait("a prompt", |shown| shown.lines().last().is_some_and(|row| row.ends_with('❯')));
    chat.terminal.press("/tools\r");
    chat.terminal.wait_for("-- more: 8 of 1");
    chat.terminal.press("q");
    chat.terminal.wait("a prompt", |shown| shown.lines().last().is_some_and(|row| row.ends_with('❯')));
    let shown = chat.say("/trust", "trust guided");
    assert!(!shown.contains("-- more") && !shown.contains("twice at the prompt leaves"), "{shown}");
}

/// The pager of the person gets the text without colours, and one that is not there is done without.
#[test]
fn the_pager_of_the_person_is_used() {
    let mut chat = Chat::begin(PLANNING, 12, &[], &[("PAGER", "tee paged.txt | head -n 2")]);
    let shown = chat.say("/help", "/tools");
    assert!(!shown.contains("/trust") && !shown.contains("-- more"), "{shown}");
    let paged = std::fs::read_to_string(chat.place.workspace.parent().unwrap().join("paged.txt")).unwrap();
    assert!(paged.contains("/quit") && !paged.contains('\u{1b}'), "{paged:?}");
    let mut chat = Chat::begin(PLANNING, 12, &[], &[("PAGER", "/no/such/pager -R")]);
    chat.terminal.press("/help\r");
    chat.terminal.wait_for("-- more: 11 of ");
    chat.terminal.press("q");
    chat.terminal.wait("a prompt", |shown| shown.lines().last().is_some_and(|row| row.ends_with('❯')));
    chat.say("/trust", "trust guided");
}

#[test]
fn a_conversation_is_summarised_on_request() {
    let script = r#"
model: {context_window: 200000}
steps:
  - when: {prompt: "summary that you write now"}
    say: "We looked at a long file."
  - when: {prompt: look, result: read_file}
    say: "Read."
  - when: {prompt: look}
    calls: [{tool: read_file, arguments: {path: long.txt}}]
  - say: "Yes."
"#;
    let place = CliFixture::new();
    place.write("script.yaml", script);
    std::fs::write(place.workspace.join("long.txt"), "0123456789 abcdefghij\n".repeat(8000)).unwrap();
    let mut chat = Chat::on(place, 40, &[], &[]);
    chat.say("/compact", "nothing was said yet");
    chat.say("look", "Read.");
    chat.say("good", "Yes.");
    let shown = chat.say("/compact", "the conversation is summarised: about ");
    let row = shown.lines().find(|row| row.starts_with("the conversation is summarised")).unwrap();
    let numbers: Vec<u64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[1] < numbers[0] / 2, "{row}");
    // Stored: the conversation that is resumed begins with the summary.
    let shown = chat.say("/compact", "a summary would save no room");
    assert!(!shown.contains("We looked at a long file."), "{shown}");
    chat.say("and now?", "Yes.");
}

#[test]
fn grants_are_listed_and_revoked_in_the_chat() {
    let script = r#"
steps:
  - when: {result: write_file}
    say: "Written."
  - calls: [{tool: write_file, arguments: {path: a.txt, content: "a\n"}}]
"#;
    let mut chat = Chat::begin(script, 60, &[], &[]);
    chat.say("/grants", "there are no lasting grants");
    chat.terminal.press("go\r");
    chat.terminal.wait_for("left, answer:");
    chat.terminal.press("2w\r");
    chat.terminal.wait_for("Written.");
    let shown = chat.say("/grants", "/grants revoke ID revokes one");
    let row = shown.lines().find(|row| row.contains("write_file of @project/a.txt") && !row.starts_with('┃'));
    let id = row.unwrap().split_whitespace().next().unwrap().to_owned();
    // The shell completes it, and the conversation.
    let place = &chat.place;
    let ask = |words: &[&str]| {
        let options = ["--no-config", "--workspace", place.workspace.to_str().unwrap()];
        let state = ["--state-dir", place.state.to_str().unwrap()];
        offered(place, &[&options[..], &state, words].concat())
    };
    assert_eq!(ask(&["grants", "revoke", ""]), [id.as_str()]);
    let sessions = ask(&["sessions", "show", ""]);
    let stored: serde_json::Value =
        serde_json::from_str(&place.must(&["sessions", "list", "--json"])).unwrap();
    assert!(sessions.contains(&"last".to_owned()), "{sessions:?}");
    assert!(sessions.contains(&stored[0]["id"].as_str().unwrap().to_owned()), "{sessions:?} {stored}");
    chat.say(&format!("/grants revoke {id}"), &format!("{id} is revoked"));
    chat.say("/grants revoke nothing", "there is no grant nothing");
    assert_eq!(chat.place.must(&["grants"]), "there are no lasting grants\n");
    // The same call is a question again.
    chat.terminal.press("go\r");
    chat.terminal.wait("a second question", |shown| shown.matches("or n and why").count() == 2);
}

/// A warning while rows are redrawn is a row of its own above them.
#[test]
fn a_note_of_the_gate_does_not_tear_the_rows_that_are_redrawn() {
    let place = CliFixture::new();
    place.write("script.yaml", "steps: [{do: [{say: \"One moment \"}, {pause: 300s}, {say: never}]}]");
    place.write("toolgate.yaml", "trust: guided\n");
    let mut chat = Chat::on(place, 30, &[], &[]);
    chat.terminal.press("go\r");
    chat.terminal.wait_for(" answering · ");
    chat.place.write("toolgate.yaml", "trust: nonsense\n");
    let shown = chat.terminal.wait("the note above the status row", |shown| {
        shown.contains("`nonsense` is not a")
            && shown.lines().last().is_some_and(|row| row.contains(" · Ctrl-C stops"))
    });
    for row in shown.lines().filter(|row| row.contains("toolgate: ")) {
        assert!(row.starts_with("toolgate: "), "{shown}");
    }
    assert_eq!(shown.matches("Ctrl-C stops").count(), 1, "{shown}");
    assert_eq!(shown.matches("One moment").count(), 1, "{shown}");
    chat.terminal.press("\u{3}");
    chat.terminal.wait_for("stopped: by you");
}

/// Where `HOME` is a symlink, the workspace below it is still shown as `~`.
#[test]
fn the_first_row_names_the_workspace_below_the_home_directory() {
    let place = CliFixture::new();
    place.write("script.yaml", "steps: [{say: Yes.}]");
    let link = place.state.parent().unwrap().join("link-to-home");
    std::os::unix::fs::symlink(place.workspace.parent().unwrap(), &link).unwrap();
    let mut command = place.toolgate();
    command.args(["chat", "--model", "scripted/script.yaml"]).env("HOME", &link);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let name = place.workspace.file_name().unwrap().to_str().unwrap();
    assert!(shown.starts_with(&format!("scripted/script.yaml in ~/{name}, trust guided")), "{shown}");
}

/// A file that a message names is read by a call of the gate, and its text is part of the message.
#[test]
fn files_are_attached_through_the_gate() {
    let mut chat = Chat::begin("steps: [{say: \"I got: {{prompt}}\"}]", 60, &[], &[]);
    std::fs::write(chat.place.workspace.join(".env"), "API_KEY=hidden-from-all\n").unwrap();
    std::fs::write(chat.place.workspace.join("cat.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01").unwrap();
    std::fs::write(chat.place.workspace.join("blob.bin"), b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0").unwrap();
    // Completed by the editor, without an alias.
    chat.terminal.press("look at @not\t");
    chat.terminal.wait_for("look at @notes.md");
    chat.terminal.press(", @alice\r");
    let shown = chat.terminal.wait_for("Attached file notes.md:");
    assert!(shown.contains("attached notes.md: 8 bytes\n") && !shown.contains("alice is not"), "{shown}");
    let shown = chat.say("and @.env and @missing/file", ".env is not attached: ");
    assert!(shown.contains("missing/file is not attached: "), "{shown}");
    let shown = chat.say("what is @blob.bin", "blob.bin is not attached: it is neither text nor");
    assert!(!shown.contains("hidden-from-all"), "{shown}");
    let shown = chat.say("what is in @cat.png", "takes no images, as far as is known");
    assert!(shown.contains("attached cat.png: image/png\n"), "{shown}");
    let decisions: Vec<(String, String)> = chat
        .place
        .records()
        .iter()
        .map(|record| (record.details.clone().unwrap().paths.concat(), record.decision.as_str().to_owned()))
        .collect();
    let has =
        |path: &str, decision: &str| decisions.contains(&(format!("@project/{path}"), decision.to_owned()));
    assert!(
        has("notes.md", "ALLOWED") && has(".env", "DENIED") && has("cat.png", "ALLOWED"),
        "{decisions:?}"
    );
    // The attached text is in the stored conversation.
    let kept = chat.place.must(&["sessions", "show", "last", "--full"]);
    assert!(kept.contains("Attached file `notes.md`:") && kept.contains("two"), "{kept}");
}
