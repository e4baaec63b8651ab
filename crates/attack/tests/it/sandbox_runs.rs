//! Ordinary commands in the sandbox: what goes in, what comes out, how they end, and what is left of them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use toolgate_attack::{Order, Report};
use toolgate_sandbox::{
    Ended, Ends, Exit, Handed, Job, LimitHit, Mounted, Network, OnFlood, PROXY_PORT, Pumped, ResourceLimits,
    Sandbox, SandboxError, SandboxOptions, Stopped, Stream, Streams,
};
use toolgate_types::{Cover, ErrorCode, Stop};

use crate::sandbox_host::{Host, Who, secret, tools};

/// A sandbox with a folder to work in.
struct Shop {
    sandbox: Sandbox,
    folder: TempDir,
    opened: File,
}

/// No input, and room for all that tests write.
const PLENTY: Pumped = Pumped { input: None, max_output: 1 << 24, on_flood: OnFlood::Stop };

fn reading(content: Vec<u8>) -> Streams<'static> {
    Streams::Pumped(Pumped { input: Some(content), ..PLENTY })
}

/// What one command did.
struct Ran {
    ended: Ended,
    output: Vec<u8>,
    error: Vec<u8>,
}

impl Ran {
    fn text(&self) -> String {
        String::from_utf8(self.output.clone()).unwrap()
    }
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        Self { sandbox: Sandbox::prepare(SandboxOptions::default()).unwrap(), folder, opened }
    }

    fn job(&self, program: &str, arguments: &[&str]) -> Job<'_> {
        Job {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            directory: PathBuf::from("/mnt/project"),
            environment: Vec::new(),
            streams: Streams::Pumped(PLENTY),
            read: Vec::new(),
            mounts: vec![Mounted {
                directory: self.opened.as_fd(),
                at: PathBuf::from("/mnt/project"),
                writable: true,
                covers: Vec::new(),
            }],
            network: Network::None,
            limits: ResourceLimits::default(),
        }
    }

    fn shell(&self, line: &str) -> Job<'_> {
        self.job("sh", &["-c", line])
    }

    fn run(&self, job: &Job<'_>) -> Result<Ran, SandboxError> {
        self.run_until(job, &Stop::never(), &mut |_| {})
    }

    /// `heard` is told the output so far.
    fn run_until(
        &self,
        job: &Job<'_>,
        stop: &Stop,
        heard: &mut dyn FnMut(&[u8]),
    ) -> Result<Ran, SandboxError> {
        let (mut output, mut error) = (Vec::new(), Vec::new());
        let ended = self.sandbox.run(job, stop, &mut |stream, bytes| match stream {
            Stream::Output => {
                output.extend_from_slice(bytes);
                heard(&output);
            }
            Stream::Error => error.extend_from_slice(bytes),
        })?;
        Ok(Ran { ended, output, error })
    }

    fn says(&self, line: &str) -> String {
        self.run(&self.shell(line)).unwrap().text()
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Asked to end as soon as the command has said that it is ready.
fn cancelled_when_ready() -> (Stop, impl FnMut(&[u8])) {
    let flag = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&flag);
    let heard = move |output: &[u8]| {
        if output.starts_with(b"ready\n") {
            flag.store(true, Ordering::Relaxed);
        }
    };
    (Stop::new(None, move || asked.load(Ordering::Relaxed)), heard)
}

#[test]
fn sixty_four_commands_at_once_each_hear_themselves() {
    let shop = Shop::open();
    std::thread::scope(|scope| {
        for number in 0..64 {
            let shop = &shop;
            scope.spawn(move || {
                let line = format!("echo {number}; cat; echo no {number} >&2; echo {number} > /tmp/own; cat /tmp/*; exit {number}");
                let job = Job { streams: reading(format!("in {number}\n").into_bytes()), ..shop.shell(&line) };
                let ran = shop.run(&job).unwrap();
                assert_eq!(ran.ended.exit, Exit::Code(number));
                let error = String::from_utf8(ran.error.clone()).unwrap();
                assert!(error.starts_with(&format!("no {number}\n")), "{error}");
                assert_eq!(ran.text(), format!("{number}\nin {number}\n{number}\n"));
            });
        }
    });
}

