//! What programs, pages and other callers send to get what is not theirs. The oracle is what the gate holds afterwards: its files, its open question,
//! its session, its memory.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use tungstenite::Message;

use crate::gate::{Client, Gate, Socket};

pub(crate) const WRITING: &str = "
steps:
  - calls: [{tool: write_file, arguments: {path: b.txt, content: \"one\\n\"}}]
  - say: \"{{last_result}}\"
";

const PERMITTED: &[&str] = &["--permission", "files:read", "--permission", "files:write"];

/// A session with a title that no other caller may read, whose model waits for a question.
fn asked(person: &Client) -> (String, Socket, String) {
    let session = person.post("sessions", &json!({"title": "canary-title"})).expect(201);
    let session = session["id"].as_str().unwrap().to_owned();
    let mut socket = person.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let question = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    (session, socket, question)
}

/// Whatever was tried: the session is there, its question is open, and nothing was written.
#[track_caller]
fn assert_untouched(gate: &Gate, person: &Client, session: &str, question: &str, what: &str) {
    assert_eq!(person.get(&format!("sessions/{session}")).expect(200)["title"], "canary-title", "{what}");
    assert_eq!(person.get(&format!("approvals/{question}")).status, 200, "{what}");
    assert!(!gate.place.workspace.join("b.txt").exists(), "{what}");
}

/// The answer to these bytes, whatever it is.
fn raw(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::gate::TEST_TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A reset is an answer too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn no_spelling_of_a_path_leads_past_authentication_or_to_a_file() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, _socket, question) = asked(&person);
    std::fs::write(gate.place.scratch.path().join("outside.txt"), "canary-file").unwrap();
    let token_name = "serve.token";
    for path in [
        "/api/v1/sessions",
        "/api/v1//sessions",
        "//api/v1/sessions",
        "/api/v1/sessions/",
        "/api/v1/./sessions",
        "/api/v1/login/../sessions",
        "/api/v1/login/..%2fsessions",
        "/healthz/../api/v1/sessions",
        "/assets/../api/v1/sessions",
        "/api/v1/%73essions",
        "/API/v1/sessions",
        "/api/v1/sessions;x=1",
        "/api/v1/sessions%00",
        "/api/v1/sessions%0d%0aX: y",
        "/api/v1/sessions?token=TOKEN",
        "/api/v1/sessions?access_token=TOKEN",
        "/api/v1/sessions#token=TOKEN",
        "/assets/../../../../outside.txt",
        "/assets/..%2f..%2f..%2foutside.txt",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "/api/v1/openapi.json/../me",
        "/ws?session=SESSION",
        "/ws/?session=SESSION&token=TOKEN",
        "*",
    ] {
        let path = path.replace("TOKEN", gate.token.as_deref().unwrap()).replace("SESSION", &session);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gate.address);
        let answer = raw(&gate.address, &request);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 "), "{path}: {answer}");
        for secret in ["canary-title", "canary-file", "root:", token_name, &question] {
            assert!(!answer.contains(secret), "{path}: {answer}");
        }
    }
    // Ids are not paths either.
    for id in ["..", "../../x", "%2e%2e%2fkeys", "%00", "..%5c..%5cx", "a/../b", &"x".repeat(5000)] {
        for path in [
            format!("sessions/{id}"),
            format!("changes/{id}"),
            format!("audit/{id}"),
            format!("approvals/{id}"),
        ] {
            let reply = person.get(&path);
            assert!([400, 404, 414, 431].contains(&reply.status), "{path}: {reply:?}");
            assert!(!reply.text.contains(&gate.place.scratch.path().display().to_string()), "{reply:?}");
        }
    }
    assert_untouched(&gate, &person, &session, &question, "paths");
}

#[test]
fn no_method_but_the_documented_one_changes_anything() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, _socket, question) = asked(&person);
    let (of_session, of_question) = (format!("sessions/{session}"), format!("approvals/{question}"));
    let yes = r#"{"approved":true}"#;
    for method in ["HEAD", "OPTIONS", "TRACE", "PUT", "CONNECT", "delete", "Post", "PROPFIND", "GETX"] {
        person.send(method, &of_session, Some("{}"));
        person.send(method, &of_question, Some(yes));
        assert_untouched(&gate, &person, &session, &question, method);
    }
    for (name, value) in [
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "POST"),
        ("X-Original-URL", &format!("/api/v1/{of_session}")),
        ("X-Rewrite-URL", &format!("/api/v1/{of_session}")),
        ("X-Forwarded-Host", "evil.example"),
        ("Forwarded", "host=evil.example"),
    ] {
        let overriding = person.header(name, value);
        overriding.get(&of_session).expect(200);
        overriding.send("GET", &format!("{of_question}?_method=POST"), Some(yes));
        assert_untouched(&gate, &person, &session, &question, name);
    }
}

