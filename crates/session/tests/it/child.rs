//! The processes that tests start and kill: this test binary again, with its role in the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use toolgate_session::{Session, SessionError, SessionStore};

use crate::support::{assistant, id, new, result, user, wait};

const PART: &str = "TOOLGATE_SESSION_TEST_PART";

/// Starts a process in a role over a database, starting at a number.
pub(crate) fn start(part: &str, file: &Path, number: u64) -> Child {
    start_within(&[], part, file, number)
}

/// The same in an environment that `prefix` sets up for the command that follows it.
pub(crate) fn start_within(prefix: &[&str], part: &str, file: &Path, number: u64) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut words = prefix.iter().map(|word| Path::new(*word)).chain([program.as_path()]);
    let mut process = Command::new(words.next().unwrap());
    process
        .args(words)
        .args(["child::plays_its_part", "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, format!("{part} {number} {}", file.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    process.spawn().unwrap()
}

/// A child's output, line by line, until it exits.
pub(crate) fn sayings(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("says ").map(str::to_owned))
}

fn say(words: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsays {words}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Passes immediately unless this process was started in a role.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut words = part.splitn(3, ' ');
    let (part, number, file) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let (number, file) = (number.parse().unwrap(), Path::new(file));
    wait(async {
        match part {
            "work" => work(file, number).await,
            "hold" => hold(file).await,
            "talk" => talk(file, number).await,
            "fill" => fill(file).await,
            other => panic!("there is no part {other}"),
        }
    });
}

/// The session `s`, created if missing.
async fn take_up(store: &SessionStore) -> Session {
    match store.open_session(&id("s")).await {
        Err(SessionError::Unknown { .. }) => store.create(new("s")).await.unwrap(),
        other => other.unwrap(),
    }
}

/// Adds numbered entries until it is killed, and prints each once it is stored.
async fn work(file: &Path, first: u64) {
    let store = SessionStore::open(file).await.unwrap();
    let mut session = take_up(&store).await;
    session.interrupt("interrupted").await.unwrap();
    let mut number = first;
    let mut next = || {
        number += 1;
        number
    };
    loop {
        let n = next();
        session.append(user(&format!("user {n}"))).await.unwrap();
        say(&n.to_string());
        let n = next();
        session.append(assistant(&format!("assistant {n}"), &["a", "b", "c"])).await.unwrap();
        say(&n.to_string());
        for call in ["b", "c", "a"] {
            let n = next();
            session.add_result(result(call, &format!("result {n}"))).await.unwrap();
            say(&n.to_string());
        }
    }
}

/// Holds the session until it is killed.
async fn hold(file: &Path) {
    let store = SessionStore::open(file).await.unwrap();
    let _session = take_up(&store).await;
    say("holds");
    std::future::pending::<()>().await;
}

/// Three concurrent sessions of its own, each with unique text.
async fn talk(file: &Path, process: u64) {
    let store = in_the_end(async || SessionStore::open(file).await).await;
    let mut sessions = Vec::new();
    for number in 0..3 {
        let name = format!("p{process}-{number}");
        sessions.push(in_the_end(async || store.create(new(&name)).await).await);
    }
    for round in 0..20 {
        for session in &mut sessions {
            let words = format!("{} {round}", session.id());
            in_the_end(async || session.append(user(&words)).await).await;
            in_the_end(async || session.append(assistant(&words, &["a"])).await).await;
            in_the_end(async || session.add_result(result("a", &words)).await).await;
        }
    }
}

/// Retries while other processes are in the way, as may happen on a slow disk: a failed operation had no effect.
async fn in_the_end<Done>(mut work: impl AsyncFnMut() -> Result<Done, SessionError>) -> Done {
    loop {
        match work().await {
            Err(SessionError::Busy { .. }) => {}
            other => return other.unwrap(),
        }
    }
}

/// Adds messages until the disk is full, and prints the result of each.
async fn fill(file: &Path) {
    let store = SessionStore::open(file).await.unwrap();
    let mut session = take_up(&store).await;
    let mut refused = 0;
    for number in 0..200 {
        let text = format!("{number} {}", "x".repeat(8 * 1024));
        match session.append(user(&text)).await {
            Ok(()) => say(&format!("did {number}")),
            Err(error) => {
                refused += 1;
                say(&format!("failed {}", error.code()));
            }
        }
        if refused == 5 {
            return;
        }
    }
}
