//! A small HTTP server on loopback that sends scripted responses and counts requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The response to the next request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes, status line included.
    Bytes(Vec<u8>),
    /// Headers, and then an endless body.
    Endless,
    /// Nothing, with the connection kept open.
    Silence,
    /// The status line and a body that stops halfway, with the connection kept open.
    Half,
}

impl Answer {
    pub(crate) fn json(value: &Value) -> Self {
        Self::status("200 OK", &value.to_string())
    }

    pub(crate) fn status(status: &str, body: &str) -> Self {
        let head =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        Self::Bytes([head.as_bytes(), body.as_bytes()].concat())
    }

    pub(crate) fn redirect(to: &str) -> Self {
        let head =
            format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        Self::Bytes(head.into_bytes())
    }
}

pub(crate) struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
    answer: Arc<Mutex<Answer>>,
}

impl Server {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (requests, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(answer)));
        let server = Self { url, requests: Arc::clone(&requests), answer: Arc::clone(&answer) };
        std::thread::spawn(move || {
            let mut kept_open = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                if read_request(&stream) {
                    requests.fetch_add(1, Ordering::SeqCst);
                    let answer = answer.lock().unwrap().clone();
                    kept_open.extend(say(stream, &answer));
                }
            }
        });
        server
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }
}

fn read_request(stream: &TcpStream) -> bool {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let is_get = lines.next().is_some_and(|line| line.starts_with("GET /keys HTTP/1.1"));
    is_get && lines.any(|line| line.is_empty())
}

/// Sends it; returns the connection if it must stay open.
fn say(mut stream: TcpStream, answer: &Answer) -> Option<TcpStream> {
    match answer {
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(bytes);
            None
        }
        Answer::Endless => {
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"keys\":[";
            let mut open = stream.write_all(head);
            while open.is_ok() {
                open = stream.write_all(&[b' '; 4096]);
            }
            None
        }
        Answer::Silence => Some(stream),
        Answer::Half => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"keys\":");
            Some(stream)
        }
    }
}