#[test]
fn five_hundred_commands_leave_nothing_behind() {
    let tools = tools();
    let endured = Command::new(tools.attacker()).args(["endure", "500"]).output().unwrap();
    let told = String::from_utf8(endured.stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        endured.status.success() && lines.len() == 4,
        "{told}{}",
        String::from_utf8_lossy(&endured.stderr)
    );
    assert_eq!(lines[0], lines[1], "files, mounts and children after one command and after 501");
    // Cells are made for commands that run at once; the second time there are no more of them than the first.
    assert_eq!(lines[2], lines[3], "after many at once, and after many more");
    assert!(lines[3].ends_with(" 0"), "{told}");
}

#[test]
fn input_is_delivered_and_ends() {
    let shop = Shop::open();
    let content: Vec<u8> = (0..1_u32 << 20).map(|number| (number % 251) as u8).collect();
    let job = Job { streams: reading(content.clone()), ..shop.job("cat", &[]) };
    let ran = shop.run(&job).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.output_bytes), (Exit::Code(0), 1 << 20));
    assert!(ran.output == content);
    // Nobody has to read it, and nobody waits for more where there is none.
    let unread = Job { streams: reading(content), ..shop.job("true", &[]) };
    assert_eq!(shop.run(&unread).unwrap().ended.exit, Exit::Code(0));
    assert_eq!(shop.run(&shop.job("cat", &[])).unwrap().output, b"");
}

#[test]
fn each_stream_comes_in_order_and_whole() {
    let shop = Shop::open();
    let line = "i=0; while [ $i -lt 3000 ]; do echo $i; echo $i >&2; i=$((i+1)); done";
    let ran = shop.run(&shop.shell(line)).unwrap();
    let expected: String = (0..3000).map(|number| format!("{number}\n")).collect();
    assert_eq!(ran.text(), expected);
    assert_eq!(ran.error, expected.as_bytes());
    assert_eq!(ran.ended.output_bytes + ran.ended.error_bytes, 2 * expected.len() as u64);
    assert!(!ran.ended.truncated);
}

#[test]
fn endings_are_told_as_they_are() {
    let shop = Shop::open();
    for code in 0..=255 {
        let ended = shop.run(&shop.shell(&format!("exit {code}"))).unwrap().ended;
        assert_eq!((ended.exit, ended.stopped), (Exit::Code(code), None));
    }
    for signal in [1, 2, 3, 6, 9, 10, 11, 13, 15] {
        let ended = shop.run(&shop.shell(&format!("kill -{signal} $$"))).unwrap().ended;
        assert_eq!((ended.exit, ended.stopped), (Exit::Signal(signal), None));
    }
}

/// Runs a command on a thread of its own, and talks with it until `talk` is done; then it is to end.
fn talked_with(
    shop: &Shop,
    line: &str,
    talk: impl FnOnce(&mut PipeWriter, &mut PipeReader),
) -> Result<Ran, SandboxError> {
    let (until, leash) = std::io::pipe().unwrap();
    let (sender, ends) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let take = |taken: Ends| sender.send(taken).unwrap();
            let streams = Streams::Handed(Handed { take: &take, until: until.as_fd() });
            // That nobody may be asked whether it must end shows here: this would end it at once.
            shop.run_until(&Job { streams, ..shop.shell(line) }, &Stop::new(None, || true), &mut |_| {})
        });
        let ends = ends.recv().unwrap();
        for file in [&ends.input, &ends.output] {
            rustix::fs::fcntl_setfl(file, rustix::fs::OFlags::empty()).unwrap();
        }
        let (mut input, mut output) = (PipeWriter::from(ends.input), PipeReader::from(ends.output));
        talk(&mut input, &mut output);
        drop(leash);
        let ran = running.join().unwrap();
        // Nobody holds the other ends any more, but for a moment a process that another test is just starting.
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        rustix::fs::fcntl_setfl(&input, rustix::fs::OFlags::NONBLOCK).unwrap();
        let refused = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(5));
            input.write(b"x").err()
        });
        let refused = refused.take(12_000).flatten().next().map(|error| error.kind());
        assert_eq!(refused, Some(std::io::ErrorKind::BrokenPipe));
        ran
    })
}

