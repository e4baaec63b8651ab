//! Programs on a pseudo-terminal, and the processor time that they take.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The unit of times in `/proc/PID/stat`, fixed in the interface of the kernel.
const TICK: Duration = Duration::from_millis(10);

/// How much of the output is searched for the next text.
const MAX_TAIL_BYTES: usize = 4096;

/// Runs a program to its end on a terminal of 40 rows, and returns its processor time. Each key is pressed once the text before it was shown.
///
/// # Panics
/// It cannot be run.
pub fn processor_time(command: &Command, keys: &[(&str, &str)]) -> Duration {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let no_terminal = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).custom_flags(no_terminal).open(name).unwrap();
    // `setsid` execs the program, so its pid is the program's.
    let mut starter = Command::new("setsid");
    starter.arg("--ctty").arg(command.get_program()).args(command.get_args());
    starter.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    starter.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        starter.current_dir(directory);
    }
    starter.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = starter.spawn().unwrap();
    // With it go the last handles of the terminal in this process: reading then fails with `EIO` once the program has ended.
    drop(starter);
    let mut terminal = File::from(master);
    let (mut tail, mut buffer, mut keys) = (Vec::new(), [0; 64 * 1024], keys.iter());
    let mut next = keys.next();
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        tail.extend_from_slice(buffer.get(..count).unwrap_or_default());
        while let Some((text, key)) = next
            && let Some(place) = tail.windows(text.len()).position(|part| part == text.as_bytes())
        {
            terminal.write_all(key.as_bytes()).unwrap();
            tail.drain(..place + text.len());
            next = keys.next();
        }
        tail.drain(..tail.len().saturating_sub(MAX_TAIL_BYTES));
    }
    let time = time_of_ended(child.id());
    assert!(child.wait().unwrap().success() && next.is_none(), "it ended early");
    time
}

/// The processor time of a child that has ended and was not waited for.
fn time_of_ended(pid: u32) -> Duration {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks = |place: usize| fields.get(place).unwrap().parse::<u32>().unwrap();
        if fields.first() == Some(&"Z") {
            return TICK * (ticks(11) + ticks(12));
        }
        std::thread::yield_now();
    }
}
