//! Small servers that imitate model providers and search engines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: its first line, its headers and its body.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) headers: String,
    pub(super) body: String,
}

/// The reaction of a server to a request.
pub(super) enum Does {
    /// Responds with a status and JSON.
    Json(u16, String),
    /// Sends these bytes and nothing more; the connection stays open.
    Stalls(&'static str),
}

pub(super) struct Server {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(super) fn start(answer: impl Fn(&Asked) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, heard) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, heard) = (Arc::clone(&answer), Arc::clone(&heard));
                std::thread::spawn(move || serve(stream, &*answer, &heard));
            }
        });
        Self { address, asked }
    }

    /// Responds to each path with fixed JSON, and to others with 404.
    pub(super) fn of(paths: &'static [(&'static str, &'static str)]) -> Self {
        Self::start(move |asked| {
            let known = paths.iter().find(|(path, _)| asked.line.starts_with(path));
            known.map_or(Does::Json(404, "{}".to_owned()), |(_, body)| Does::Json(200, (*body).to_owned()))
        })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Asked) -> Does, heard: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(asked) = read(&mut reader) {
        heard.lock().unwrap().push(asked.clone());
        match answer(&asked) {
            Does::Json(status, body) => {
                let head = format!(
                    "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                if stream.write_all((head + &body).as_bytes()).is_err() {
                    return;
                }
            }
            Does::Stalls(bytes) => {
                let _ = stream.write_all(bytes.as_bytes());
                // Until the client closes the connection.
                let _ = reader.read(&mut [0]);
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let (mut headers, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|bytes| *bytes > 0)?;
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
        headers.push_str(&header.to_lowercase());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { line, headers, body: String::from_utf8(body).ok()? })
}