fn line(output: &mut PipeReader) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && output.read(&mut byte).unwrap() == 1 {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn whoever_is_handed_the_streams_talks_with_the_command_until_it_is_to_end() {
    let shop = Shop::open();
    let echo = "trap 'echo bye >&2; exit 3' TERM; while read word; do echo \"heard $word\"; done; echo over; exec sleep 300";
    let ran = talked_with(&shop, echo, |input, output| {
        for word in ["one", "two"] {
            writeln!(input, "{word}").unwrap();
            assert_eq!(line(output), format!("heard {word}\n"));
        }
    });
    let ran = ran.unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Code(3), Some(Stopped::Cancelled)));
    assert_eq!((ran.text().as_str(), ran.error.as_slice()), ("", b"bye\n".as_slice()));
    // All that it started goes with it, whatever it listens to.
    let family =
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 300' & (sleep 300 &); echo ready; sleep 300";
    let ran = talked_with(&shop, family, |_, output| assert_eq!(line(output), "ready\n")).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Signal(9), Some(Stopped::Cancelled)));
    // One that ends by itself is waited for by nobody.
    let ran =
        talked_with(&shop, "seq 1 100000 >&2; exit 5", |_, output| assert_eq!(line(output), "")).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.truncated), (Exit::Code(5), false));
    assert!(ran.error.ends_with(b"\n100000\n"));
    assert_eq!(shop.says("echo fine"), "fine\n");
}

#[test]
fn what_cannot_be_run_is_said_to_be_so() {
    let shop = Shop::open();
    shop.write("plain.txt", "plain\n");
    // Written by another process: a handle of this one might go along to a process that is just being started, and nobody can start
    // what somebody has open for writing.
    let line =
        "printf '\\1\\2\\3' > garbage; echo '#!/nonexistent/interpreter' > lost; chmod +x garbage lost";
    assert!(
        Command::new("sh").args(["-c", line]).current_dir(shop.folder.path()).status().unwrap().success()
    );
    for (program, code) in [
        ("no-such-program", ErrorCode::CommandNotFound),
        ("/mnt/project/missing", ErrorCode::CommandNotFound),
        ("/mnt/project/lost", ErrorCode::CommandNotFound),
        ("/root/.profile", ErrorCode::CommandNotFound),
        ("/mnt/project/plain.txt", ErrorCode::PermissionDenied),
        ("/mnt/project/garbage", ErrorCode::PermissionDenied),
        ("/mnt/project", ErrorCode::PermissionDenied),
        ("nul\0nul", ErrorCode::CommandNotFound),
        ("/nul\0nul", ErrorCode::InvalidArguments),
    ] {
        let refused = shop.run(&shop.job(program, &[])).map(|ran| ran.ended).unwrap_err();
        assert_eq!(refused.code(), code, "{program:?}: {refused}");
    }
    for directory in ["/mnt/project/missing", "/mnt/project/plain.txt", "/mnt/elsewhere", "/root"] {
        let job = Job { directory: PathBuf::from(directory), ..shop.job("true", &[]) };
        let refused = shop.run(&job).map(|ran| ran.ended).unwrap_err();
        assert!(matches!(refused, SandboxError::NoDirectory { .. }), "{directory}: {refused}");
    }
    let nul = shop.run(&shop.job("echo", &["a\0b"])).map(|ran| ran.ended).unwrap_err();
    assert_eq!(nul.code(), ErrorCode::InvalidArguments);
    // After all of that the sandbox is as good as new.
    assert_eq!(shop.says("echo fine"), "fine\n");
}

