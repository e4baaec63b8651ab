//! Long-running processes.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use toolgate_command::{ConfinedProcess, StartedProcess};
use toolgate_egress::{Dial, DialFuture, Resolve};
use toolgate_types::{CallId, ErrorCode};

use crate::fixture::{setting, setting_in};

/// A shell line as a long-running process.
fn shell(line: &str) -> ConfinedProcess {
    ConfinedProcess {
        program: "sh".into(),
        arguments: vec!["-c".into(), line.into()],
        directory: None,
        mounts: vec![("@project".to_owned(), true)],
        environment: Vec::new(),
        network: Vec::new(),
        upstream: None,
        read: Vec::new(),
        limits: None,
        own: Vec::new(),
        host_paths: false,
        log: None,
    }
}

/// Talks with a process and waits for its output.
struct Talk {
    input: Option<std::io::PipeWriter>,
    output: std::io::PipeReader,
    process: toolgate_command::LongRunningProcess,
}

fn waiting(file: OwnedFd) -> OwnedFd {
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty()).unwrap();
    file
}

impl Talk {
    fn with(StartedProcess { input, output, process }: StartedProcess) -> Self {
        Self { input: Some(waiting(input).into()), output: waiting(output).into(), process }
    }

    fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).unwrap() == 1 {
            line.push(byte[0]);
            if byte == *b"\n" {
                break;
            }
        }
        String::from_utf8(line).unwrap()
    }

    fn reason(&self) -> String {
        runtime().block_on(self.process.ended()).reason
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn a_process_answers_until_its_input_ends() {
    let (_scratch, _, runner) = setting();
    let mut talk = Talk::with(
        runner
            .start(&shell("pwd; while read line; do echo \"you said $line\"; done; echo over >&2; exit 4"))
            .unwrap(),
    );
    assert_eq!(talk.line(), "/mnt/project\n");
    for word in ["one", "two"] {
        talk.say(&format!("{word}\n"));
        assert_eq!(talk.line(), format!("you said {word}\n"));
        assert_eq!(talk.process.has_ended(), None);
    }
    talk.input = None;
    assert_eq!((talk.line().as_str(), talk.reason().as_str()), ("", "it exited with code 4"));
    assert_eq!(talk.process.errors(), "over\n");
}

#[test]
fn a_process_that_is_asked_to_end_may_tidy_up_and_leaves_nobody() {
    let (scratch, _, runner) = setting();
    let line = "trap 'echo bye > bye; exit 0' TERM; setsid sleep 300 & (sleep 300 &); echo ready; while :; do sleep 0.02; done";
    let mut talk = Talk::with(runner.start(&shell(line)).unwrap());
    assert_eq!(talk.line(), "ready\n");
    talk.process.end();
    talk.process.end();
    assert_eq!(talk.reason(), "it was asked to end");
    assert_eq!(std::fs::read_to_string(scratch.path().join("work/bye")).unwrap(), "bye\n");
    // Every writer of the pipe is gone: end of file.
    assert_eq!(talk.line(), "");
}

#[test]
fn a_process_ends_when_nobody_holds_it_any_more() {
    let (_scratch, _, runner) = setting();
    let mut talk = Talk::with(runner.start(&shell("echo ready; exec sleep 300")).unwrap());
    assert_eq!(talk.line(), "ready\n");
    drop(talk.process);
    let mut rest = Vec::new();
    talk.output.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn what_it_leaves_under_protected_names_is_taken_away_while_it_goes_on_and_when_it_ends() {
    let (scratch, _, runner) = setting();
    let mut talk = Talk::with(
        runner
            .start(&shell("while read name; do mkdir -p $(dirname $name); echo x > $name; echo made; done"))
            .unwrap(),
    );
    let hook = scratch.path().join("work/.git/hooks/pre-commit");
    std::fs::create_dir_all(scratch.path().join("work/.git/hooks")).unwrap();
    let taken = |talk: &Talk| runtime().block_on(talk.process.quarantine(CallId::fresh())).unwrap();
    assert_eq!(taken(&talk), Vec::<String>::new());
    for _ in 0..2 {
        talk.say(".git/hooks/pre-commit\n");
        assert_eq!(talk.line(), "made\n");
        assert!(hook.exists());
        assert_eq!(taken(&talk), ["@project/.git/hooks/pre-commit"]);
        assert!(!hook.exists());
    }
    talk.say(".envrc\n");
    assert_eq!(talk.line(), "made\n");
    talk.input = None;
    let end = runtime().block_on(talk.process.ended());
    assert_eq!((end.quarantined, end.unchecked), (vec!["@project/.envrc".to_owned()], None));
    assert!(!scratch.path().join("work/.envrc").exists());
    assert_eq!(taken(&talk), Vec::<String>::new());
}

#[test]
fn it_has_what_it_is_given_and_nothing_else() {
    let (scratch, _, runner) = setting();
    std::fs::write(scratch.path().join("work/.env"), "SECRET=1\n").unwrap();
    std::fs::create_dir(scratch.path().join("work/sub")).unwrap();
    let process = ConfinedProcess {
        directory: Some("@project/sub".to_owned()),
        mounts: vec![("@project".to_owned(), false)],
        environment: vec![("API_TOKEN".to_owned(), "given".to_owned())],
        ..shell(
            "pwd; echo $API_TOKEN; cat ../.env 2>/dev/null; echo x 2>/dev/null > new || echo refused; ulimit -t; env | grep -c TOOLGATE",
        )
    };
    let mut talk = Talk::with(runner.start(&process).unwrap());
    let mut all = String::new();
    talk.output.read_to_string(&mut all).unwrap();
    assert_eq!(all, "/mnt/project/sub\ngiven\nrefused\n316224000\n0\n");
}

#[test]
fn it_may_read_more_of_the_host_where_it_is_told_to() {
    let (_scratch, _, runner) = setting();
    // Not below `/tmp`, which is private to every command.
    let outside = tempfile::Builder::new().prefix("toolgate-test").tempdir_in("/var/tmp").unwrap();
    let program = outside.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho it runs; cat $(dirname $0)/data; echo x 2>/dev/null > $(dirname $0)/data || echo refused\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(outside.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(outside.path().join("data"), "data\n").unwrap();
    let with = |read: Vec<PathBuf>| ConfinedProcess {
        program: program.clone().into(),
        arguments: Vec::new(),
        read,
        ..shell("")
    };
    let mut talk = Talk::with(runner.start(&with(vec![outside.path().to_path_buf()])).unwrap());
    let mut all = String::new();
    talk.output.read_to_string(&mut all).unwrap();
    assert_eq!(all, "it runs\ndata\nrefused\n");
    // Other processes do not see it.
    let talk = Talk::with(runner.start(&with(Vec::new())).unwrap());
    assert_eq!(talk.reason(), format!("there is no program `{}` in the sandbox", program.display()));
}

#[test]
fn what_no_process_is_given_is_refused_before_it_starts() {
    let (scratch, _, runner) = setting();
    let line = || shell("echo started");
    let work = scratch.path().join("work");
    let environment = |name: &str| vec![(name.to_owned(), "x".to_owned())];
    for (process, code) in [
        (ConfinedProcess { environment: environment("LD_PRELOAD"), ..line() }, ErrorCode::InvalidArguments),
        (ConfinedProcess { network: vec!["not a host".to_owned()], ..line() }, ErrorCode::InvalidArguments),
        (ConfinedProcess { program: "no-such-program".into(), ..line() }, ErrorCode::CommandNotFound),
        (ConfinedProcess { mounts: vec![("@other".to_owned(), false)], ..line() }, ErrorCode::UnknownAlias),
        (ConfinedProcess { directory: Some("@project/none".to_owned()), ..line() }, ErrorCode::NotFound),
        (
            ConfinedProcess { directory: Some("@project".to_owned()), mounts: Vec::new(), ..line() },
            ErrorCode::InvalidArguments,
        ),
        (ConfinedProcess { read: vec!["/proc".into()], ..line() }, ErrorCode::SandboxUnavailable),
        (ConfinedProcess { read: vec!["/".into()], ..line() }, ErrorCode::InvalidArguments),
        (ConfinedProcess { read: vec![scratch.path().into()], ..line() }, ErrorCode::InvalidArguments),
        (ConfinedProcess { read: vec![work.join("sub")], ..line() }, ErrorCode::InvalidArguments),
        (ConfinedProcess { read: vec!["relative".into()], ..line() }, ErrorCode::SandboxUnavailable),
    ] {
        let failure = runner.start(&process).map(drop).unwrap_err();
        assert_eq!(failure.code, code, "{failure:?}");
    }
}

#[test]
fn whoever_talks_without_end_on_standard_error_is_heard_to_the_end() {
    let (_scratch, _, runner) = setting();
    let talk = Talk::with(runner.start(&shell("seq 1 300000 >&2; printf 'the \\033[31mend' >&2")).unwrap());
    assert_eq!(talk.reason(), "it exited with code 0");
    let errors = talk.process.errors();
    assert!(errors.len() <= 16 * 1024 && errors.ends_with("\n300000\nthe end"), "{errors}");
    assert!(errors.starts_with("29"), "{errors}");
}

/// A network where every name resolves to one server.
struct OneServer(SocketAddr);

impl Resolve for OneServer {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))])
    }
}

