//! What a command starts with: its program, arguments, mounts and network, and nothing else.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolgate_sandbox::{Exit, Job, Network, PROXY_PORT, SandboxError};
use toolgate_types::{ErrorCode, MountOverlay};

use super::Shop;
use crate::sandbox_host::secret;

#[test]
fn what_cannot_be_run_is_said_to_be_so() {
    let shop = Shop::open();
    shop.write("plain.txt", "plain\n");
    // Written by another process: a concurrently forked child could inherit a descriptor of this one, and executing a file that is open for writing
    // fails with `ETXTBSY`.
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
            MountOverlay::Mask { path: path.into(), directory: false },
            MountOverlay::ReadOnly { path: path.into() },
            MountOverlay::Substitute { path: path.into(), content: b"x".to_vec() },
        ];
        for cover in covers {
            let mut job = shop.shell("echo ran > ran");
            job.mounts[0].overlays.push(cover);
            let refused = shop.run(&job).map(|ran| ran.ended).unwrap_err();
            assert!(matches!(refused, SandboxError::Changed { .. }), "{path}: {refused}");
        }
    }
    assert!(!shop.folder.path().join("ran").exists());
    // A symlink is masked itself, wherever it leads.
    let mut job = shop.shell("cat link; rm -f link; mv link moved; echo x > link; readlink link; cat target");
    job.mounts[0].overlays.push(MountOverlay::Mask { path: "link".into(), directory: false });
    job.mounts[0].overlays.push(MountOverlay::Mask { path: "target".into(), directory: false });
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
    // Duplicates of the listener, as processes that are forked concurrently hold them.
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
        // The next command is in the same network namespace, and finds no server there.
        let alone = shop.run(&shop.job("bash", &["-c", &line])).unwrap();
        assert_eq!((alone.text().as_str(), alone.ended.exit), ("", Exit::Code(1)));
    }
}

#[test]
fn a_proxy_starts_with_the_first_connection_and_inherits_none() {
    let shop = Shop::open();
    let (started, accepted) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Accepts whatever waits, and nothing else.
    let serve = |listener: std::net::TcpListener| -> std::io::Result<Box<dyn Send>> {
        started.fetch_add(1, Ordering::Relaxed);
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nonblocking(false)?;
            let mut said = [0; 4];
            stream.read_exact(&mut said)?;
            accepted.lock().unwrap().push(String::from_utf8_lossy(&said).into_owned());
        }
        Ok(Box::new(()))
    };
    let job = |line: &str| Job { network: Network::Proxied(&serve), ..shop.job("bash", &["-c", line]) };
    assert_eq!(shop.run(&job("echo quiet")).unwrap().text(), "quiet\n");
    assert_eq!(started.load(Ordering::Relaxed), 0, "a command that never connects has no proxy");
    // The first proxy leaves what comes later in the queue of the socket, which the next command uses again.
    let say = |what: &str| format!("exec {{fd}}<>/dev/tcp/127.0.0.1/{PROXY_PORT}; echo -n {what} >&$fd");
    let first = format!("{}; read -t 5 -u $fd; {}; {}", say("one1"), say("old1"), say("old2"));
    shop.run(&job(&first)).unwrap();
    shop.run(&job(&say("two1"))).unwrap();
    assert_eq!(started.load(Ordering::Relaxed), 2);
    assert_eq!(*accepted.lock().unwrap(), ["one1", "two1"]);
}
