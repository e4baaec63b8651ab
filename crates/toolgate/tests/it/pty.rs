//! A pseudo-terminal: takes keystrokes, and returns the content of the screen.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The timeout for everything awaited.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Pty {
    child: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All output, including what scrolled away.
    pub(crate) written: Vec<u8>,
}

impl Pty {
    /// Starts a program on a pseudo-terminal of its own.
    pub(crate) fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = PathBuf::from(ptsname(&master, Vec::new()).unwrap().into_string().unwrap());
        let no_terminal = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
        let slave = OpenOptions::new().read(true).write(true).custom_flags(no_terminal).open(name).unwrap();
        // `setsid` execs the program, so its pid is the program's.
        let mut starter = Command::new("setsid");
        starter.arg("--ctty").arg(command.get_program()).args(command.get_args());
        starter.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => starter.env(name, value),
                None => starter.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            starter.current_dir(folder);
        }
        starter.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = starter.spawn().unwrap();
        let keyboard = File::from(master);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails with `EIO` when the last process has closed the terminal.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let positive = |count: u16| std::num::NonZero::new(count).unwrap();
        let screen = vt100::Parser::new(positive(rows), positive(columns), 0);
        Self { child, keyboard, output, screen, written: Vec::new() }
    }

    /// Sends keystrokes: Enter is `\r`, Ctrl-C is `\x03`.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Gives the terminal another size. What was on the screen is not wrapped anew.
    #[allow(dead_code, reason = "not for the pictures")]
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
        let positive = |count: u16| std::num::NonZero::new(count).unwrap();
        self.screen.screen_mut().set_size(positive(rows), positive(columns));
    }

    /// The content of the screen, row by row: a line that the terminal wrapped takes two rows.
    pub(crate) fn shown(&self) -> String {
        let screen = self.screen.screen();
        let rows = screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n").trim_end_matches('\n').to_owned()
    }

    /// The screen with its colours.
    #[allow(dead_code, reason = "for the pictures")]
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Waits until nothing has been written for half a second, two seconds at most: a spinner never stops.
    #[allow(dead_code, reason = "for the pictures")]
    pub(crate) fn settle(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(2);
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(500)) {
            self.take(&bytes);
            if Instant::now() > deadline {
                return;
            }
        }
    }

    /// Waits until the screen contains a text, and returns the screen.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait(&format!("`{text}`"), |shown| shown.contains(text))
    }

    /// Waits until the screen satisfies the predicate.
    pub(crate) fn wait(&mut self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown();
            if is_there(&shown) {
                return shown;
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("{what} does not come:\n{shown}"),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended before {what} came:\n{shown}"),
            }
        }
    }

    /// Waits until more is written.
    pub(crate) fn step(&mut self, what: &str) {
        match self.output.recv_timeout(PATIENCE) {
            Ok(bytes) => self.take(&bytes),
            Err(_) => panic!("{what} does not come:\n{}", self.shown()),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.written.extend_from_slice(bytes);
    }

    /// Sends keys repeatedly until the program ends: on a busy machine, a second press may miss its time window.
    pub(crate) fn press_until_ended(&mut self, keys: &str) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            // The program may have ended.
            let _ = self.keyboard.write_all(keys.as_bytes());
            let next = Instant::now() + Duration::from_secs(1);
            loop {
                match self.output.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(bytes) => self.take(&bytes),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                }
            }
        }
        panic!("it does not end:\n{}", self.shown());
    }

    /// Waits for the end of the program.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(bytes) = self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.take(&bytes);
        }
        assert!(Instant::now() < deadline, "it does not end:\n{}", self.shown());
        self.child.wait().unwrap()
    }

    /// The pid of the program.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
