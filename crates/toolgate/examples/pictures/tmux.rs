//! A session of tmux, with a program in its only pane: what a person sees whose terminal multiplexer stands between.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::day::Terminal;

/// The timeout for everything awaited.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Nothing of the person's own configuration; the pane stays when its program has ended.
const CONFIG: &str = "set -g status off\nset -g remain-on-exit on\nset -g remain-on-exit-format ''\nset -g history-limit 20000\n\
                      set -g default-terminal tmux-256color\nset -g escape-time 0\n";

pub(crate) struct Tmux {
    socket: PathBuf,
    rows: u16,
    columns: u16,
    _place: tempfile::TempDir,
}

impl Tmux {
    pub(crate) fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let place = tempfile::Builder::new().prefix("tmux").tempdir().unwrap();
        let config = place.path().join("tmux.conf");
        std::fs::write(&config, CONFIG).unwrap();
        let session = Self { socket: place.path().join("socket"), rows, columns, _place: place };
        let size = [columns.to_string(), rows.to_string()];
        let mut start = Command::new("tmux");
        start.arg("-S").arg(&session.socket).arg("-f").arg(&config);
        start.args(["-u", "new-session", "-d", "-x", &size[0], "-y", &size[1]]);
        if let Some(folder) = command.get_current_dir() {
            start.arg("-c").arg(folder);
        }
        start.env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").env_remove("TMUX");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        start.arg("--").arg(command.get_program()).args(command.get_args());
        assert!(start.status().unwrap().success(), "tmux starts");
        session
    }

    /// What a command of tmux prints.
    fn ask(&self, arguments: &[&str]) -> Vec<u8> {
        let mut tmux = Command::new("tmux");
        let output =
            tmux.arg("-S").arg(&self.socket).args(arguments).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "tmux {arguments:?}");
        output.stdout
    }

    fn is_dead(&self) -> bool {
        String::from_utf8(self.ask(&["list-panes", "-F", "#{pane_dead}"])).unwrap().trim() == "1"
    }
}

impl Terminal for Tmux {
    fn press(&mut self, keys: &str) {
        let keys: Vec<String> = keys.bytes().map(|byte| format!("{byte:02x}")).collect();
        let arguments: Vec<&str> =
            ["send-keys", "-H"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        self.ask(&arguments);
    }

    fn shown(&self) -> String {
        let text = String::from_utf8(self.ask(&["capture-pane", "-p"])).unwrap();
        let rows = text.lines().map(|row| row.trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n").trim_end_matches('\n').to_owned()
    }

    fn everything(&self) -> Vec<u8> {
        self.ask(&["capture-pane", "-p", "-e", "-S", "-"])
    }

    fn wait(&mut self, what: &str, is_there: &dyn Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let shown = self.shown();
            if is_there(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline && !self.is_dead(), "{what} does not come:\n{shown}");
            self.step(what);
        }
    }

    /// tmux sends no event when something is written.
    fn step(&mut self, _: &str) {
        std::thread::sleep(Duration::from_millis(20));
    }

    fn has_ended_well(&mut self) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        while !self.is_dead() {
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.shown());
            self.step("its end");
        }
        // The terminal may be closed before tmux knows the exit code.
        let status = String::from_utf8(self.ask(&["list-panes", "-F", "#{pane_dead_status}"])).unwrap();
        ["", "0"].contains(&status.trim())
    }

    fn screen(&mut self) -> vt100::Screen {
        // Two looks that agree: nothing is being drawn.
        let mut rows = self.ask(&["capture-pane", "-p", "-e"]);
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(100));
            let next = self.ask(&["capture-pane", "-p", "-e"]);
            if next == rows {
                break;
            }
            rows = next;
        }
        let positive = |count: u16| std::num::NonZero::new(count).unwrap();
        let mut parser = vt100::Parser::new(positive(self.rows), positive(self.columns), 0);
        let text = String::from_utf8(rows).unwrap();
        let mut lines = text.trim_end_matches('\n').split('\n');
        let _ = parser.write_all(lines.next().unwrap_or_default().as_bytes());
        for line in lines {
            let _ = parser.write_all(b"\r\n");
            let _ = parser.write_all(line.as_bytes());
        }
        parser.screen().clone()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").status();
    }
}
