use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_text::frontmatter::{FrontmatterError, parse, update};
use toolgate_types::{ErrorCode, Failure};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn updated(document: &str, change: Value) -> String {
    update(document, &map(change)).unwrap_or_else(|error| panic!("{error}\n{document}"))
}

const WORKFLOW: &str = r#"---
# The state of this run
workflowType: 'prd'   # never changes
currentNodeId: "n1" # where we are

stepsCompleted: [step-01]
variables:
  # who
  user_name: Ann
  count: 3 # so far

  notes: |
    line one
    line two

# decisions, newest last
decisionLog:
- decision: use X
  reason: because
artifacts: []
updatedAt: 2026-01-01T00:00:00Z
---

# Body
---
stepsCompleted: [not this one]
"#;

#[test]
fn reads_fields_and_body() {
    let frontmatter = parse(WORKFLOW).unwrap();
    assert_eq!(frontmatter.body, "\n# Body\n---\nstepsCompleted: [not this one]\n");
    assert!(WORKFLOW.contains(frontmatter.yaml));
    assert_eq!(
        Value::Object(frontmatter.value),
        json!({
            "workflowType": "prd",
            "currentNodeId": "n1",
            "stepsCompleted": ["step-01"],
            "variables": {"user_name": "Ann", "count": 3, "notes": "line one\nline two\n"},
            "decisionLog": [{"decision": "use X", "reason": "because"}],
            "artifacts": [],
            "updatedAt": "2026-01-01T00:00:00Z",
        })
    );
    assert_eq!(parse("---\n---\nbody").unwrap().body, "body");
    assert_eq!(parse("\u{feff}--- \r\na: yes\r\n---").unwrap().value, map(json!({"a": "yes"})));
}