#[test]
fn an_answer_that_says_two_things_is_none() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, _socket, question) = asked(&person);
    let path = format!("approvals/{question}");
    let deep = format!(r#"{{"approved":true,"input":{}{}}}"#, r#"{"a":"#.repeat(400), "}".repeat(400));
    let many = format!(r#"{{"approved":true,"input":{{"a":[{}0]}}}}"#, "0,".repeat(200_000));
    for body in [
        r#"{"approved":false,"approved":true}"#,
        r#"{"approved":true,"approved":true}"#,
        r#"{"approved":true,"Approved":false}"#,
        r#"{"approved":1}"#,
        r#"{"approved":"true"}"#,
        r#"{"approved":true}{"approved":false}"#,
        r#"{"approved":true,"scope":["grant"]}"#,
        r#"{"approved":true,"grant":null,"scope":"grant"}"#,
        r#"{"approved":1e9999}"#,
        "{\"approved\":true,\"reason\":\"\\ud800\"}",
        "\u{feff}{\"approved\":true}",
        "approved=true",
        "",
        &deep,
        &many,
    ] {
        let reply = person.send("POST", &path, Some(body));
        assert!((400..500).contains(&reply.status), "{body:.60}: {reply:?}");
        assert_untouched(&gate, &person, &session, &question, body.get(..40).unwrap_or(body));
    }
}

#[test]
fn messages_of_a_websocket_are_as_bounded_as_bodies() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, mut socket, question) = asked(&person);
    let before = gate.memory();
    // Each would become hundreds of megabytes of values.
    let (many, deep) = ("0,".repeat(3_500_000), "[".repeat(4_000_000));
    for text in [
        format!("{{\"event\":\"chat:send\",\"data\":[{many}0]}}"),
        format!("{{\"event\":\"x\",\"data\":{deep}"),
    ] {
        socket.raw(&text);
        // Refused by its size, before a value of it is made.
        let refused = socket.wait("chat:error");
        assert!(refused["detail"].as_str().unwrap().contains("too many values"), "{refused}");
    }
    let grown = gate.memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    // Longer than any message: the connection ends, and only this one.
    let mut flood = person.socket(&session, 0);
    let _ = flood.socket.send(Message::text("x".repeat(9 << 20)));
    while flood.next().is_some() {}
    // Nothing but nonsense: it is disconnected after a while.
    let mut nonsense = person.socket(&session, 0);
    for _ in 0..1000 {
        if nonsense.socket.send(Message::binary(vec![0; 10])).is_err() {
            break;
        }
    }
    while nonsense.next().is_some() {}
    assert_untouched(&gate, &person, &session, &question, "messages");
}

#[test]
fn a_replayed_answer_counts_for_nothing() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    let (session, mut socket, question) = asked(&person);
    let path = format!("approvals/{question}");
    person.post(&path, &json!({"approved": true})).expect(200);
    socket.wait("chat:stream-end");
    let file = gate.place.workspace.join("b.txt");
    std::fs::write(&file, "two\n").unwrap();
    // The same answer again: to the same question, and to the next one of the same call.
    assert_eq!(person.post(&path, &json!({"approved": true})).problem().0, 409);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let next = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    assert_ne!(next, question);
    assert_eq!(person.post(&path, &json!({"approved": true})).problem().0, 409);
    socket.send("chat:tool-approve", &json!({"toolId": question, "approved": true}));
    assert_eq!(socket.wait("chat:error")["code"], "already_answered");
    assert_eq!(person.get(&format!("approvals/{next}")).status, 200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    // Nor after a restart: the question is gone with its call.
    let gate = gate.restart();
    let person = gate.person();
    for id in [&question, &next] {
        assert_eq!(person.post(&format!("approvals/{id}"), &json!({"approved": true})).problem().0, 404);
    }
    assert_eq!(person.get("approvals").expect(200)["items"], json!([]));
    assert_eq!(person.get(&format!("sessions/{session}")).expect(200)["running"], false);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
}

