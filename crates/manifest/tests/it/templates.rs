//! From the arguments of a call to the arguments of a command.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_manifest::{CommandDeclaration, CommandTemplate, RealPaths, ToolManifest};
use toolgate_types::ErrorCode;

/// A template over a fixed set of arguments.
fn template(command: &str) -> CommandTemplate {
    declaration(command).template
}

fn declaration(command: &str) -> CommandDeclaration {
    let text = format!(
        r#"
tool: t
description: A template under test
class: read
permissions: []
cwd: "@project"
mounts: ["@project", "@docs"]
input:
  properties:
    text: {{type: string}}
    other: {{type: string}}
    long: {{type: string, x-toolgate-multiline: true}}
    at: {{type: string, x-toolgate-allow: ["@"]}}
    empty: {{type: string, x-toolgate-allow: [empty]}}
    word: {{enum: ["", a, "@b", -c]}}
    count: {{type: integer}}
    ratio: {{type: number}}
    flag: {{type: boolean}}
    many: {{type: array, items: {{type: string}}}}
    maybe: {{type: [string, "null"]}}
    needed: {{type: string}}
    file: {{type: string, x-toolgate-path: "@project"}}
    source: {{type: string, x-toolgate-path: "@project/src"}}
    doc: {{type: string, x-toolgate-path: "@docs"}}
    files: {{type: array, items: {{type: string, x-toolgate-path: "@project"}}}}
  required: [needed]
command: {command}
"#
    );
    match ToolManifest::parse_bytes("t.yaml", text.as_bytes()) {
        Ok((tool, _)) => tool.command,
        Err(problems) => panic!("{}", problems.render()),
    }
}

