//! The transport with misbehaving servers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use toolgate_llm::{
    ApiKey, Endpoint, ErrorKind, ProviderError, RetryPolicy, StepEvent, Timeouts, Wire, provider,
};

use crate::asking::{model, request, step, tools};
use crate::server::{Answer, Server, nobody};
use crate::stream::fixture;

pub(crate) const KEY: &str = "sk-ant-very-secret";

/// What a server does on a connection after the request.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    Send(Vec<u8>),
    /// Closes the connection regularly.
    Close,
    /// Resets it, which discards data in flight.
    Reset,
    /// Nothing, until the client disconnects.
    Wait,
    /// Sends byte after byte, until the client disconnects.
    Drip,
}

/// A server that does the same on every connection; it reports when a client disconnects while it waits.
pub(crate) async fn raw(doings: Vec<Do>) -> (String, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, doings.clone(), tell.clone()));
        }
    });
    (address, told)
}

async fn serve(mut connection: TcpStream, doings: Vec<Do>, tell: mpsc::UnboundedSender<()>) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // Every request here ends with its body, an object.
    while !seen.ends_with(b"}") {
        match connection.read(&mut buffer).await {
            Ok(count) if count > 0 => seen.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    for doing in doings {
        match doing {
            Do::Send(bytes) => {
                if connection.write_all(&bytes).await.is_err() {
                    let _ = tell.send(());
                    return;
                }
            }
            Do::Close => return,
            Do::Reset => {
                connection.set_zero_linger().unwrap();
                return;
            }
            Do::Drip => {
                while connection.write_all(&[b' '; 1024]).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let _ = tell.send(());
                return;
            }
            Do::Wait => {
                let _ = connection.read(&mut buffer).await;
                let _ = tell.send(());
                return;
            }
        }
    }
}

pub(crate) fn chunk(bytes: &[u8]) -> Do {
    Do::Send([format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
}

pub(crate) fn head() -> Do {
    Do::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )
}

pub(crate) fn patient() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(120),
        first_byte: Duration::from_secs(120),
        idle: Duration::from_secs(120),
    }
}

pub(crate) fn endpoint(address: &str, timeouts: Timeouts) -> Endpoint {
    let mut endpoint = Endpoint::new(address).key(Some(ApiKey::new(KEY)));
    endpoint.headers = vec![("x-other".into(), ApiKey::new("other-secret"))];
    endpoint.timeouts = timeouts;
    endpoint
}

/// Requests a step over Anthropic Messages.
async fn ask(endpoint: Endpoint) -> Result<Vec<StepEvent>, ProviderError> {
    let provider = provider(Wire::Anthropic, endpoint, model("anthropic", "m"));
    step(provider.as_ref(), request(&[], &tools())).await
}

async fn fails(endpoint: Endpoint) -> ProviderError {
    let failed = ask(endpoint).await.unwrap_err();
    let shown = format!("{failed} {failed:?} {:?}", failed.help);
    assert!(!shown.contains(KEY) && !shown.contains("other-secret"), "{shown}");
    failed
}