#[test]
fn arguments_are_passed_byte_by_byte() {
    let shop = Shop::open();
    let words: [&[u8]; 6] = [b"\xff\xfe", b"", b"a b", b"$HOME `id` \"'\\", b"\n\t\x01", b"--"];
    let arguments = [b"%s|".to_vec()].into_iter().chain(words.map(<[u8]>::to_vec)).map(OsString::from_vec);
    let job = Job { arguments: arguments.collect(), ..shop.job("printf", &[]) };
    let expected: Vec<u8> = words.iter().flat_map(|word| [*word, b"|"].concat()).collect();
    assert_eq!(shop.run(&job).unwrap().output, expected);
}

#[test]
fn a_command_that_is_asked_to_end_may_tidy_up() {
    let shop = Shop::open();
    let line = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done";
    let (stop, mut heard) = cancelled_when_ready();
    let ran = shop.run_until(&shop.shell(line), &stop, &mut heard).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Code(3), Some(Stopped::Cancelled)));
    assert_eq!(ran.text(), "ready\nbye\n");
    let soon = Stop::new(Some(Instant::now() + Duration::from_millis(50)), || false);
    let ran = shop.run_until(&shop.shell("echo ready; exec sleep 300"), &soon, &mut |_| {}).unwrap();
    assert_eq!((ran.ended.exit, ran.ended.stopped), (Exit::Signal(15), Some(Stopped::Deadline)));
    // A call that is cancelled already does not wait for anything either.
    let now = Stop::new(None, || true);
    let ended = shop.run_until(&shop.shell("exec sleep 300"), &now, &mut |_| {}).unwrap().ended;
    assert_eq!(ended.stopped, Some(Stopped::Cancelled));
}

#[test]
fn floods_are_drained_or_dammed() {
    let shop = Shop::open();
    let flood = |on_flood: OnFlood| {
        let line = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 5";
        let job = Job {
            streams: Streams::Pumped(Pumped { max_output: 1000, on_flood, ..PLENTY }),
            ..shop.shell(line)
        };
        let ran = shop.run(&job).unwrap();
        assert_eq!(ran.output.len() + ran.error.len(), 1000);
        assert!(ran.ended.truncated);
        ran.ended
    };
    let drained = flood(OnFlood::Drain(1 << 20));
    assert_eq!((drained.exit, drained.stopped), (Exit::Code(5), None));
    assert_eq!((drained.output_bytes, drained.error_bytes), (300_000, 300_000));
    for dammed in [flood(OnFlood::Drain(100_000)), flood(OnFlood::Stop)] {
        assert_eq!((dammed.exit, dammed.stopped), (Exit::Signal(9), Some(Stopped::Flood)));
    }
}

#[test]
fn limits_that_end_a_command_are_named() {
    let shop = Shop::open();
    let limits = ResourceLimits { file_size: 1000, ..ResourceLimits::default() };
    let job = Job { limits, ..shop.shell("exec head -c 100000 /dev/zero > big") };
    let ended = shop.run(&job).unwrap().ended;
    assert_eq!((ended.exit, ended.limit), (Exit::Signal(25), Some(LimitHit::FileSize)));
    assert_eq!(std::fs::metadata(shop.folder.path().join("big")).unwrap().len(), 1000);
}

#[test]
fn a_command_begins_with_nothing_but_what_it_is_given() {
    let shop = Shop::open();
    assert_eq!(
        shop.says("echo /proc/self/fd/*"),
        "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"
    );
    let environment = shop.says("env");
    let mut names: Vec<&str> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    let given = "CI DEBIAN_FRONTEND GIT_PAGER GIT_TERMINAL_PROMPT HOME LANG LC_ALL LOGNAME NO_COLOR PAGER PATH SHELL TERM TMPDIR TZ USER";
    assert_eq!(names, given.split(' ').collect::<Vec<_>>());
    let places = shop.says("ls /; ls /mnt; ls -A /tmp; ls /dev");
    assert!(!places.contains("root\n") && !places.contains("home\nlib"), "{places}");
    // And nothing of one command is there for the next.
    assert_eq!(shop.says("echo x > /tmp/left; echo x > /dev/shm/left; echo x > ~/left; echo done"), "done\n");
    assert_eq!(shop.says("ls /tmp/left /dev/shm/left ~/left 2>/dev/null; echo none"), "none\n");
}

