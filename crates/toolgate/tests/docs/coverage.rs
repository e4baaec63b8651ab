//! Every option and configuration key is documented.

use toolgate_manifest::EXAMPLE;

use crate::page::Page;
use crate::scratch::Scratch;

const COMMANDS: &[&str] = &[
    "",
    "call",
    "tools",
    "tools new",
    "check",
    "trust",
    "grants",
    "grants list",
    "grants revoke",
    "run",
    "chat",
    "scripted",
    "mcp",
    "mcp install",
    "mcp uninstall",
    "mcp import",
    "mcp login",
    "mcp logout",
    "mcp list",
    "mcp approve",
    "serve",
    "token",
    "token mint",
    "audit",
    "audit show",
    "audit tail",
    "audit verify",
    "sessions",
    "sessions list",
    "sessions show",
    "sessions resume",
    "sessions export",
    "sessions delete",
    "changes",
    "undo",
    "doctor",
    "models",
    "eval",
    "eval hostile",
    "man",
    "completions",
];

fn help(command: &str) -> String {
    let output = Scratch::new().run(&format!("toolgate {command} --help"));
    assert!(output.status.success(), "toolgate {command} --help");
    String::from_utf8(output.stdout).unwrap()
}

/// The options that a text mentions.
fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    words.filter(|word| word.starts_with('-') && word.trim_start_matches('-').len() > 1)
}

#[test]
fn every_option_is_on_the_page_of_the_command_line() {
    let page = Page::read("docs/command-line.md").text();
    for command in COMMANDS {
        for option in options(&help(command)) {
            assert!(page.contains(option), "docs/command-line.md does not mention `{option}` of `{command}`");
        }
    }
}

#[test]
fn every_command_is_on_the_page_of_the_command_line() {
    let page = Page::read("docs/command-line.md").text();
    let help = help("");
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 5, "the commands were not found in the help");
    for name in names.iter().filter(|name| **name != "help") {
        assert!(
            page.contains(&format!("\n## toolgate {name}\n")),
            "docs/command-line.md has no part about `{name}`"
        );
        assert!(COMMANDS.contains(name), "`{name}` is not among the commands whose options are looked up");
    }
}

/// The example file uses every key, which its own tests ensure.
#[test]
fn every_key_is_on_the_page_of_the_configuration() {
    let page = Page::read("docs/configuration.md").text();
    let keys = EXAMPLE.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(|line| {
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        line.match_indices(':').filter_map(move |(end, _)| line[..end].rsplit(|c| !is_name(c)).next())
    });
    let tools =
        ["read_file", "search_files", "write_file", "delete_file", "read_text_file", "send", "find_person"];
    let chosen_by_the_operator = [
        "reviewer",
        "sm",
        "docs",
        "central",
        "git",
        "files",
        "tracker",
        "wiki",
        "LOG",
        "FILES_TOKEN",
        "Team",
        "TEAM",
        "project",
        "local",
        "office",
        "release",
        "to",
        "text",
    ];
    for key in
        keys.filter(|key| !key.is_empty() && !tools.contains(key) && !chosen_by_the_operator.contains(key))
    {
        let mentioned = [format!("`{key}`"), format!("`{key}:"), format!("{{{key}"), format!(" {key}")];
        assert!(
            mentioned.iter().any(|text| page.contains(text)),
            "docs/configuration.md does not mention `{key}`"
        );
    }
}

#[test]
fn every_command_of_the_prompt_is_on_the_page_of_conversations() {
    let page = Page::read("docs/chat.md").text();
    let output = Scratch::new().run("echo /help | toolgate chat --model scripted/demo");
    let help = String::from_utf8(output.stdout).unwrap();
    let commands =
        help.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.starts_with('/'));
    let commands: Vec<&str> = commands.collect();
    assert!(commands.len() > 5, "{help}");
    for command in commands {
        assert!(page.contains(&format!("`{command}")), "docs/chat.md does not mention `{command}`");
    }
}