#[test]
fn changes_the_lines_it_must_and_no_others() {
    let change = json!({
        "currentNodeId": {"set": "n2"},
        "stepsCompleted": {"append": ["step-01", "step-02", "step-02"]},
        "variables.set": {"count": 4, "city": "Köln", "notes": "gone: now"},
        "decisionLog.append": {"decision": "use Y", "tags": ["a", "b: c"], "at": {"line": 3}},
        "artifacts": {"append": "docs/prd.md"},
        "updatedAt.set": "2026-11-15T05:01:02Z",
    });
    let after = updated(WORKFLOW, change.clone());
    insta::assert_snapshot!(after, @r#"
    ---
    # The state of this run
    workflowType: 'prd'   # never changes
    currentNodeId: "n2" # where we are

    stepsCompleted: [step-01, step-02]
    variables:
      # who
      user_name: Ann
      count: 4 # so far

      notes: "gone: now"
      city: Köln

    # decisions, newest last
    decisionLog:
    - decision: use X
      reason: because
    - decision: use Y
      tags: [a, "b: c"]
      at: {line: 3}
    artifacts:
      - docs/prd.md
    updatedAt: "2026-11-15T05:01:02Z"
    ---

    # Body
    ---
    stepsCompleted: [not this one]
    "#);
    assert_eq!(
        updated(&after, change),
        updated(
            &after,
            json!({"decisionLog.append": {"decision": "use Y", "tags": ["a", "b: c"], "at": {"line": 3}}})
        )
    );
    let with_crlf = WORKFLOW.replace('\n', "\r\n");
    let change = json!({"stepsCompleted.append": "x", "variables.set": {"notes": 1, "new": 2}, "artifacts.append": ["y"]});
    assert_eq!(updated(&with_crlf, change.clone()), updated(WORKFLOW, change).replace('\n', "\r\n"));
}

#[test]
fn adds_what_is_not_there_yet() {
    let all = json!({
        "stepsCompleted.append": ["a"], "variables.set": {"x": {}}, "decisionLog.append": [{"d": 1}, {}],
        "artifacts.append": "f", "currentNodeId.set": "n", "updatedAt.set": "now",
    });
    insta::assert_snapshot!(updated("---\ntitle: T\n---\nbody\n", all.clone()), @r#"
    ---
    title: T
    stepsCompleted:
      - a
    variables:
      x: {}
    decisionLog:
      - d: 1
      - {}
    artifacts:
      - f
    currentNodeId: "n"
    updatedAt: now
    ---
    body
    "#);
    insta::assert_snapshot!(updated("---\n---\n", all.clone()), @r#"
    ---
    stepsCompleted:
      - a
    variables:
      x: {}
    decisionLog:
      - d: 1
      - {}
    artifacts:
      - f
    currentNodeId: "n"
    updatedAt: now
    ---
    "#);
    insta::assert_snapshot!(updated("---\n  title: T\n  # indented\n---", all), @r#"
    ---
      title: T
      # indented
      stepsCompleted:
        - a
      variables:
        x: {}
      decisionLog:
        - d: 1
        - {}
      artifacts:
        - f
      currentNodeId: "n"
      updatedAt: now
    ---
    "#);
}

#[test]
fn odd_values_survive() {
    let document = "---\nbig: 123456789012345678901234567890\nnan: .nan\nhex: 0x1F\noctal: 0o17\nyes: yes\nfloat: 1e400\n1: one\n\"null\": x\n\"<<\": y\n---\n";
    let after = updated(document, json!({"currentNodeId.set": "n2"}));
    assert_eq!(after, document.replace("y\n---", "y\ncurrentNodeId: n2\n---"));
    insta::assert_snapshot!(Value::Object(parse(document).unwrap().value), @r#"{"big":1.2345678901234568e+29,"nan":".nan","hex":31,"octal":15,"yes":"yes","float":".inf","1":"one","null":"x","<<":"y"}"#);
    let comments = "# comment\n".repeat(5000);
    let comments = format!("---\n{comments}stepsCompleted:\n{comments}  - a\na: 1\n---\n");
    assert!(
        updated(&comments, json!({"currentNodeId.set": "n2"})).ends_with("a: 1\ncurrentNodeId: n2\n---\n")
    );
}

#[test]
fn nothing_new_changes_nothing() {
    let document = "---\nstepsCompleted:   [ a ,b ]\nvariables:   {x:   1}\ncurrentNodeId:    n\n---\nbody";
    for change in [
        json!({"stepsCompleted.append": ["a", "b"]}),
        json!({"stepsCompleted.append": []}),
        json!({"artifacts.append": []}),
        json!({"variables.set": {"x": 1}}),
        json!({"variables": {"set": {}}}),
        json!({"currentNodeId": {"set": "n"}}),
    ] {
        assert_eq!(updated(document, change), document);
    }
}

#[test]
fn follows_every_way_of_writing_a_field() {
    for (before, after) in [
        ("stepsCompleted:\n", "stepsCompleted:\n  - new\n"),
        ("stepsCompleted: # none\n", "stepsCompleted: # none\n  - new\n"),
        ("stepsCompleted: ~ # none\n", "stepsCompleted: # none\n  - new\n"),
        ("stepsCompleted: null\n", "stepsCompleted:\n  - new\n"),
        ("stepsCompleted: [] # none\n", "stepsCompleted: # none\n  - new\n"),
        ("stepsCompleted: [ ]\n# c\n", "stepsCompleted:\n  - new\n# c\n"),
        ("stepsCompleted: [ # none\n  ]\n", "stepsCompleted: [ # none\n  new]\n"),
        ("stepsCompleted: [a]\n", "stepsCompleted: [a, new]\n"),
        ("stepsCompleted: [a,]\n", "stepsCompleted: [a, new]\n"),
        ("stepsCompleted: [a, \"b\" ] # c\n", "stepsCompleted: [a, \"b\", new ] # c\n"),
        ("stepsCompleted: [\n  a, # first\n  b\n]\n", "stepsCompleted: [\n  a, # first\n  b, new\n]\n"),
        (
            "stepsCompleted: [\n  a, # first\n  b # second\n  ]\n",
            "stepsCompleted: [\n  a, # first\n  b # second\n  , new]\n",
        ),
        ("stepsCompleted: [\n  a,\n  b, # second\n  ]\n", "stepsCompleted: [\n  a,\n  b, # second\n  new]\n"),
        ("stepsCompleted:\n  - a # first\n\n# c\n", "stepsCompleted:\n  - a # first\n  - new\n\n# c\n"),
        ("stepsCompleted:\n# c\n  - a\n", "stepsCompleted:\n# c\n  - a\n  - new\n"),
        ("stepsCompleted:\n- a\n# c\n", "stepsCompleted:\n- a\n- new\n# c\n"),
        (
            "stepsCompleted:\n    # c\n    -   a\n    -\n",
            "stepsCompleted:\n    # c\n    -   a\n    -\n    - new\n",
        ),
        ("stepsCompleted:\n- |+\n  x\n\n", "stepsCompleted:\n- |+\n  x\n\n- new\n"),
        ("stepsCompleted:\n- |\n  x\n    \n\n", "stepsCompleted:\n- |\n  x\n    \n\n- new\n"),
        ("stepsCompleted:\n- |\n  x\n\n", "stepsCompleted:\n- |\n  x\n- new\n\n"),
        ("\"stepsCompleted\" : [a]\n", "\"stepsCompleted\" : [a, new]\n"),
        ("stepsCompleted:\n  [a]\n", "stepsCompleted:\n  [a, new]\n"),
        (
            "stepsCompleted:\n  - k: v\n    l:\n      - m\n",
            "stepsCompleted:\n  - k: v\n    l:\n      - m\n  - new\n",
        ),
        ("stepsCompleted:\n  - 'a\n    b'\n", "stepsCompleted:\n  - 'a\n    b'\n  - new\n"),
    ] {
        let document = |yaml: &str| format!("---\nfirst: 1\n{yaml}last: 2 # end\n---\nbody\n");
        assert_eq!(updated(&document(before), json!({"stepsCompleted.append": "new"})), document(after));
    }
    for (before, after) in [
        ("variables:\n", "variables:\n  k: v\n"),
        ("variables: {}\n", "variables:\n  k: v\n"),
        ("variables: {a: 1}\n", "variables: {a: 1, k: v}\n"),
        ("variables: {a: 1, k: 2 } # c\n", "variables: {a: 1, k: v } # c\n"),
        ("variables: {k}\n", "variables: {k: v}\n"),
        ("variables: {k: }\n", "variables: {k: v }\n"),
        ("variables: {\"k\":1}\n", "variables: {\"k\":v}\n"),
        ("variables: {a: , b}\n", "variables: {a: , b, k: v}\n"),
        ("variables:\n   a: 1 # c\n\n# d\n", "variables:\n   a: 1 # c\n   k: v\n\n# d\n"),
        ("variables:\n  k: 1 # c\n  a: 1\n", "variables:\n  k: v # c\n  a: 1\n"),
        ("variables:\n  k: 'x' # c\n", "variables:\n  k: \"v\" # c\n"),
        ("variables:\n  k: # c\n  a: 1\n", "variables:\n  k: v # c\n  a: 1\n"),
        ("variables:\n  k: |\n    x\n\n  a: 1\n", "variables:\n  k: v\n\n  a: 1\n"),
        ("variables:\n  k: >+ # c\n    x\n\n  a: 1\n", "variables:\n  k: v\n\n  a: 1\n"),
        (
            "variables:\n  k: # c\n    # d\n    - x\n    - y\n  # e\n  a: 1\n",
            "variables:\n  k: v # c\n  # e\n  a: 1\n",
        ),
        ("variables:\n  k:\n  - x\n", "variables:\n  k: v\n"),
        ("variables:\n  k: [1,\n    2]\n", "variables:\n  k: v\n"),
        ("variables:\n  \"k\": {x: 1}\n", "variables:\n  \"k\": v\n"),
        ("variables:\n  k: |\n", "variables:\n  k: v\n"),
        ("variables:\n  a: |\n", "variables:\n  a: |\n  k: v\n"),
    ] {
        let document = |yaml: &str| format!("---\nfirst: 1\n{yaml}last: 2 # end\n---\nbody\n");
        assert_eq!(updated(&document(before), json!({"variables.set": {"k": "v"}})), document(after));
    }
}

#[test]
fn a_name_without_colon_is_not_given_one() {
    let change = map(json!({"currentNodeId.set": "n2"}));
    let refused = Err(FrontmatterError::Unwritable { line: 2, field: "currentNodeId".into() });
    assert_eq!(update("---\n? currentNodeId\n---\n", &change), refused);
}

fn refused(document: &str, change: Value) -> Failure {
    update(document, &map(change)).map_err(Failure::from).expect_err(document)
}

#[test]
fn a_document_without_frontmatter_begins_one() {
    let change = map(json!({"stepsCompleted.append": "x"}));
    let began = "---\nstepsCompleted:\n  - x\n---\n";
    for body in ["", "# no frontmatter\n", "\n---\na: 1\n---\n", "---", "----\na: 1\n----\n"] {
        assert_eq!(update(body, &change).unwrap(), format!("{began}{body}"), "{body:?}");
    }
    let windows = update("\u{feff}one\r\ntwo", &change).unwrap();
    assert_eq!(windows, "\u{feff}---\r\nstepsCompleted:\r\n  - x\r\n---\r\none\r\ntwo");
    assert_eq!(parse("# no frontmatter\n"), Err(FrontmatterError::Missing));
}

#[test]
fn refuses_documents_with_the_line() {
    let deep = format!("---\na: {}1{}\n---\n", "[".repeat(100), "]".repeat(100));
    let large = format!("---\n{}---\n", "# comment\n".repeat(200_000));
    let documents = [
        "---\na: 1\n",
        "---\na: [1\n---\n",
        "---\na: 1\n  b: 2\n---\n",
        "---\n- a\n---\n",
        "---\njust text\n---\n",
        "---\na: 1\nb: 2\na: 3\n---\n",
        "---\na:\n  b: 1\n  b: 2\n---\n",
        "---\na: &x 1\n---\n",
        "---\nb: 1\na: *x\n---\n",
        "---\nb: 1\na: &x 1\nc: *x\n---\n",
        "---\na: !!binary aGk=\n---\n",
        "---\na: !custom x\n---\n",
        "---\n<<: {a: 1}\n---\n",
        "---\n? [a, b]\n: 1\n---\n",
        "---\nnull: 1\n---\n",
        "---\n: 1\n---\n",
        "---\na: 1\n...\n---\n",
        "---\na: 1\n--- b\n---\n",
        "---\na: 1\rb: 2\n---\n",
        "---\na: \"\\q\"\n---\n",
        &deep,
        &large,
        "---\n\nstepsCompleted: done\n---\n",
        "---\nstepsCompleted: {a: 1}\n---\n",
        "---\n{stepsCompleted: []}\n---\n",
        "---\n? stepsCompleted\n: # none\n---\n",
    ];
    let texts: Vec<String> = documents
        .iter()
        .map(|document| {
            let failure = refused(document, json!({"stepsCompleted.append": "x"}));
            assert_eq!(failure.code, ErrorCode::InvalidFrontmatter, "{document}");
            failure.to_string()
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    line 1: the frontmatter is not closed; close the frontmatter with a line that holds only `---`
    line 2: the frontmatter is not valid: unclosed bracket '['; correct the YAML at that line
    line 3: the frontmatter is not valid: mapping values are not allowed in this context; correct the YAML at that line
    line 2: the frontmatter is not a mapping of names to values; write the frontmatter as `name: value` lines
    line 2: the frontmatter is not a mapping of names to values; write the frontmatter as `name: value` lines
    line 4: the frontmatter is not valid: the name `a` occurs twice; correct the YAML at that line
    line 4: the frontmatter is not valid: the name `b` occurs twice; correct the YAML at that line
    line 2: anchors are not accepted in frontmatter; write the values out in full
    line 3: aliases are not accepted in frontmatter; write the values out in full
    line 3: anchors are not accepted in frontmatter; write the values out in full
    line 2: tags are not accepted in frontmatter; write the values out in full
    line 2: tags are not accepted in frontmatter; write the values out in full
    line 2: merge keys are not accepted in frontmatter; write the values out in full
    line 2: collections as names are not accepted in frontmatter; use text as names
    line 2: nulls as names are not accepted in frontmatter; put the name into quotes
    line 2: empty names are not accepted in frontmatter; write a name before the colon
    line 3: document ends (`...`) are not accepted in frontmatter; keep the frontmatter to one document between its two `---` lines
    line 3: further documents are not accepted in frontmatter; keep the frontmatter to one document between its two `---` lines
    line 2: carriage returns without line feed are not accepted in frontmatter; end lines with `\n` or `\r\n`
    line 2: the frontmatter is not valid: while parsing a quoted scalar, found unknown escape character; correct the YAML at that line
    line 2: more than 64 levels are not accepted in frontmatter; write flatter values
    the frontmatter is larger than 1048576 bytes; move long values into the body of the document
    line 3: `stepsCompleted` is not a list; make `stepsCompleted` a list, or remove it
    line 2: `stepsCompleted` is not a list; make `stepsCompleted` a list, or remove it
    line 2: frontmatter in braces cannot be changed in place; write the frontmatter as `name: value` lines
    line 2: the way `stepsCompleted` is written cannot be changed in place; write it as `stepsCompleted: value` on a line of its own first
    ");
}

#[test]
fn refuses_operations_by_name() {
    let too_deep = (0..40).fold(json!(1), |value, _| json!([value]));
    let texts: Vec<String> = [
        json!({}),
        json!({"stepsCompleted": {}}),
        json!({"steps_completed.append": "x"}),
        json!({"stepsCompleted.add": "x"}),
        json!({"stepsCompleted": "x"}),
        json!({"stepsCompleted": {"set": ["x"]}}),
        json!({"title": {"set": "x"}}),
        json!({"stepsCompleted": {"append": "x"}, "stepsCompleted.append": "y"}),
        json!({"stepsCompleted.append": [1]}),
        json!({"decisionLog.append": ["x"]}),
        json!({"variables.set": ["x"]}),
        json!({"currentNodeId.set": null}),
        json!({"variables.set": {"<<": 1}}),
        json!({"variables.set": {"x": too_deep}}),
        json!({"variables.set": {("x".repeat(501)): 1}}),
    ]
    .into_iter()
    .map(|change| {
        let failure = refused("---\na: 1\n---\n", change);
        assert_eq!(failure.code, ErrorCode::InvalidArguments);
        failure.to_string()
    })
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    the update has no operations; the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    the update has no operations; the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    there is no operation `steps_completed.append`; did you mean `stepsCompleted.append`? the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    there is no operation `stepsCompleted.add`; did you mean `stepsCompleted.append`? the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    there is no operation `stepsCompleted`; did you mean `stepsCompleted.append`? the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    there is no operation `stepsCompleted.set`; did you mean `stepsCompleted.append`? the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    there is no operation `title`; the operations are `stepsCompleted.append`, `variables.set`, `decisionLog.append`, `artifacts.append`, `currentNodeId.set`, `updatedAt.set`
    `stepsCompleted.append` is given twice; give it once, with all its values
    `stepsCompleted.append` takes a string or a list of strings; for example `{"stepsCompleted.append": ["first", "second"]}`
    `decisionLog.append` takes an object or a list of objects; for example `{"decisionLog.append": [{"decision": "what", "reason": "why"}]}`
    `variables.set` takes an object of names and values; for example `{"variables.set": {"name": "value"}}`
    `currentNodeId.set` takes a string; for example `{"currentNodeId.set": "value"}`
    `variables.set` takes names of up to 500 bytes other than `<<`, and values of up to 32 levels; for example `{"variables.set": {"name": "value"}}`
    `variables.set` takes names of up to 500 bytes other than `<<`, and values of up to 32 levels; for example `{"variables.set": {"name": "value"}}`
    `variables.set` takes names of up to 500 bytes other than `<<`, and values of up to 32 levels; for example `{"variables.set": {"name": "value"}}`
    "#);
}

#[test]
fn large_updates_stay_cheap() {
    let entries: Map<String, Value> =
        (0..5_000).map(|number| (format!("name{number}"), json!(number))).collect();
    let steps: Vec<String> = (0..5_000).map(|number| format!("step {number}")).collect();
    let change = json!({"variables.set": entries, "stepsCompleted.append": steps});
    let once = updated("---\nvariables: {}\n---\n", change.clone());
    assert_eq!(updated(&once, change), once);
    let other: Map<String, Value> = (0..5_000).map(|number| (format!("name{number}"), json!("x"))).collect();
    let large = map(json!({"variables.set": {"large": "x".repeat(1 << 20)}}));
    assert_eq!(update(&once, &large), Err(FrontmatterError::TooLarge));
    let twice = updated(&once, json!({"variables.set": other}));
    assert_eq!(parse(&twice).unwrap().value["variables"]["name4999"], "x");
}

/// The reference: the documented meaning, applied to JSON.
fn updated_slowly(
    value: &Map<String, Value>,
    change: &Map<String, Value>,
) -> Result<Map<String, Value>, ErrorCode> {
    let mut value = value.clone();
    for (name, argument) in change {
        let (field, _) = name.split_once('.').unwrap();
        let now = value.get(field).cloned().unwrap_or(Value::Null);
        let next = match (name.as_str(), argument) {
            ("currentNodeId.set" | "updatedAt.set", text) => text.clone(),
            ("variables.set", Value::Object(entries)) => {
                let mut merged = match now {
                    Value::Null => Map::new(),
                    Value::Object(entries) => entries,
                    _ => return Err(ErrorCode::InvalidFrontmatter),
                };
                for (key, entry) in entries {
                    merged.insert(key.clone(), entry.clone());
                }
                if entries.is_empty() {
                    continue;
                }
                Value::Object(merged)
            }
            (_, Value::Array(items)) => {
                let mut list = match now {
                    Value::Null => Vec::new(),
                    Value::Array(list) => list,
                    _ => return Err(ErrorCode::InvalidFrontmatter),
                };
                for item in items {
                    if name == "decisionLog.append" || !list.contains(item) {
                        list.push(item.clone());
                    }
                }
                if items.is_empty() {
                    continue;
                }
                Value::Array(list)
            }
            _ => panic!("the generator makes no `{name}`"),
        };
        value.insert(field.to_owned(), next);
    }
    Ok(value)
}

const FIELDS: [&str; 8] =
    ["stepsCompleted", "variables", "decisionLog", "artifacts", "currentNodeId", "updatedAt", "other", "x y"];

/// The lines of one field, with comments and blank lines before it.
fn block(field: &'static str) -> impl Strategy<Value = (&'static str, String)> {
    let before = prop::sample::select(vec!["", "# note\n", "\n", "\n# two\n\n# notes\n", " # indented\n"]);
    let behind = prop::sample::select(vec!["", " # why", "   "]);
    let value = prop::sample::select(vec![
        "",
        " ~",
        " null",
        " # only a comment",
        " 12",
        " plain text",
        " 'single ''q'''",
        " \"quoted: #x\"",
        " yes",
        " multi\n  line",
        " \"multi\n  line\"",
        " []",
        " {}",
        " [ # c\n  ]",
        " [a, b]",
        " [a,\n  b, # c\n  ]",
        " [\n    'x y', # c\n    b\n  ]",
        " {a: 1, \"b c\": [x]}",
        " {b, k: }",
        " {a: 1, # c\n  b: 2}",
        " |\n  text\n   more\n\n  end",
        " |+\n  keep\n\n",
        " >-\n  folded\n  text",
        "\n  - a\n  - 'b'",
        "\n- a\n-   b # x\n# inner\n- c",
        "\n  - k: v\n    l: [1]\n  - z",
        "\n  a: 1 # one\n  # inner\n  b: \"x\"\n\n  k:\n    d: e",
        "\n  - |\n    multi\n    line\n",
        "\n  # c\n  - a\n  -",
        "\n  x:\n  k: |+\n    q\n\n",
        "\n    - a\n    - - n\n      - m\n    - {q: 1}",
        "\n  k:\n  - 1\n  - 2\n  b: >\n    f",
        "\n  - a: |\n      deep\n    b:",
        "\n  \"k\" : 1\n  'b': 2",
        "\n  [a, b]",
        "\n\n  a: 1",
    ]);
    (before, value, behind).prop_map(move |(before, value, behind)| {
        let behind = if value.contains('\n') || value.contains('#') { "" } else { behind };
        (field, format!("{before}{field}:{value}{behind}\n"))
    })
}

fn blocks() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    (Just(FIELDS.to_vec()).prop_shuffle(), 0usize..=FIELDS.len())
        .prop_flat_map(|(fields, count)| fields.into_iter().take(count).map(block).collect::<Vec<_>>())
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[abkx]",
        "[a-z :#'\"\\[\\],{}&*!|>%@`~-]{0,8}",
        any::<String>(),
        "[0-9.e+-]{1,6}",
        "true|No|null|~|<<x"
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        word().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::from)
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let name = word().prop_filter("merge keys are refused", |name| name != "<<");
    prop::collection::vec((name, inner), 0..4).prop_map(|entries| entries.into_iter().collect())
}

fn change() -> impl Strategy<Value = Map<String, Value>> {
    let words = || prop::collection::vec(word(), 0..4).prop_map(Value::from);
    let one = prop_oneof![
        words().prop_map(|items| ("stepsCompleted.append", items)),
        words().prop_map(|items| ("artifacts.append", items)),
        prop::collection::vec(object(value()), 0..3).prop_map(|items| ("decisionLog.append", items.into())),
        object(value()).prop_map(|entries| ("variables.set", entries.into())),
        word().prop_map(|text| ("currentNodeId.set", text.into())),
        word().prop_map(|text| ("updatedAt.set", text.into())),
    ];
    prop::collection::vec(one, 1..5)
        .prop_map(|operations| operations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The same update in the other notation.
fn nested(change: &Map<String, Value>) -> Map<String, Value> {
    let pairs = change.iter().map(|(name, value)| {
        let (field, verb) = name.split_once('.').unwrap();
        (field.to_owned(), json!({verb: value}))
    });
    pairs.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn updates_agree_with_the_model_and_leave_the_rest_alone(
        blocks in blocks(),
        change in change(),
        with_crlf in any::<bool>(),
        body in any::<String>(),
    ) {
        let line_ends = |text: String| if with_crlf { text.replace('\n', "\r\n") } else { text };
        let yaml: String = blocks.iter().map(|(_, block)| block.as_str()).collect();
        let document = line_ends(format!("---\n{yaml}---\n")) + &body;
        let before = parse(&document).map_err(|error| TestCaseError::fail(format!("{error}\n{document}")))?;
        let after = update(&document, &change);
        prop_assert_eq!(&after, &update(&document, &nested(&change)));
        let (after, wanted) = match (after, updated_slowly(&before.value, &change)) {
            (Ok(after), Ok(wanted)) => (after, wanted),
            (Err(error), Err(code)) => { prop_assert_eq!(error.code(), code); return Ok(()); }
            (after, wanted) => { prop_assert!(false, "{after:?} instead of {wanted:?}\n{document}"); return Ok(()); }
        };
        let read = parse(&after).unwrap();
        prop_assert_eq!(&read.value, &wanted, "{}", after);
        prop_assert_eq!(read.body, body);
        // What was not touched is unchanged, in the same order, with nothing in between.
        let touched: Vec<&str> = change.keys().map(|name| name.split_once('.').unwrap().0).collect();
        let mut rest = after.as_str();
        for (field, block) in blocks.iter().filter(|(field, _)| !touched.contains(field)) {
            let block = line_ends(block.trim_start_matches('\n').to_owned());
            let place = rest.find(&block);
            prop_assert!(place.is_some(), "{field} was touched:\n{document}\n{after}");
            rest = &rest[place.unwrap() + block.len()..];
        }
        let comments = |text: &str| text.matches("# note").count() + text.matches("# two").count() + text.matches("# why").count();
        prop_assert!(comments(&after) >= comments(&document));
        if wanted == before.value {
            prop_assert_eq!(&after, &document);
        }
        if with_crlf {
            prop_assert!(!read.yaml.replace("\r\n", "").contains('\n'));
        }
    }
}

/// Pieces of YAML in any order.
fn yaml_soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "stepsCompleted",
        "variables",
        "currentNodeId",
        ":",
        ": ",
        " ",
        "\n",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "\n- ",
        "\n  - ",
        "a",
        "b",
        "k: ",
        "\nk: ",
        "\nvariables: ",
        "\nstepsCompleted: ",
        "stepsCompleted:",
        "variables:\n  ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "?",
        "\n? ",
        "\n: ",
        "|",
        ">-",
        "|+",
        "|2",
        "\"",
        "'",
        "#",
        " # c",
        "\t",
        "é",
        "~",
        "\r\n",
        "&x ",
        "*x",
        "!t ",
        "%",
        "null",
        "1",
        "-",
        "=",
        "<<",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
    ]);
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn whatever_can_be_read_is_changed_rightly_or_refused(soup in yaml_soup()) {
        let document = format!("---\n{soup}\n---\nbody");
        let Ok(before) = parse(&document) else { return Ok(()) };
        let change = map(json!({"stepsCompleted.append": ["new"], "variables.set": {"k": "v", "l": [1]}, "currentNodeId.set": "n2"}));
        match update(&document, &change) {
            Ok(after) => {
                let read = parse(&after).unwrap();
                prop_assert_eq!(Ok(read.value), updated_slowly(&before.value, &change));
                prop_assert_eq!(read.body, before.body);
            }
            Err(error) => prop_assert_ne!(error, FrontmatterError::NotAsIntended, "{}", document),
        }
    }

    #[test]
    fn arbitrary_documents_do_not_panic(document in any::<String>()) {
        let change = map(json!({"stepsCompleted.append": ["new"]}));
        for document in [document.clone(), format!("---\n{document}\n---\n")] {
            if let Err(error) = update(&document, &change) {
                prop_assert!(Failure::from(error).to_string().len() < 4000);
            }
        }
    }
}