#[test]
fn a_cover_whose_place_is_not_what_it_was_stops_everything() {
    let shop = Shop::open();
    shop.write("target", secret("denied"));
    std::os::unix::fs::symlink("target", shop.folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", shop.folder.path().join("folder")).unwrap();
    for path in ["missing", "folder/passwd", "target/below"] {
        let covers = [
            Cover::Hide { path: path.into(), directory: false },
            Cover::Freeze { path: path.into() },
            Cover::Replace { path: path.into(), content: b"x".to_vec() },
        ];
        for cover in covers {
            let mut job = shop.shell("echo ran > ran");
            job.mounts[0].covers.push(cover);
            let refused = shop.run(&job).map(|ran| ran.ended).unwrap_err();
            assert!(matches!(refused, SandboxError::Changed { .. }), "{path}: {refused}");
        }
    }
    assert!(!shop.folder.path().join("ran").exists());
    // A link is covered itself, wherever it leads.
    let mut job = shop.shell("cat link; rm -f link; mv link moved; echo x > link; readlink link; cat target");
    job.mounts[0].covers.push(Cover::Hide { path: "link".into(), directory: false });
    job.mounts[0].covers.push(Cover::Hide { path: "target".into(), directory: false });
    let ran = shop.run(&job).unwrap();
    assert_eq!(ran.text(), "", "{:?}", String::from_utf8_lossy(&ran.error));
    assert_eq!(std::fs::read_link(shop.folder.path().join("link")).unwrap(), Path::new("target"));
    assert_eq!(std::fs::read_to_string(shop.folder.path().join("target")).unwrap(), secret("denied"));
}

#[test]
fn the_only_way_out_is_the_one_that_is_given() {
    let shop = Shop::open();
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{PROXY_PORT} && cat <&3; echo > /dev/tcp/127.0.0.1/{} && echo ESCAPED",
        elsewhere.local_addr().unwrap().port()
    );
    // The handles that processes take along which are started meanwhile.
    let inherited = Mutex::new(Vec::new());
    let serve = |listener: std::net::TcpListener| -> std::io::Result<Box<dyn Send>> {
        inherited.lock().unwrap().push(listener.try_clone()?);
        let served =
            std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"through\n").unwrap());
        Ok(Box::new(served))
    };
    let proxied = Job { network: Network::Proxied(&serve), ..shop.job("bash", &["-c", &line]) };
    for _ in 0..3 {
        assert_eq!(shop.run(&proxied).unwrap().text(), "through\n");
        // The next command is in the same network, and finds nobody there.
        let alone = shop.run(&shop.job("bash", &["-c", &line])).unwrap();
        assert_eq!((alone.text().as_str(), alone.ended.exit), ("", Exit::Code(1)));
    }
}

#[test]
fn a_command_ends_with_its_gate() {
    for handed in [false, true] {
        ends_with_its_gate(handed);
    }
}

fn ends_with_its_gate(handed: bool) {
    let host = Host::new(Who::Root, false);
    let ready = host.path("w/ready");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &ready, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut order = Order { handed, ..host.order("echo $$ > ready; exec sleep 300") };
    order.environment.push(host.mark());
    let mut gate = Command::new(tools().attacker())
        .arg("gate")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    gate.stdin.take().unwrap().write_all(serde_json::to_string(&order).unwrap().as_bytes()).unwrap();
    let mut line = String::new();
    File::open(&ready).unwrap().read_to_string(&mut line).unwrap();
    let left = host.left_running();
    assert!(!left.is_empty(), "nothing was started");
    let handles = left
        .iter()
        .map(|process| rustix::process::pidfd_open(*process, rustix::process::PidfdFlags::empty()).unwrap());
    let handles: Vec<_> = handles.collect();
    gate.kill().unwrap();
    gate.wait().unwrap();
    for handle in &handles {
        let mut polled = [rustix::event::PollFd::new(handle, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&patience)).unwrap(), 1, "it outlived its gate");
    }
}

