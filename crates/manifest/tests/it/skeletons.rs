//! A generated manifest parses, has no warnings and renders the same command.

use serde_json::Value;
use toolgate_manifest::{ConfigWarning, ToolManifest, skeleton};
use toolgate_types::{ToolClass, ToolName};

fn tool(command: &[&str]) -> (ToolManifest, Vec<ConfigWarning>) {
    let name: ToolName = "new_tool".parse().unwrap();
    let text = skeleton(&name, command).unwrap();
    match ToolManifest::parse_bytes("new.yaml", text.as_bytes()) {
        Ok(read) => read,
        Err(problems) => panic!("{command:?}\n{text}\n{}", problems.render()),
    }
}

#[test]
fn commands_become_manifests_without_warnings() {
    for (command, expected) in [
        (&["git", "log", "--oneline"][..], &["git", "log", "--oneline"][..]),
        (&["git", "log", "--max-count={count}"], &["git", "log", "--max-count=1"]),
        (&["git", "log", "--author={author}", "{branch}"], &["git", "log", "--author=example", "example"]),
        (&["head", "-n{count:integer}", "{file}"], &["head", "-n1", "./README.md"]),
        (&["head", "-n", "{count}", "{path}"], &["head", "-n", "1", "./README.md"]),
        (&["ls", "-la", "{directory}"], &["ls", "-la", "./README.md"]),
        (&["ls", "src/{file}"], &["ls", "src/example"]),
        (&["grep", "-e{pattern}", "--", "{dir:path}"], &["grep", "-e", "example", "--", "./README.md"]),
        (&["grep", "{verbose:boolean}", "x"], &["grep", "--verbose", "x"]),
        (&["grep", "{ignore_case:boolean}", "x"], &["grep", "--ignore-case", "x"]),
        (&["tool", "{ratio:number}", "{a}:{b}"], &["tool", "1", "example:example"]),
        (
            &["echo", "{}", "{a b}", "{count:a colour}", "{", "}", "{{x}}"],
            &["echo", "{}", "{a b}", "{count:a colour}", "{", "}", "{example}"],
        ),
        (
            &["echo", "a: b", "# c", "\"d\"", "e\\f", "null", "~", "", "5", "- x", "*y", "&z", "é\u{1f600}"],
            &["echo", "a: b", "# c", "\"d\"", "e\\f", "null", "~", "", "5", "- x", "*y", "&z", "é\u{1f600}"],
        ),
        (&["echo", "two\nlines\ttab"], &["echo", "two\nlines\ttab"]),
        (
            &["echo", "\u{feff}", "a\u{85}\u{2028}\u{2029}", "\u{fffe}b", "\u{ffff}\u{10ffff}"],
            &["echo", "\u{feff}", "a\u{85}\u{2028}\u{2029}", "\u{fffe}b", "\u{ffff}\u{10ffff}"],
        ),
        (&["git", "show", "{revision}:{path}"], &["git", "show", "example:./README.md"]),
        (
            &["git", "diff", "{from}...{to}", "--", "{path}"],
            &["git", "diff", "example...example", "--", "./README.md"],
        ),
        (&["rm", "{file}"], &["rm", "./README.md"]),
        (&["/usr/bin/env", "printenv"], &["/usr/bin/env", "printenv"]),
        (&["python3", "script.py", "{count}"], &["python3", "script.py", "1"]),
        (&["same", "{x}", "{x}"], &["same", "example", "example"]),
        (&["true"], &["true"]),
        (&[], &["true"]),
    ] {
        let (tool, warnings) = tool(command);
        assert!(
            warnings.is_empty(),
            "{command:?}: {}",
            warnings.iter().map(ConfigWarning::render).collect::<String>()
        );
        let input: &Value = &tool.examples[0].input.value;
        assert_eq!(tool.command.template.render(input).unwrap(), expected, "{command:?}");
    }
}

#[test]
fn the_class_follows_the_program() {
    for (program, class) in [
        ("git", ToolClass::Read),
        ("cp", ToolClass::Write),
        ("/bin/bash", ToolClass::Write),
        ("rm", ToolClass::Destructive),
    ] {
        assert_eq!(tool(&[program]).0.class.value, class, "{program}");
    }
}

#[test]
fn any_name_and_any_word_give_a_manifest() {
    for name in ["null", "true", "5", "-x", "a.b", "NO", "1e5"] {
        let text = skeleton(&name.parse().unwrap(), &["date"]).unwrap();
        let (tool, _) = ToolManifest::parse_bytes("new.yaml", text.as_bytes()).unwrap();
        assert_eq!(tool.name.value.as_str(), name);
    }
}

#[test]
fn code_from_a_call_is_warned_about() {
    assert!(!tool(&["bash", "-c", "{script}"]).1.is_empty());
}

#[test]
fn what_an_operator_sees() {
    let name: ToolName = "git_log".parse().unwrap();
    insta::assert_snapshot!(
        "skeleton",
        skeleton(
            &name,
            &["git", "log", "--max-count={count}", "--author={author}", "{verbose:boolean}", "--", "{path}"]
        )
        .unwrap()
    );
}

#[test]
fn a_placeholder_of_a_type_that_there_is_not_is_refused() {
    let name: ToolName = "log".parse().unwrap();
    for (word, told) in [
        ("--count={count:int}", "`{count:int}`: there is no type `int`"),
        ("{file:folder}", "`{file:folder}`: there is no type `folder`"),
    ] {
        let error = skeleton(&name, &["git", word]).unwrap_err();
        assert_eq!(error.to_string(), told);
        assert!(error.help().contains("`string`") || error.help().contains("`integer`"), "{}", error.help());
    }
    // The program's own braces stay unchanged.
    for word in ["{a:1}", "{\"a\":true}", "stash@{0}", "{print $1}"] {
        assert!(skeleton(&name, &["awk", word]).is_ok(), "{word}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn literal_words_survive(words in proptest::collection::vec("[^\\x00{}]{0,8}", 0..4)) {
        let mut command = vec!["date"];
        command.extend(words.iter().map(String::as_str));
        let (tool, _) = tool(&command);
        assert_eq!(tool.command.template.render(&serde_json::json!({})).unwrap(), command);
    }
}
