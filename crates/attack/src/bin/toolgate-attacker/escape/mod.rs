//! Attacks on the sandbox that need raw system calls. Each prints `ESCAPED`, or what it read, when it succeeds; the error that stopped it goes to
//! standard error.

pub(crate) mod raw;
mod bombs;
mod files;
mod kernel;
mod mounts;
mod network;
mod processes;

/// The error that stopped an attack.
type Tried<Done = ()> = Result<Done, String>;

/// Runs one attack.
pub(crate) fn run(words: &[&str]) {
    let tried = files::run(words)
        .or_else(|| mounts::run(words))
        .or_else(|| network::run(words))
        .or_else(|| processes::run(words))
        .or_else(|| bombs::run(words))
        .or_else(|| kernel::run(words));
    match tried {
        Some(Ok(())) => println!("ESCAPED"),
        Some(Err(why)) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("stopped: {why}\n").as_bytes());
            std::process::exit(1);
        }
        None => panic!("there is no attack {words:?}"),
    }
}

/// A raw system call, with its error as text.
fn call(number: i64, arguments: [usize; 6]) -> Tried<i64> {
    raw::call(number, arguments).map_err(|error| std::io::Error::from_raw_os_error(error).to_string())
}

/// Any error as text.
fn stopped(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn show(bytes: &[u8]) {
    println!("{}", String::from_utf8_lossy(bytes));
}

fn text(word: &str) -> std::ffi::CString {
    std::ffi::CString::new(word).unwrap()
}

fn number<Number: std::str::FromStr<Err: std::fmt::Debug>>(word: &str) -> Number {
    word.parse().unwrap_or_else(|error| panic!("{word} is no number: {error:?}"))
}
