//! The steps of the demonstration, as data.

/// The exit code of a successful call.
const DONE: i32 = 0;
/// The exit code of a refused call.
const DENIED: i32 = 3;

/// One command, and what it shows.
pub(super) struct Step {
    pub(super) title: &'static str,
    pub(super) explanation: &'static str,
    pub(super) arguments: &'static [&'static str],
    pub(super) exit: i32,
}

pub(super) const WALK: &[Step] = &[
    Step {
        title: "Agreeing to the configuration",
        explanation: "A file that lies somewhere is not obeyed: it is shown what it would do, and you agree to exactly that.",
        arguments: &["trust", "--yes"],
        exit: DONE,
    },
    Step {
        title: "The tools",
        explanation: "What a model would be offered under the default profile.",
        arguments: &["tools"],
        exit: DONE,
    },
    Step {
        title: "Reading",
        explanation: "A call prints exactly what a model would be given.",
        arguments: &["call", "read_file", r#"{"path": "notes.md"}"#],
        exit: DONE,
    },
    Step {
        title: "Searching",
        explanation: "ripgrep's engine, over the files that this caller may see.",
        arguments: &["call", "search_files", r#"{"pattern": "pears"}"#],
        exit: DONE,
    },
    Step {
        title: "Editing",
        explanation: "The answer is the difference; the write is atomic and can be undone.",
        arguments: &[
            "call",
            "edit_file",
            r#"{"path": "notes.md", "old_text": "- pears", "new_text": "- plums"}"#,
        ],
        exit: DONE,
    },
    Step {
        title: "A new file",
        explanation: "Missing folders are made, inside the workspace only.",
        arguments: &["call", "write_file", r#"{"path": "drafts/idea.md", "content": "Plums keep well.\n"}"#],
        exit: DONE,
    },
    Step {
        title: "A file on the deny list",
        explanation: "Secrets are refused by where they really are, whatever they are called.",
        arguments: &["call", "read_file", r#"{"path": ".env"}"#],
        exit: DENIED,
    },
    Step {
        title: "Climbing out",
        explanation: "The kernel opens files beneath the workspace's handle, so `..` leads nowhere.",
        arguments: &["call", "read_file", r#"{"path": "../outside/secret.txt"}"#],
        exit: DENIED,
    },
    Step {
        title: "Climbing out through a symbolic link",
        explanation: "`shortcut` is a link to a folder outside.",
        arguments: &["call", "read_file", r#"{"path": "shortcut/secret.txt"}"#],
        exit: DENIED,
    },
    Step {
        title: "A misspelt argument",
        explanation: "Refused before the tool runs, with the nearest known name.",
        arguments: &["call", "read_file", r#"{"path": "notes.md", "start_lin": 2}"#],
        exit: DENIED,
    },
    Step {
        title: "A command",
        explanation: "It runs in a view of the system that is made for it: secrets are hidden, there is no network, and nothing it starts outlives it.",
        arguments: &["call", "run_command", r#"{"command": "wc -l notes.md; cat .env; ls /home"}"#],
        exit: DONE,
    },
    Step {
        title: "A tool of the operator's own",
        explanation: "tools.d/count_words.yaml declares a program, its arguments and the permission that it needs.",
        arguments: &["check"],
        exit: DONE,
    },
    Step {
        title: "Called by an agent that holds the permission",
        explanation: "One value is one argument, whatever is in it; no shell reads it.",
        arguments: &["--agent", "reader", "call", "count_words", r#"{"file": "notes.md"}"#],
        exit: DONE,
    },
    Step {
        title: "Called by one that does not",
        explanation: "The model learns that it may not; the operator learns why.",
        arguments: &["--agent", "guest", "call", "count_words", r#"{"file": "notes.md"}"#],
        exit: DENIED,
    },
    Step {
        title: "What was changed",
        explanation: "Every write of the session, from its journal.",
        arguments: &["changes"],
        exit: DONE,
    },
    Step {
        title: "Putting it back",
        explanation: "Everything the session changed, newest first: the new file is removed and the edit reverted.",
        arguments: &["undo", "--session", "cli"],
        exit: DONE,
    },
    Step {
        title: "As before",
        explanation: "Pears again.",
        arguments: &["call", "read_file", r#"{"path": "notes.md"}"#],
        exit: DONE,
    },
    Step {
        title: "A model that works here",
        explanation: "A script plays the model over the wire of a real one; `toolgate chat` is the same with somebody to ask.",
        arguments: &["run", "--model", "scripted/demo", "--trust", "autonomous", "Show me what you do"],
        exit: DONE,
    },
    Step {
        title: "What was said",
        explanation: "Conversations are kept, and can go on.",
        arguments: &["sessions", "show", "last"],
        exit: DONE,
    },
    Step {
        title: "The record",
        explanation: "One line per call, also for the refused ones; arguments only as a digest.",
        arguments: &["audit", "show"],
        exit: DONE,
    },
    Step {
        title: "Nobody changed the record",
        explanation: "Each line is chained to the one before; a changed or missing line would be named.",
        arguments: &["audit", "verify"],
        exit: DONE,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_carries_arguments_that_parse() {
        for step in WALK {
            if let [.., "call", _, arguments] = step.arguments {
                assert!(
                    serde_json::from_str::<serde_json::Value>(arguments).unwrap().is_object(),
                    "{}",
                    step.title
                );
            }
        }
    }
}
