//! The bytes of each wire.

use toolgate_scripted::Wire;

use crate::client::{continued, post, request, serve, words};

const SCRIPT: &str = "
model: {name: demo}
steps:
  - do:
      - think: Two files, then.
      - think_hidden: Nobody sees this.
      - say: I will read both.
      - call: {tool: read_file, arguments: {path: one.txt}}
      - call: {tool: read_file}
    usage: {input: 90, output: 30, cached: 40}
    chunk: 12
  - when: {result: read_file, contains: Hello}
    say: 'Both say {{last_result}}.'
    chunk: 40
  - say: 'They say something else: {{last_result}}'
";

#[tokio::test]
async fn a_streamed_step_has_the_bytes_of_the_vendor() {
    let server = serve(SCRIPT).await;
    for &wire in Wire::ALL {
        let heard = post(&server, wire, &request(wire, "read both", true)).await;
        assert_eq!((heard.status, heard.is_whole), (200, true));
        insta::assert_snapshot!(format!("{}_streamed", wire.as_str()), heard.text());
    }
}

#[tokio::test]
async fn a_whole_step_says_what_a_streamed_one_says() {
    let server = serve(SCRIPT).await;
    for &wire in Wire::ALL {
        let heard = post(&server, wire, &request(wire, "read both", false)).await;
        let text = serde_json::to_string_pretty(&heard.json()).unwrap();
        insta::assert_snapshot!(format!("{}_whole", wire.as_str()), text);
    }
}

#[tokio::test]
async fn results_lead_to_the_step_that_fits_them() {
    let server = serve(SCRIPT).await;
    for &wire in Wire::ALL {
        let asked = request(wire, "read both", false);
        let answer = post(&server, wire, &asked).await.json();
        for (result, said) in [("Hello", "Both say Hello."), ("Bye", "They say something else: Bye")] {
            let next = continued(wire, &asked, &answer, result);
            let heard = post(&server, wire, &next).await;
            assert_eq!(heard.status, 200, "{wire:?}: {}", heard.text());
            assert_eq!(words(wire, &heard.json()), said, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn names_that_a_wire_cannot_say_are_found_among_the_offered() {
    let server = serve("steps: [{calls: [{tool: read.file}]}]").await;
    let answer = post(&server, Wire::Anthropic, &request(Wire::Anthropic, "go", false)).await.json();
    assert_eq!(answer["content"][0]["name"], "read_file");
}

#[tokio::test]
async fn what_was_asked_is_kept_without_the_key() {
    let server = serve("steps: [{say: hi}]").await;
    post(&server, Wire::Anthropic, &request(Wire::Anthropic, "first", false)).await;
    post(&server, Wire::Ollama, &serde_json::json!({})).await;
    let asked = server.requests();
    assert_eq!(asked.len(), 2);
    assert_eq!((asked[0].wire, asked[0].status), (Some(Wire::Anthropic), 200));
    assert_eq!(asked[0].body["messages"][0]["content"], "first");
    assert_eq!(asked[0].header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(asked[0].header("authorization"), Some("…"));
    assert_eq!((asked[1].wire, asked[1].status), (Some(Wire::Ollama), 400));
    assert!(!format!("{asked:?}").contains("Bearer"));
}