impl Dial for OneServer {
    fn dial(&self, _address: SocketAddr) -> DialFuture {
        Box::pin(tokio::net::TcpStream::connect(self.0))
    }
}

#[test]
fn it_reaches_its_own_hosts_for_as_long_as_it_lives_and_no_others() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = server.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
                .unwrap();
        }
    });
    let (_scratch, _, runner) = setting_in(Arc::new(OneServer(address)));
    let line = "while read host; do curl -s -f http://$host/ || echo refused; done";
    let process = ConfinedProcess { network: vec!["good.example.com".to_owned()], ..shell(line) };
    let mut talk = Talk::with(runner.start(&process).unwrap());
    for (host, answer) in [
        ("good.example.com", "hello\n"),
        ("evil.example.com", "refused\n"),
        ("evil.example.com", "refused\n"),
        ("good.example.com", "hello\n"),
    ] {
        talk.say(&format!("{host}\n"));
        assert_eq!(talk.line(), answer, "{host}");
    }
    serving.join().unwrap();
    // The operator is notified once, while the process runs.
    let errors = talk.process.errors();
    assert!(errors.starts_with("[network denied: `evil.example.com:80`: "), "{errors}");
    assert!(errors.ends_with("; the operator can add `evil.example.com` to `network`]\n"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}