#[tokio::test]
async fn answers_that_are_no_success_are_told_apart_and_hints_are_kept() {
    let error =
        |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let spent = json!({"error": {"type": "rate_limit_error", "message": "x", "details": {"error_code": "enforced_spend_limit_reached"}}});
    let echo = error("authentication_error", &format!("invalid x-api-key: {KEY} with other-secret"));
    let cases = [
        (
            429,
            "retry-after: 7\r\n",
            error("rate_limit_error", "slow"),
            ErrorKind::RateLimited,
            Some(7_000),
            true,
        ),
        (
            429,
            "retry-after-ms: 250\r\nretry-after: 7\r\n",
            error("rate_limit_error", "slow"),
            ErrorKind::RateLimited,
            Some(250),
            true,
        ),
        (
            429,
            "retry-after: 7\r\nx-should-retry: false\r\n",
            error("rate_limit_error", "slow"),
            ErrorKind::RateLimited,
            Some(7_000),
            false,
        ),
        (429, "retry-after: 1\r\nx-should-retry: true\r\n", spent, ErrorKind::SpendLimit, Some(1_000), false),
        (529, "", error("overloaded_error", "Overloaded"), ErrorKind::Overloaded, None, true),
        (500, "", json!("not what was agreed"), ErrorKind::ServerError, None, true),
        (
            400,
            "x-should-retry: true\r\n",
            error("invalid_request_error", "tools.0: bad"),
            ErrorKind::BadRequest,
            None,
            true,
        ),
        (401, "", echo, ErrorKind::Unauthorized, None, false),
        (404, "", error("not_found_error", "model: m"), ErrorKind::UnknownModel, None, false),
    ];
    let mut told = String::new();
    for (status, headers, body, kind, wait, retryable) in cases {
        let body = body.to_string();
        let answer = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        let (address, _told) = raw(vec![Do::Send(answer.into_bytes()), Do::Wait]).await;
        let failed = fails(endpoint(&address, patient())).await;
        assert_eq!((failed.kind, failed.is_retryable()), (kind, retryable), "{failed:?}");
        assert_eq!(failed.retry_after, wait.map(Duration::from_millis));
        assert_eq!(RetryPolicy::default().delay(1, &failed).is_some(), retryable);
        let host = address.trim_start_matches("http://");
        told += &format!("{failed}\n  {}\n", failed.help.as_deref().unwrap_or("-")).replace(host, "host");
    }
    insta::assert_snapshot!(told);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_truncated_wherever_it_breaks() {
    let bytes = fixture("anthropic", "one_call");
    for share in [0, 10, 50, 90, 99] {
        let part = &bytes[..bytes.len() * share / 100];
        for end in [Do::Close, Do::Reset] {
            let (address, _told) = raw(vec![head(), chunk(part), end.clone()]).await;
            let failed = fails(endpoint(&address, patient())).await;
            assert_eq!(failed.kind, ErrorKind::Truncated, "{share} {end:?}");
        }
        // The same with a regular end of the HTTP body.
        let (address, _told) = raw(vec![head(), chunk(part), chunk(b""), Do::Close]).await;
        let failed = fails(endpoint(&address, patient())).await;
        assert_eq!(failed.kind, ErrorKind::Truncated, "{share}");
    }
}

#[tokio::test]
async fn what_comes_after_the_finish_changes_nothing() {
    let bytes = fixture("anthropic", "one_call");
    for end in
        [Do::Close, Do::Reset, Do::Wait, chunk(b"data: {garbage\n\n"), Do::Send(b"not a chunk".to_vec())]
    {
        let (address, _told) = raw(vec![head(), chunk(&bytes), end.clone()]).await;
        let events = ask(endpoint(&address, patient())).await;
        // A reset may overtake the bytes before it; then nothing was finished.
        match events {
            Ok(events) => assert!(matches!(events.last(), Some(StepEvent::Finish { .. })), "{end:?}"),
            Err(failed) => {
                assert!(matches!(end, Do::Reset) && failed.kind == ErrorKind::Truncated, "{end:?} {failed}")
            }
        }
    }
}

#[tokio::test]
async fn silence_ends_a_step() {
    let short = Duration::from_millis(50);
    let bytes = fixture("anthropic", "one_call");
    let (address, _told) = raw(vec![head(), chunk(&bytes[..bytes.len() / 2]), Do::Wait]).await;
    let failed = fails(endpoint(&address, Timeouts { idle: short, ..patient() })).await;
    assert_eq!((failed.kind, failed.is_retryable()), (ErrorKind::Silent, false));
    let (address, mut told) = raw(vec![Do::Wait]).await;
    // Long enough for the request to arrive.
    let first_byte = Duration::from_secs(2);
    let failed = fails(endpoint(&address, Timeouts { first_byte, ..patient() })).await;
    assert_eq!(failed.kind, ErrorKind::Silent);
    told.recv().await.unwrap();
    // An error status whose body never arrives is still an error.
    let (address, _told) =
        raw(vec![Do::Send(b"HTTP/1.1 429 x\r\ncontent-length: 9\r\n\r\n".to_vec()), Do::Wait]).await;
    let failed = fails(endpoint(&address, Timeouts { idle: short, ..patient() })).await;
    assert_eq!(failed.kind, ErrorKind::RateLimited);
}

/// The timeout of a query covers the whole answer, however steadily it arrives.
#[tokio::test]
async fn an_answer_that_never_ends_is_not_waited_for() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000000\r\n\r\n{";
    let (address, mut told) = raw(vec![Do::Send(head.to_vec()), Do::Drip]).await;
    let hasty = Timeouts { first_byte: Duration::from_secs(2), ..patient() };
    let asked = provider(Wire::Ollama, endpoint(&address, hasty), model("ollama", "m"));
    let failed = asked.capabilities().await.unwrap_err();
    assert_eq!((failed.kind, failed.is_retryable()), (ErrorKind::Silent, false));
    told.recv().await.unwrap();
}

/// A server's message is truncated, and even a prefix of a key is redacted.
#[tokio::test]
async fn a_key_is_hidden_wherever_the_words_around_it_are_cut() {
    for before in [380, 385, 390, 399, 400] {
        let words = "x".repeat(before) + KEY + " is no key";
        let body = json!({"error": {"type": "authentication_error", "message": words}}).to_string();
        let refusal = format!("HTTP/1.1 401 x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let event = format!("event: error\ndata: {body}\n\n");
        for doings in [vec![Do::Send(refusal.into_bytes())], vec![head(), chunk(event.as_bytes())]] {
            let (address, _told) = raw([doings, vec![Do::Wait]].concat()).await;
            let failed = fails(endpoint(&address, patient())).await;
            assert_eq!(failed.kind, ErrorKind::Unauthorized);
            assert!(failed.message.contains("xxx") && !failed.message.contains("sk-"), "{failed}");
        }
    }
}

#[tokio::test]
async fn dropping_the_events_hangs_up() {
    let bytes = fixture("anthropic", "text");
    let (address, mut told) = raw(vec![head(), chunk(&bytes[..bytes.len() / 2]), Do::Wait]).await;
    let provider = provider(Wire::Anthropic, endpoint(&address, patient()), model("anthropic", "m"));
    let tools = tools();
    let mut events = provider.step(request(&[], &tools)).await.unwrap();
    events.next().await.unwrap().unwrap();
    drop(events);
    told.recv().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_stop_is_cut_off() {
    let line = vec![b'x'; 1 << 20];
    let endless: Vec<Do> =
        std::iter::once(head()).chain((0..64).map(|_| chunk(&line))).chain([Do::Wait]).collect();
    let (address, mut told) = raw(endless).await;
    assert_eq!(fails(endpoint(&address, patient())).await.kind, ErrorKind::TooLarge);
    told.recv().await.unwrap();
    let remark = [b":".as_slice(), &line, b"\n\n"].concat();
    let endless = std::iter::once(head()).chain((0..64).map(|_| chunk(&remark))).chain([Do::Wait]).collect();
    let (address, mut told) = raw(endless).await;
    assert_eq!(fails(endpoint(&address, patient())).await.kind, ErrorKind::TooLarge);
    told.recv().await.unwrap();
}

#[tokio::test]
async fn no_key_follows_a_redirect() {
    let target = Server::start(|_| Answer::events(fixture("anthropic", "text"))).await;
    for status in [301, 302, 303, 307, 308] {
        let location = target.url("/v1/messages");
        let answer = format!("HTTP/1.1 {status} x\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let (address, _told) = raw(vec![Do::Send(answer.into_bytes()), Do::Close]).await;
        let failed = fails(endpoint(&address, patient())).await;
        assert_eq!((failed.kind, failed.is_retryable()), (ErrorKind::BadRequest, false));
        assert!(failed.help.unwrap().contains("base_url"));
    }
    assert!(target.asked().is_empty());
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_a_failure() {
    for (kind, extra, body, expected) in [
        ("text/html", "", "<html>sign in</html>", ErrorKind::BadRequest),
        ("application/json", "", r#"{"id":"msg_1","content":[]}"#, ErrorKind::BadRequest),
        (
            "application/json",
            "",
            r#"{"error":{"type":"overloaded_error","message":"x"}}"#,
            ErrorKind::Overloaded,
        ),
        ("text/event-stream", "content-encoding: gzip\r\n", "xx", ErrorKind::Garbled),
    ] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{extra}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (address, _told) = raw(vec![Do::Send(answer.into_bytes()), Do::Wait]).await;
        assert_eq!(fails(endpoint(&address, patient())).await.kind, expected, "{kind} {body}");
    }
}

#[tokio::test]
async fn nobody_there_and_nowhere_to_go() {
    let (_held, address) = nobody();
    let failed = fails(endpoint(&address, patient())).await;
    assert_eq!((failed.kind, failed.is_retryable()), (ErrorKind::Unreachable, true));
    let (address, _told) = raw(vec![Do::Close]).await;
    assert_eq!(fails(endpoint(&address, patient())).await.kind, ErrorKind::Unreachable);
    let addresses = [
        "",
        "not an address",
        "ftp://x",
        "http://models.example",
        "https://u:p@models.example",
        "http://127.0.0.1:1/?x",
    ];
    for address in addresses {
        let failed = fails(endpoint(address, patient())).await;
        assert_eq!((failed.kind, failed.is_retryable()), (ErrorKind::Unusable, false), "{address}");
    }
    let mut stray = endpoint("http://127.0.0.1:1", patient());
    stray.key = Some(ApiKey::new(format!("{KEY}\r\nx-evil: 1")));
    assert_eq!(fails(stray).await.kind, ErrorKind::Unusable);
}

/// A wire whose terminator is optional still needs a regular end of the HTTP body.
#[tokio::test]
async fn a_connection_that_breaks_is_no_end_of_a_stream() {
    let bytes = fixture("openai-chat", "one_call");
    let bytes = bytes.strip_suffix(b"data: [DONE]\n\n").unwrap();
    for (end, fine) in [(chunk(b""), true), (Do::Close, false)] {
        let (address, _told) = raw(vec![head(), chunk(bytes), end, Do::Close]).await;
        let asked = provider(Wire::OpenaiChat, endpoint(&address, patient()), model("openai-chat", "m"));
        let failed = step(asked.as_ref(), request(&[], &tools())).await.err().map(|failed| failed.kind);
        assert_eq!(failed, (!fine).then_some(ErrorKind::Truncated));
    }
}

#[tokio::test]
async fn one_connection_serves_step_after_step() {
    const STEPS: usize = 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (connections, go_on) = (Arc::new(Mutex::new(0)), Arc::new(Notify::new()));
    let (counted, gone_on) = (connections.clone(), go_on.clone());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let go_on = gone_on.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while connection.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    for doing in [head(), chunk(&fixture("anthropic", "text"))] {
                        let Do::Send(bytes) = doing else { return };
                        connection.write_all(&bytes).await.unwrap();
                    }
                    // The response ends long after the step.
                    go_on.notified().await;
                    let _ = connection.write_all(b"0\r\n\r\n").await;
                }
            });
        }
    });
    let provider = provider(Wire::Anthropic, endpoint(&address, patient()), model("anthropic", "m"));
    let tools = tools();
    for _ in 0..STEPS {
        step(provider.as_ref(), request(&[], &tools)).await.unwrap();
        go_on.notify_one();
        // The rest of the response is read by a task of its own, which also returns the connection to the pool.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    assert!(*connections.lock().unwrap() < STEPS);
}