#[test]
fn another_caller_answers_nothing_over_its_own_socket_and_its_keys_are_its_own() {
    let gate = Gate::jwt(WRITING);
    let (alice, bob) = (gate.caller("alice", PERMITTED), gate.caller("bob", PERMITTED));
    let (session, mut socket, question) = asked(&alice);
    let mut other = bob.socket(&bob.session(), 0);
    for answer in
        [json!({"toolId": question, "approved": true}), json!({"toolId": question, "approved": false})]
    {
        other.send("chat:tool-approve", &answer);
        assert_eq!(other.wait("chat:error")["code"], "not_found");
    }
    assert_untouched(&gate, &alice, &session, &question, "another caller's socket");
    // A lasting grant of Alice's is nothing to Bob: he neither sees nor revokes it, and his calls are asked about.
    let offered = alice.get(&format!("approvals/{question}")).expect(200)["grants"].clone();
    let lasting = offered.as_array().unwrap().iter().find(|grant| grant["lasts"] == "workspace").unwrap();
    let answer = json!({"approved": true, "scope": "grant", "grant": lasting["id"]});
    alice.post(&format!("approvals/{question}"), &answer).expect(200);
    socket.wait("chat:stream-end");
    let grant = alice.get("grants").expect(200)["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bob.get("grants").expect(200)["items"], json!([]));
    assert_eq!(bob.send("DELETE", &format!("grants/{grant}"), None).problem().0, 404);
    other.send("chat:send", &json!({"text": "Write it"}));
    other.wait("chat:tool-confirm");
    // An idempotency key is its caller's: Bob gets neither Alice's answer nor her conflict.
    let key = |client: &Client| client.header("Idempotency-Key", "same");
    let first = key(&alice).post("sessions", &json!({"title": "canary-title"})).expect(201);
    let second = key(&bob).post("sessions", &json!({"title": "another"})).expect(201);
    assert_eq!((&second["title"], first["id"] == second["id"]), (&json!("another"), false));
    // What Alice changed, Bob does not undo.
    let file = gate.place.workspace.join("b.txt");
    for body in [json!({}), json!({"force": true}), json!({"dryRun": true})] {
        assert_eq!(bob.post(&format!("changes/{question}/undo"), &body).problem().0, 404);
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "one\n");
}

#[test]
fn a_stream_does_not_outlive_its_token() {
    let gate = Gate::jwt(WRITING);
    let lasting = gate.caller("alice", PERMITTED);
    let short = gate.caller("alice", &[PERMITTED, &["--lifetime", "2s"]].concat());
    let session = short.post("sessions", &json!({"title": "canary-title"})).expect(201);
    let session = session["id"].as_str().unwrap().to_owned();
    let mut socket = short.socket(&session, 0);
    socket.send("chat:send", &json!({"text": "Write it"}));
    let question = socket.wait("chat:tool-confirm")["toolId"].as_str().unwrap().to_owned();
    while short.get("me").status == 200 {}
    // The token is checked before what it says is heard.
    socket.send("chat:tool-approve", &json!({"toolId": question, "approved": true}));
    while socket.next().is_some() {}
    assert_untouched(&gate, &lasting, &session, &question, "an expired token");
}

#[test]
fn a_planted_cookie_is_never_adopted() {
    let gate = Gate::serve(WRITING);
    let (own, token) = (format!("http://{}", gate.address), gate.token.clone().unwrap());
    let name = format!("toolgate-{}", gate.address.rsplit(':').next().unwrap());
    let planted = format!("{name}=9999999999.attacker.0000");
    let victim = gate.stranger().header("Cookie", &planted).header("Origin", &own);
    let login = victim.post("login", &json!({"token": token}));
    let given = login.headers["set-cookie"].split(';').next().unwrap().to_owned();
    assert!(login.status == 200 && given != planted, "{login:?}");
    assert_eq!(gate.stranger().header("Cookie", &planted).get("me").status, 401);
    // Tossed beside the good one, from a sibling domain or another path: neither counts.
    let tossed = gate.stranger().header("Cookie", &format!("{planted}; {given}"));
    assert_eq!(tossed.get("me").status, 401);
    assert_eq!(gate.stranger().header("Cookie", &given).get("me").status, 200);
    // Two logins are two cookies, and a wrong token with a good cookie is a wrong token.
    let again = gate.stranger().header("Origin", &own).post("login", &json!({"token": token}));
    assert_ne!(again.headers["set-cookie"].split(';').next().unwrap(), given);
    let both = gate.stranger().header("Cookie", &given).header("Authorization", "Bearer wrong");
    assert_eq!(both.get("me").status, 401);
}

#[test]
fn whatever_is_answered_cannot_be_framed_and_sends_no_referer() {
    let gate = Gate::serve(WRITING);
    let person = gate.person();
    for reply in [
        person.get("/"),
        person.get("/sessions/x"),
        person.get("me"),
        person.get("nothing"),
        person.get("/metrics"),
        person.get("/healthz"),
        person.get("/mcp"),
        gate.stranger().get("me"),
        person.header("Host", "evil.example").get("me"),
        person.send("PUT", "me", Some("{}")),
        person.post("login", &json!({})),
    ] {
        let header = |name: &str| reply.headers.get(name).map_or("", String::as_str);
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"), "{reply:?}");
        assert!(header("content-security-policy").contains("default-src 'none'"), "{reply:?}");
        assert_eq!(
            (header("x-frame-options"), header("referrer-policy")),
            ("DENY", "no-referrer"),
            "{reply:?}"
        );
        assert_eq!(header("x-content-type-options"), "nosniff", "{reply:?}");
    }
}

#[test]
fn the_token_is_in_no_log_record_or_answer() {
    let mut gate = Gate::with(WRITING, "", &["--log", "text", "--log-level", "debug"]);
    let person = gate.person();
    let token = gate.token.clone().unwrap();
    let (session, mut socket, question) = asked(&person);
    person.post(&format!("approvals/{question}"), &json!({"approved": true})).expect(200);
    socket.wait("chat:stream-end");
    // As a page would leak it: in a `Referer`, in a query, in a cookie of the wrong name, in a header that no one asked for.
    let leaks = [
        gate.stranger().header("Referer", &format!("http://{}/#token={token}", gate.address)).get("me"),
        gate.stranger().get(&format!("me?token={token}")),
        gate.stranger().header("Cookie", &format!("token={token}")).get("me"),
        gate.stranger().header("X-Token", &token).get("me"),
        gate.stranger().header("Authorization", &format!("Basic {token}")).get("me"),
        gate.stranger().header("Host", &format!("{token}.example")).get("me"),
        gate.stranger().post("login", &json!({"token": format!("{token}x")})),
        person.get(&format!("sessions/{token}")),
        person.get(&format!("audit?tool={token}x")),
    ];
    for reply in &leaks[..8] {
        assert!((400..500).contains(&reply.status) && !format!("{reply:?}").contains(&token), "{reply:?}");
    }
    person.send("DELETE", &format!("sessions/{session}"), None).expect(204);
    gate.terminate();
    let log = gate.log();
    assert!(log.contains("write_file"), "{log}");
    // The operator is warned of a strange host by its name, which the client chose.
    let log: String = log.lines().filter(|line| !line.contains(".example")).collect();
    assert!(!log.contains(&token), "{log}");
    let mut searched = 0;
    let mut folders = vec![gate.place.state.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("keys/serve.token") && path.is_file() {
                let bytes = std::fs::read(&path).unwrap();
                let is_there = bytes.windows(token.len()).any(|window| window == token.as_bytes());
                assert!(!is_there, "{}", path.display());
                searched += 1;
            }
        }
    }
    assert!(searched > 5, "{searched}");
}

#[test]
fn a_dry_run_of_an_undo_answers_as_the_undo_would() {
    let gate = Gate::with(WRITING, "", &["--trust", "autonomous"]);
    let person = gate.person();
    let file = gate.place.workspace.join("b.txt");
    for (there, left) in [
        (None, Some("one\n")),
        (Some("old\n"), Some("one\n")),
        (None, Some("else\n")),
        (Some("old\n"), None),
        (None, None),
    ] {
        let _ = std::fs::remove_file(&file);
        there.inspect(|text| std::fs::write(&file, text).unwrap());
        let mut socket = person.socket(&person.session(), 0);
        socket.send("chat:send", &json!({"text": "Write it"}));
        let call = socket.wait("chat:tool-result")["toolId"].as_str().unwrap().to_owned();
        socket.wait("chat:stream-end");
        match left {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let undo = |body: Value| person.post(&format!("changes/{call}/undo"), &body);
        let dry = undo(json!({"dryRun": true}));
        let now = std::fs::read_to_string(&file).ok();
        assert_eq!(now.as_deref(), left, "a dry run changes nothing");
        assert_eq!(undo(json!({})).status, dry.status, "{there:?} {left:?}: {dry:?}");
    }
}