/// Every namespace, by its word.
const NAMESPACES: [&str; 7] = [
    "user_namespace",
    "pid_namespace",
    "mount_namespace",
    "network_namespace",
    "ipc_namespace",
    "uts_namespace",
    "private_proc",
];

/// What commands try where there is no namespace, and must not be able to.
const PRISON: &str = "cat $OUTSIDE/secret.txt; echo x > $OUTSIDE/new; kill -9 $NEIGHBOUR; \
    bash -c 'echo > /dev/tcp/127.0.0.1/'$TCP; $ATTACKER connect $OUTSIDE/run/docker.sock; \
    $ATTACKER abstract $ABSTRACT; cat /proc/$GATE/environ; echo in > inside; cat inside; echo ran";

#[test]
fn without_namespaces_the_other_layers_still_hold() {
    for who in [Who::Root, Who::User].into_iter().filter(|who| who.is_possible()) {
        let mut host = Host::new(who, false);
        let mut order = host.order(PRISON);
        order.without = NAMESPACES.map(str::to_owned).to_vec();
        // Whoever requires them gets a refusal, and so does whoever has something to hide.
        let covered = Order { require: Some(Vec::new()), ..order.clone() };
        let refused = host.carry_out(covered).refused.unwrap();
        assert!(refused.contains("must be protected"), "{refused}");
        for place in &mut order.mounts {
            place.covers.clear();
        }
        order.require = Some(Vec::new());
        let report = host.carry_out(order);
        assert_eq!((report.output.as_str(), report.code), ("in\nran\n", Some(0)), "{report:?}");
        assert_eq!(crate::sandbox_table::damage(&mut host, &report), Vec::<String>::new(), "{report:?}");
    }
}

/// A sandbox inside a sandbox.
fn nested(host: &Host, order: &Order) -> Report {
    let order = serde_json::to_string(order).unwrap();
    assert!(!order.contains('\''));
    let outer = host.carry_out(host.order(&format!("echo '{order}' | ${{ATTACKER% escape}} gate")));
    assert_eq!(outer.refused, None);
    serde_json::from_str(&outer.output).unwrap_or_else(|error| panic!("{error}: {outer:?}"))
}

#[test]
fn a_sandbox_in_a_sandbox_says_what_it_lacks() {
    for who in [Who::Root, Who::User].into_iter().filter(|who| who.is_possible()) {
        let host = Host::new(who, false);
        let mut order = Order {
            program: "/bin/sh".to_owned(),
            arguments: vec![
                "-c".to_owned(),
                "echo inner; echo x > /mnt/project/outer; ls /mnt/project".to_owned(),
            ],
            directory: "/usr".into(),
            secret: secret("gate").to_owned(),
            ..Order::default()
        };
        let refused = nested(&host, &order).refused.unwrap();
        for layer in ["user_namespace", "mount_namespace", "network_namespace", "private_proc"] {
            assert!(refused.contains(layer), "{refused}");
        }
        assert!(!refused.contains("landlock") && !refused.contains("seccomp"), "{refused}");
        assert!(!refused.contains(host.path("w").to_str().unwrap()), "{refused}");
        // Who asks for less gets what there is: Landlock and the filter, once more.
        order.require = Some(["landlock", "seccomp", "no_new_privileges"].map(str::to_owned).to_vec());
        let report = nested(&host, &order);
        assert_eq!(report.output, "inner\n", "{report:?}");
        assert!(!Path::new(&host.path("w/outer")).exists());
    }
}
