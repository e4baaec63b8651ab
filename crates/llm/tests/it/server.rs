//! A server with scripted answers that keeps its requests.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body, `null` if there is none.
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self { status, kind: "application/json", body: body.to_string().into_bytes() }
    }

    pub(crate) fn events(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind: "text/event-stream", body: body.into() }
    }

    pub(crate) fn lines(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind: "application/x-ndjson", body: body.into() }
    }
}

/// A server on loopback, until it is dropped.
pub(crate) struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (answer, seen) = (Arc::new(answer), asked.clone());
        let serving = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (answer, seen) = (answer.clone(), seen.clone());
                tokio::spawn(async move {
                    while let Some(asked) = read(&mut connection).await {
                        seen.lock().unwrap().push(asked.clone());
                        write(&mut connection, answer(&asked)).await;
                    }
                });
            }
        });
        Self { address, asked, serving }
    }

    /// Its URL with a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A bound address without a listener, which no other process can take while it is held.
pub(crate) fn nobody() -> (TcpSocket, String) {
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", held.local_addr().unwrap());
    (held, address)
}

async fn read(connection: &mut TcpStream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    connection.read_exact(&mut body).await.ok()?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Asked { line, headers, body })
}

async fn write(connection: &mut TcpStream, answer: Answer) {
    let Answer { status, kind, body } = answer;
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    // The client may have disconnected.
    let _ = connection.write_all(&[head.as_bytes(), &body].concat()).await;
}
