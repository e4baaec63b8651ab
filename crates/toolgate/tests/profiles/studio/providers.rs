//! Model providers: their models, whether they are reachable, and one that never responds.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::server::{Does, Server};
use super::{Studio, Told};

/// Anthropic's list of models.
const ANTHROPIC: &[(&str, &str)] = &[(
    "GET /v1/models?limit=1000 ",
    r#"{"data": [{"type": "model", "id": "claude-sonnet-4-5", "display_name": "Claude"}, {"type": "model", "id": "claude-new", "max_input_tokens": 500000}], "has_more": false}"#,
)];

/// OpenAI's: only names.
const OPENAI: &[(&str, &str)] = &[(
    "GET /v1/models ",
    r#"{"object": "list", "data": [{"id": "gpt-4o", "object": "model"}, {"id": "o1-mini", "object": "model"}]}"#,
)];

/// OpenRouter's.
const OPENROUTER: &[(&str, &str)] = &[(
    "GET /api/v1/models ",
    r#"{"data": [{"id": "a/tools", "context_length": 1000, "supported_parameters": ["tools"]}, {"id": "a/none", "context_length": 2000, "supported_parameters": ["temperature"]}]}"#,
)];

/// vLLM's.
const COMPATIBLE: &[(&str, &str)] =
    &[("GET /v1/models ", r#"{"object": "list", "data": [{"id": "qwen", "max_model_len": 4096}]}"#)];

/// Ollama's: names, and a request for each model.
fn ollama() -> Server {
    Server::start(|asked| {
        let shown = |capabilities: &str| {
            format!(
                r#"{{"capabilities": [{capabilities}], "model_info": {{"general.architecture": "x", "x.context_length": 8192}}}}"#
            )
        };
        if asked.line.starts_with("GET /api/tags ") {
            let list = r#"{"models": [{"name": "llama3.1:8b", "modified_at": "2026-02-01T00:00:00Z"}, {"name": "old:1b", "modified_at": "2026-01-01T00:00:00Z"}]}"#;
            return Does::Json(200, list.to_owned());
        }
        assert!(asked.line.starts_with("POST /api/show "), "{asked:?}");
        let tools = asked.body.contains("llama3.1:8b");
        Does::Json(200, shown(if tools { r#""completion", "tools""# } else { r#""completion""# }))
    })
}

struct Everybody {
    studio: Studio,
    servers: [Server; 5],
}

impl Everybody {
    fn new() -> Self {
        let servers = [
            Server::of(ANTHROPIC),
            Server::of(OPENAI),
            Server::of(OPENROUTER),
            Server::of(COMPATIBLE),
            ollama(),
        ];
        let compatible = servers[3].url("/v1");
        let config = format!(
            "model: office/qwen\nmodels:\n  office: {{wire: openai-chat, base_url: '{compatible}'}}\n"
        );
        Self { studio: Studio::new(&config), servers }
    }

    fn toolgate(&self) -> Command {
        let mut command = self.studio.0.toolgate();
        let [anthropic, openai, openrouter, _, ollama] = &self.servers;
        command.env("ANTHROPIC_BASE_URL", anthropic.url("")).env("ANTHROPIC_API_KEY", "sk-a");
        command.env("OPENAI_BASE_URL", openai.url("/v1")).env("OPENAI_API_KEY", "sk-o");
        command.env("OPENROUTER_BASE_URL", openrouter.url("/api/v1")).env("OPENROUTER_API_KEY", "sk-r");
        command.env("OLLAMA_HOST", ollama.url(""));
        command
    }
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// "Model metadata exposes `supportsTools: boolean` so the UI shows which models enable agentic workflows"; "tool catalog is provider-agnostic".
#[test]
fn the_models_of_every_provider_are_listed_with_what_they_can_do() {
    let everybody = Everybody::new();
    let output = everybody.toolgate().args(["models", "--json"]).output().unwrap();
    let listed = json_of(&output);
    let of = |provider: &str| {
        let found = listed.as_array().unwrap().iter().find(|listed| listed["provider"] == provider);
        let found = found.unwrap_or_else(|| panic!("{provider}: {listed}"));
        assert_eq!(found["reachable"], true, "{found}");
        let models = found["models"].as_array().unwrap().iter();
        models
            .map(|model| {
                (
                    model["name"].as_str().unwrap().to_owned(),
                    model["supportsTools"] == true,
                    model["contextWindow"].as_u64(),
                )
            })
            .collect::<Vec<_>>()
    };
    let model = |name: &str, tools: bool, window: u64| (name.to_owned(), tools, Some(window));
    let expected = [
        (
            "anthropic",
            model("anthropic/claude-sonnet-4-5", true, 200_000),
            model("anthropic/claude-new", true, 500_000),
        ),
        ("openai", model("openai/gpt-4o", true, 128_000), model("openai/o1-mini", false, 128_000)),
        ("openrouter", model("openrouter/a/tools", true, 1000), model("openrouter/a/none", false, 2000)),
        ("ollama", model("ollama/llama3.1:8b", true, 8192), model("ollama/old:1b", false, 8192)),
    ];
    for (provider, first, second) in expected {
        assert_eq!(of(provider), [first, second], "{provider}");
    }
    assert_eq!(of("office"), [model("office/qwen", true, 4096)]);
    assert_eq!(output.status.code(), Some(0));
    // Each key goes only to its own server, in that provider's header.
    let headers: Vec<String> =
        everybody.servers.iter().map(|server| server.asked()[0].headers.clone()).collect();
    assert!(
        headers[0].contains("x-api-key: sk-a") && headers[1].contains("authorization: bearer sk-o"),
        "{headers:?}"
    );
    assert!(
        headers[2].contains("authorization: bearer sk-r")
            && !headers[3].contains("sk-")
            && !headers[4].contains("sk-")
    );
    // As text, for a single provider.
    let output = everybody.toolgate().args(["models", "ollama"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows,
        [
            vec!["ollama/llama3.1:8b", "tools", "8192", "tokens"],
            vec!["ollama/old:1b", "no", "tools", "8192", "tokens"]
        ]
    );
}

/// The same sentence for an unusable provider: it says why.
#[test]
fn a_provider_that_cannot_be_reached_says_why() {
    let studio = Studio::new("");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let refusing = Server::start(|_| Does::Json(401, r#"{"error": {"message": "no such key"}}"#.to_owned()));
    let asked = |arguments: &[&str]| {
        let mut command = studio.0.toolgate();
        command.env_remove("ANTHROPIC_API_KEY").env_remove("ANTHROPIC_BASE_URL").env("OLLAMA_HOST", &closed);
        command.env("OPENAI_API_KEY", "sk-wrong").env("OPENAI_BASE_URL", refusing.url("/v1"));
        command.arg("models").args(arguments).output().unwrap()
    };
    for (provider, code, why) in [
        ("ollama", 5, "cannot be reached"),
        ("openai", 5, "no such key"),
        ("anthropic", 2, "the variable ANTHROPIC_API_KEY is not set"),
    ] {
        let output = asked(&[provider, "--json"]);
        let said = &json_of(&output)[0];
        assert_eq!((output.status.code(), &said["reachable"]), (Some(code), &json!(false)), "{said}");
        assert!(said["problem"].as_str().unwrap().contains(why), "{said}");
        assert!(!said.to_string().contains("sk-wrong"), "{said}");
    }
    let unknown = asked(&["nobody"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert_eq!(asked(&[]).status.code(), Some(0), "all of them are told of");
}

/// "Model configuration/metadata, model selector": `doctor` and `/model` agree.
#[test]
fn doctor_and_the_chat_tell_of_providers_and_models() {
    let everybody = Everybody::new();
    let findings = json_of(&everybody.toolgate().args(["doctor", "--json"]).output().unwrap());
    let of = |check: &str| {
        let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == check);
        let found = found.unwrap_or_else(|| panic!("{check}: {findings}"));
        (found["state"].as_str().unwrap().to_owned(), found["detail"].as_str().unwrap().to_owned())
    };
    for (provider, detail) in [
        ("anthropic", "2 models, 2 with tools"),
        ("openai", "2 models, 1 with tools"),
        ("openrouter", "2 models, 1 with tools"),
        ("office", "1 model, 1 with tools"),
        ("ollama", "2 models, 1 with tools"),
    ] {
        let (state, told) = of(&format!("provider {provider}"));
        assert!(state == "ok" && told.starts_with(detail), "{provider}: {state} {told}");
    }
    assert_eq!(of("model office/qwen"), ("ok".to_owned(), "tools, context 4096 tokens".to_owned()));
    let alone = Studio::new("");
    let mut command = alone.0.toolgate();
    command
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
        .env_remove("OLLAMA_HOST")
        .env_remove("OPENAI_API_KEY");
    let findings = json_of(&command.args(["doctor", "--json"]).output().unwrap());
    let state = |name: &str| {
        let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == name).unwrap();
        found["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (state("provider anthropic"), state("provider openai")),
        ("failing".to_owned(), "unused".to_owned())
    );
    // The chat lists them at `/model`.
    let mut command = everybody.toolgate();
    command.args(["chat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut chat = command.spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"/model\n").unwrap();
    let said = String::from_utf8(chat.wait_with_output().unwrap().stdout).unwrap();
    for name in ["office/qwen", "anthropic/claude-sonnet-4-5", "openrouter/a/none", "ollama/llama3.1:8b"] {
        assert!(said.contains(name), "{name}: {said}");
    }
}

/// "NFR9 (120s timeout) … need per-turn timeout, not per-conversation": a silent provider times out, and is not retried.
#[test]
fn a_silent_provider_is_given_up() {
    const BEGUN: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    for stalls in ["", BEGUN] {
        let server = Server::start(move |asked| match asked.line.starts_with("POST /v1/messages ") {
            true => Does::Stalls(stalls),
            false => Does::Json(404, "{}".to_owned()),
        });
        let studio = Studio::new("conversation: {stream_timeout: 1s}\n");
        let mut command = studio.task("steps: []", &["--model", "anthropic/claude-x"]);
        command.env("ANTHROPIC_BASE_URL", server.url("")).env("ANTHROPIC_API_KEY", "sk-a");
        let told = Told::of(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!((told.code(), &told.end()["reason"]), (5, &json!("provider_error")), "{:?}", told.output);
        let said = told.end()["text"].as_str().unwrap();
        assert!(said.contains("for 1s") && said.contains("conversation.stream_timeout"), "{said}");
        assert_eq!(told.all("chat:error")[0]["code"], "silent");
        let steps = server.asked().iter().filter(|asked| asked.line.starts_with("POST")).count();
        assert_eq!(steps, 1, "it was asked again");
    }
}