#[test]
fn what_becomes_of_values() {
    for (command, input, expected) in [
        (r#"[t, "{text}"]"#, json!({"text": "a b; $(c) `d` 'e' \"f\" *"}), vec!["a b; $(c) `d` 'e' \"f\" *"]),
        (r#"[t, "{text}"]"#, json!({}), vec![]),
        (r#"[t, "x{text}y"]"#, json!({}), vec![]),
        (r#"[t, "{{{text}}}", "{{}}"]"#, json!({"text": "a"}), vec!["{a}", "{}"]),
        (r#"[t, "--a={text}:{other}"]"#, json!({"text": "1", "other": "-2"}), vec!["--a=1:-2"]),
        (r#"[t, "--a={text}:{other}"]"#, json!({"text": "1"}), vec![]),
        (r#"[t, ["--a", "{text}"], end]"#, json!({"text": "1"}), vec!["--a", "1", "end"]),
        (r#"[t, ["--a", "{text}"], end]"#, json!({}), vec!["end"]),
        (r#"[t, ["--a", "{text}", "{other}"], end]"#, json!({"text": "1"}), vec!["end"]),
        (
            r#"[t, "{count}", "{ratio}", "{flag}"]"#,
            json!({"count": 5, "ratio": 1.5, "flag": false}),
            vec!["5", "1.5", "false"],
        ),
        (r#"[t, "{count}"]"#, json!({"count": 5.0}), vec!["5"]),
        (r#"[t, "{ratio}"]"#, json!({"ratio": 5.0}), vec!["5.0"]),
        (r#"[t, "-n{count}"]"#, json!({"count": 5}), vec!["-n5"]),
        (r#"[t, "{many}", end]"#, json!({"many": ["a", "b c", "d"]}), vec!["a", "b c", "d", "end"]),
        (r#"[t, "{many}", end]"#, json!({"many": []}), vec!["end"]),
        (r#"[t, [--, "{many}"], end]"#, json!({"many": []}), vec!["end"]),
        (r#"[t, [--, "{many}"], end]"#, json!({"many": ["-a"]}), vec!["--", "-a", "end"]),
        (r#"[t, "{maybe}"]"#, json!({"maybe": null}), vec![]),
        (
            r#"[t, {if: flag, then: [-v, "{text}"], else: [-q]}]"#,
            json!({"flag": true, "text": "a"}),
            vec!["-v", "a"],
        ),
        (r#"[t, {if: flag, then: [-v, "{text}"], else: [-q]}]"#, json!({"flag": true}), vec!["-v"]),
        (r#"[t, {if: flag, then: [-v], else: [-q]}]"#, json!({"flag": false}), vec!["-q"]),
        (r#"[t, {if: flag, then: [-v]}]"#, json!({}), vec![]),
        (r#"[t, --, "{text}", "-{text}"]"#, json!({"text": "--help"}), vec!["--", "--help", "---help"]),
        (r#"[t, "--x={text}"]"#, json!({"text": "-rf"}), vec!["--x=-rf"]),
        (r#"[t, "{long}"]"#, json!({"long": "a\n\tb\r\n"}), vec!["a\n\tb\r\n"]),
        (r#"[t, "{at}", "--d={at}"]"#, json!({"at": "@x"}), vec!["@x", "--d=@x"]),
        (r#"[t, "x{text}"]"#, json!({"text": "@y"}), vec!["x@y"]),
        (r#"[t, "{empty}"]"#, json!({"empty": ""}), vec![""]),
        (r#"[t, "{word}"]"#, json!({"word": ""}), vec![""]),
        (r#"[t, "{word}"]"#, json!({"word": "@b"}), vec!["@b"]),
        (r#"[t, "{file}"]"#, json!({"file": "a/./b//c/"}), vec!["./a/b/c"]),
        (r#"[t, "{file}"]"#, json!({"file": "./-rf"}), vec!["./-rf"]),
        (
            r#"[t, "{file}", "{source}", "{doc}"]"#,
            json!({"file": ".", "source": ".", "doc": "."}),
            vec![".", "./src", "/mnt/docs"],
        ),
        (
            r#"[t, "{source}", "--doc={doc}"]"#,
            json!({"source": "x", "doc": "x"}),
            vec!["./src/x", "--doc=/mnt/docs/x"],
        ),
        (r#"[t, "{text}:{file}"]"#, json!({"text": "HEAD", "file": "a"}), vec!["HEAD:./a"]),
        (r#"[t, "{files}"]"#, json!({"files": ["a", "..b", "c.."]}), vec!["./a", "./..b", "./c.."]),
        (r#"[t, "", "~", "null"]"#, json!({}), vec!["", "~", "null"]),
    ] {
        let expected: Vec<&str> = std::iter::once("t").chain(expected).collect();
        assert_eq!(
            template(command).render(&input).as_deref(),
            Ok(&*own(&expected)),
            "{command} with {input}"
        );
    }
}

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn what_is_refused_names_the_argument() {
    for (command, input, message) in [
        (
            r#"[t, "{text}"]"#,
            json!({"text": "-x"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{text}"]"#,
            json!({"text": "-"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{text}", --]"#,
            json!({"text": "-x"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, [--, "{other}"], "{text}"]"#,
            json!({"text": "-x"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, {if: flag, then: [--]}, "{text}"]"#,
            json!({"text": "-x", "flag": true}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, [--a, "{text}"]]"#,
            json!({"text": "-x"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{count}"]"#,
            json!({"count": -5}),
            "`count` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{word}"]"#,
            json!({"word": "-c"}),
            "`word` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{empty}{text}"]"#,
            json!({"empty": "", "text": "-x"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{empty}-x"]"#,
            json!({"empty": ""}),
            "`empty` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{many}"]"#,
            json!({"many": ["a", "-b"]}),
            "`many/1` begins with `-`, which a program may take for an option",
        ),
        (
            r#"[t, "{text}"]"#,
            json!({"text": "@x"}),
            "`text` begins with `@`, which a program may take for a file to read",
        ),
        (
            r#"[t, -F, "{text}"]"#,
            json!({"text": "x=@y"}),
            "`text` holds `=@`, which a program may take for a file to read",
        ),
        (
            r#"[t, "a{text}"]"#,
            json!({"text": ";b=@y"}),
            "`text` holds `=@`, which a program may take for a file to read",
        ),
        (
            r#"[t, --, "{text}"]"#,
            json!({"text": "@x"}),
            "`text` begins with `@`, which a program may take for a file to read",
        ),
        (
            r#"[t, "--d={text}"]"#,
            json!({"text": "@x"}),
            "`text` begins with `@`, which a program may take for a file to read",
        ),
        (
            r#"[t, "{empty}{text}"]"#,
            json!({"empty": "", "text": "@x"}),
            "`text` begins with `@`, which a program may take for a file to read",
        ),
        (r#"[t, "{text}"]"#, json!({"text": ""}), "`text` is empty"),
        (r#"[t, "{text}"]"#, json!({"text": "a\0b"}), "`text` holds NUL"),
        (r#"[t, "{long}"]"#, json!({"long": "a\0b"}), "`long` holds NUL"),
        (r#"[t, "{long}"]"#, json!({"long": "a\u{1b}b"}), "`long` holds the invisible character `\\u{1b}`"),
        (r#"[t, "{text}"]"#, json!({"text": "a\nb"}), "`text` holds a line break"),
        (r#"[t, "{text}"]"#, json!({"text": "a\tb"}), "`text` holds a tab"),
        (r#"[t, "{text}"]"#, json!({"text": "a\u{85}b"}), "`text` holds the invisible character `\\u{85}`"),
        (r#"[t, "{text}"]"#, json!({"text": {"a": 1}}), "`text` is not plain"),
        (r#"[t, "x{text}"]"#, json!({"text": ["a"]}), "`text` is not plain"),
        (r#"[t, "{many}"]"#, json!({"many": [["a"]]}), "`many/0` is not plain"),
        (r#"[t, "{many}"]"#, json!({"many": [null]}), "`many/0` is not plain"),
        (r#"[t, "{needed}"]"#, json!({}), "`needed` is missing"),
        (r#"[t, {if: flag, then: [-v]}]"#, json!({"flag": "yes"}), "`flag` is not a truth value"),
        (r#"[t, "{file}"]"#, json!({"file": ""}), "`file` is empty"),
        (r#"[t, "{file}"]"#, json!({"file": "/etc/passwd"}), "`file` is an absolute path"),
        (r#"[t, "{file}"]"#, json!({"file": "a/../../b"}), "`file` leads upward with `..`"),
        (r#"[t, "{file}"]"#, json!({"file": ".."}), "`file` leads upward with `..`"),
        (r#"[t, "{file}"]"#, json!({"file": "a\\..\\b"}), "`file` leads upward with `..`"),
        (r#"[t, "{file}"]"#, json!({"file": "-rf"}), "`file` begins with `-`"),
        (r#"[t, --, "{file}"]"#, json!({"file": "-rf"}), "`file` begins with `-`"),
        (
            r#"[t, "{file}"]"#,
            json!({"file": "@project/a"}),
            "`file` begins with an alias; the path is relative already",
        ),
        (r#"[t, "{file}"]"#, json!({"file": "a\0b"}), "`file` holds NUL"),
        (r#"[t, "{file}"]"#, json!({"file": "a\nb"}), "`file` holds a line break"),
        (r#"[t, "{file}"]"#, json!({"file": 5}), "`file` is not a path"),
        (r#"[t, "{files}"]"#, json!({"files": ["a", ".."]}), "`files/1` leads upward with `..`"),
    ] {
        let failure = template(command).render(&input).expect_err(command);
        assert_eq!((failure.code, &*failure.message), (ErrorCode::InvalidArguments, message), "{command}");
        assert!(failure.help.is_some(), "{command} with {input}");
        let name = message.split('`').nth(1).unwrap();
        assert_eq!(failure.details["path"], format!("/{name}"));
    }
}

#[test]
fn no_argument_is_longer_than_the_kernel_takes() {
    let most = 128 * 1024 - 1;
    let bare = template(r#"[t, "{text}"]"#);
    assert_eq!(bare.render(&json!({"text": "x".repeat(most)})).unwrap()[1].len(), most);
    assert!(bare.render(&json!({"text": "x".repeat(most + 1)})).is_err());
    let prefixed = template(r#"[t, "--text={text}"]"#);
    assert!(prefixed.render(&json!({"text": "x".repeat(most - 6)})).is_err());
    assert!(prefixed.render(&json!({"text": "x".repeat(most - 7)})).is_ok());
    let many = template(r#"[t, "{many}"]"#);
    assert!(many.render(&json!({"many": vec!["x"; 100_000]})).is_ok());
    assert!(many.render(&json!({"many": vec!["x"; 110_000]})).is_err());
    assert!(template(r#"[t, "{file}"]"#).render(&json!({"file": "a/".repeat(3000)})).is_err());
}

#[test]
fn the_paths_of_a_call_can_be_asked_for() {
    let declared = declaration(r#"[t, "{file}", "{doc}", ["--from", "{source}"], "{files}", "{text}"]"#);
    assert!(declared.named_paths(&json!({"file": "../x"})).is_err());
    assert!(declared.named_paths(&json!({"text": "a"})).unwrap().is_empty());
}

/// One element of a template, for the reference model.
#[derive(Clone, Debug)]
enum Word {
    Literal(String),
    Separator,
    /// `PREFIX{name}SUFFIX`
    Value {
        prefix: &'static str,
        name: &'static str,
        suffix: &'static str,
    },
    /// `{many}`
    Many,
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        "[a-z{}-]{1,4}".prop_map(Word::Literal),
        Just(Word::Separator),
        (
            proptest::sample::select(&["", "", "--x=", "y", "-z="][..]),
            proptest::sample::select(&["text", "other", "empty", "count", "flag", "at"][..]),
            proptest::sample::select(&["", "", "-s"][..]),
        )
            .prop_map(|(prefix, name, suffix)| Word::Value { prefix, name, suffix }),
        Just(Word::Many),
    ]
}

fn spelt(word: &Word) -> String {
    let text = match word {
        Word::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
        Word::Separator => "--".to_owned(),
        Word::Value { prefix, name, suffix } => format!("{prefix}{{{name}}}{suffix}"),
        Word::Many => "{many}".to_owned(),
    };
    serde_json::to_string(&text).unwrap()
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => "[-@a-c\\PC]{0,4}".prop_map(Value::from),
        1 => "[-@a\\n\\x00]{0,3}".prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

fn input() -> impl Strategy<Value = Value> {
    let names = proptest::sample::subsequence(vec!["text", "other", "empty", "count", "flag", "at"], 0..=6);
    let many = proptest::option::of(proptest::collection::vec(value(), 0..4));
    (names, proptest::collection::vec(value(), 6), many).prop_map(|(names, values, many)| {
        let mut input: Map<String, Value> = names.into_iter().map(str::to_owned).zip(values).collect();
        if let Some(many) = many {
            input.insert("many".to_owned(), Value::Array(many));
        }
        Value::Object(input)
    })
}

/// The rules applied word by word; `None` is a refusal.
fn reference(words: &[Word], input: &Value) -> Option<Vec<String>> {
    let mut arguments = vec!["t".to_owned()];
    let mut separated = false;
    for word in words {
        match word {
            Word::Literal(text) => {
                separated |= text == "--";
                arguments.push(text.clone());
            }
            Word::Separator => {
                separated = true;
                arguments.push("--".to_owned());
            }
            Word::Value { prefix, name, suffix } => {
                let value = input.get(name).filter(|value| !value.is_null());
                if let Some(value) = value {
                    arguments.push(argument(prefix, name, suffix, value, separated)?);
                }
            }
            Word::Many => {
                for value in input.get("many").and_then(Value::as_array).into_iter().flatten() {
                    arguments.push(argument("", "many", "", value, separated)?);
                }
            }
        }
    }
    Some(arguments)
}

fn argument(prefix: &str, name: &str, suffix: &str, value: &Value, separated: bool) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return None,
    };
    let whole = format!("{prefix}{text}{suffix}");
    let option = prefix.is_empty() && whole.starts_with('-') && !separated;
    let file = (prefix.is_empty() || prefix.ends_with('=')) && text.starts_with('@') && name != "at";
    let empty = text.is_empty() && name != "empty";
    let refused = option || file || empty || text.chars().any(char::is_control);
    (!refused).then_some(whole)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rendering_agrees_with_the_rules(words in proptest::collection::vec(word(), 0..6), input in input()) {
        let list: Vec<String> = std::iter::once("t".to_owned()).chain(words.iter().map(spelt)).collect();
        let rendered = template(&format!("[{}]", list.join(", "))).render(&input);
        prop_assert_eq!(rendered.ok(), reference(&words, &input));
    }

    #[test]
    fn no_value_becomes_an_option_or_two_arguments(text in any::<String>(), items in proptest::collection::vec(any::<String>(), 0..4)) {
        let template = template(r#"[t, "{text}", "{many}", "--x={other}", --, "{text}"]"#);
        let input = json!({"text": text, "many": items, "other": text});
        if let Ok(rendered) = template.render(&input) {
            prop_assert_eq!(rendered.len(), 5 + items.len());
            prop_assert!(rendered[1..2 + items.len()].iter().all(|argument| !argument.starts_with('-')));
            prop_assert_eq!(&rendered[1], &text);
            prop_assert_eq!(&rendered[2..2 + items.len()], &items[..]);
            prop_assert!(rendered.iter().all(|argument| !argument.contains('\0')));
        }
    }

    #[test]
    fn no_path_leaves_its_folder(
        parts in proptest::collection::vec(proptest::sample::select(&["..", ".", "", "a", "-b", "@c", "...", " "][..]), 1..5),
        between in proptest::sample::select(&["/", "/", "\\"][..]),
    ) {
        let text = parts.join(between);
        let template = template(r#"[t, "{file}", "{doc}"]"#);
        if let Ok(rendered) = template.render(&json!({"file": text, "doc": text})) {
            prop_assert!(rendered[1] == "." || rendered[1].starts_with("./"), "{:?}", rendered);
            prop_assert!(rendered[2] == "/mnt/docs" || rendered[2].starts_with("/mnt/docs/"), "{:?}", rendered);
            prop_assert!(rendered.iter().all(|argument| !argument.split('/').any(|part| part == "..")));
        }
    }
}

/// What a program reads, with `stdin` over the same arguments.
fn stdin(text: &str, input: &Value) -> Result<Option<String>, toolgate_types::Failure> {
    let command = format!("[t]\nstdin: {}", Value::from(text));
    let template = declaration(&command).stdin.unwrap();
    template.render(input, &RealPaths::default())
}

#[test]
fn a_value_on_standard_input_keeps_the_rules_of_arguments() {
    for (text, input, message) in [
        ("HEAD:{text}\n", json!({"text": "a\nHEAD:.env"}), "`text` holds a line break"),
        ("HEAD:{text}\n", json!({"text": "a\rb"}), "`text` holds a line break"),
        ("HEAD:{text}\n", json!({"text": "a\0b"}), "`text` holds NUL"),
        ("HEAD:{text}\n", json!({"text": "a\u{1b}[2J"}), "`text` holds the invisible character `\\u{1b}`"),
        ("HEAD:{text}\n", json!({"text": ""}), "`text` is empty"),
        ("{text}\n", json!({"text": "a\nb"}), "`text` holds a line break"),
        (
            "{text}\n",
            json!({"text": "--output=/x"}),
            "`text` begins with `-`, which a program may take for an option",
        ),
        (
            "a\n{text}",
            json!({"text": "@x"}),
            "`text` begins with `@`, which a program may take for a file to read",
        ),
        (
            "data={text}",
            json!({"text": "@x"}),
            "`text` begins with `@`, which a program may take for a file to read",
        ),
        (
            "-F {text}",
            json!({"text": "x=@y"}),
            "`text` holds `=@`, which a program may take for a file to read",
        ),
        ("{long} {text}", json!({"long": "a\0", "text": "b"}), "`long` holds NUL"),
        ("HEAD:{file}\n", json!({"file": "../x"}), "`file` leads upward with `..`"),
        ("HEAD:{file}\n", json!({"file": "/etc/passwd"}), "`file` is an absolute path"),
        ("HEAD:{file}\n", json!({"file": "a\nHEAD:.env"}), "`file` holds a line break"),
        ("{file}", json!({"file": "a\n.env"}), "`file` holds a line break"),
        ("{file}", json!({"file": ".."}), "`file` leads upward with `..`"),
        ("{files}", json!({"files": ["a", "../b"]}), "`files/1` leads upward with `..`"),
    ] {
        let failure = stdin(text, &input).unwrap_err();
        assert_eq!(
            (failure.code, &*failure.message),
            (ErrorCode::InvalidArguments, message),
            "{text:?} {input}"
        );
    }
}

#[test]
fn free_text_on_standard_input_stands_alone_or_is_declared_as_such() {
    for (text, input, expected) in [
        ("{text}", json!({"text": "-a\n@b\r\n\tc=@d"}), "-a\n@b\r\n\tc=@d"),
        ("{text}", json!({"text": ""}), ""),
        ("{many}", json!({"many": ["a\nb"]}), "[\"a\\nb\"]"),
        (
            "Subject: {text}\n\n{long}\n",
            json!({"text": "s", "long": "- a\n@b\n"}),
            "Subject: s\n\n- a\n@b\n\n",
        ),
        ("{count}+{ratio}\n", json!({"count": -3, "ratio": -1.5}), "-3+-1.5\n"),
        ("{at}\n", json!({"at": "@x"}), "@x\n"),
        ("HEAD:{file}\n", json!({"file": "a//./b"}), "HEAD:./a/b\n"),
        ("rev \"{source}\"\n", json!({"source": "x"}), "rev \"./src/x\"\n"),
        ("{doc}", json!({"doc": "x"}), "/mnt/docs/x"),
        ("{files}", json!({"files": ["a", "b"]}), "./a\n./b"),
    ] {
        assert_eq!(stdin(text, &input).unwrap().as_deref(), Some(expected), "{text:?} {input}");
    }
    assert_eq!(stdin("a {text}\n", &json!({})), Ok(None));
}

#[test]
fn a_path_is_written_as_the_place_it_really_leads_to() {
    let declared = declaration(
        r#"[t, "{file}", "--doc={doc}", "{files}", --, "{text}:{source}"]
stdin: "{source}\n""#,
    );
    let input = json!({"file": "link/x", "doc": "a", "files": ["b", "link"], "text": "r", "source": "l"});
    let named: Vec<(String, String)> = declared
        .named_paths(&input)
        .unwrap()
        .into_iter()
        .map(|named| (named.argument, named.path.to_string()))
        .collect();
    let spelt = [
        ("file", "@project/link/x"),
        ("source", "@project/src/l"),
        ("doc", "@docs/a"),
        ("files/0", "@project/b"),
        ("files/1", "@project/link"),
    ];
    assert_eq!(named, spelt.map(|(one, other)| (one.to_owned(), other.to_owned())));
    let real = [("file", "secrets/x"), ("source", "secrets/y"), ("files/1", "secrets"), ("doc", "")];
    let real: RealPaths = real.into_iter().map(|(one, other)| (one.to_owned(), other.to_owned())).collect();
    let argv = declared.template.render_with(&input, &[], &real).unwrap();
    assert_eq!(
        argv,
        own(&["t", "./secrets/x", "--doc=/mnt/docs", "./b", "./secrets", "--", "r:./secrets/y"])
    );
    assert_eq!(declared.stdin.unwrap().render(&input, &real).unwrap().unwrap(), "./secrets/y\n");
}
