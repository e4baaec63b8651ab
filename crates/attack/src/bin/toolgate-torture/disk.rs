//! Disks: a power cut, and a full disk. Both with workspace and state on a new ext4 filesystem, on a loop device.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use toolgate_attack::{CHANGES, Scratch, spread};

use crate::gate::{Gate, Program, refusal};
use crate::load::Load;
use crate::place::Place;

/// `EXT4_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)`.
const SHUTDOWN: u64 = 0x8004_587d;
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: what is not in the filesystem's own journal yet is lost, as in a power cut.
const WITHOUT_FLUSHING: u32 = 2;

/// A filesystem of its own.
struct Disk {
    scratch: Scratch,
}

impl Disk {
    fn new(size: u64) -> Self {
        let scratch = Scratch::new();
        let image = File::create(scratch.path().join("image")).unwrap();
        image.set_len(size).unwrap();
        must(
            Command::new("mkfs.ext4")
                .args(["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
                .arg(scratch.path().join("image")),
        );
        std::fs::create_dir(scratch.path().join("disk")).unwrap();
        let disk = Self { scratch };
        disk.mount();
        disk
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("disk")
    }

    fn mount(&self) {
        must(
            Command::new("mount")
                .args(["-o", "loop"])
                .arg(self.scratch.path().join("image"))
                .arg(self.root()),
        );
    }

    /// Waits until the filesystem is no longer in use: a command of a killed gate ends a moment later, in a mount namespace of its own, and while it
    /// exists the next mount is the same filesystem, which is shut down.
    fn unmount(&self) {
        must(Command::new("umount").arg(self.root()));
        let uses =
            || Command::new("losetup").arg("-j").arg(self.scratch.path().join("image")).output().unwrap();
        while !uses().stdout.is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn cut_power(&self) {
        let (root, how) = (File::open(self.root()).unwrap(), WITHOUT_FLUSHING);
        #[expect(unsafe_code, reason = "no crate has this request of ext4")]
        // SAFETY: the request reads one `u32` through the pointer, which outlives the call.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN as _, &raw const how) };
        assert_eq!(done, 0, "the filesystem cannot be shut down: {}", std::io::Error::last_os_error());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.root()).status();
    }
}

fn must(command: &mut Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// How many power cuts per filesystem.
const CUTS_PER_DISK: u64 = 5;

#[derive(Default)]
struct Cuts {
    calls: usize,
    answered: usize,
    changes: usize,
    lost: usize,
}

pub(crate) fn power_cuts(program: &Program, power_cuts: u64) -> String {
    let (mut cut, mut cuts) = (0, Cuts::default());
    while cut < power_cuts {
        let disk = Disk::new(128 << 20);
        let mut place = Place::at(&disk.root(), &["a"]);
        place.settings.environment = vec![("HOME".to_owned(), disk.root().to_string_lossy().into_owned())];
        for _ in 0..CUTS_PER_DISK.min(power_cuts - cut) {
            cut += 1;
            // With `warn` no fsync is waited for, so answered calls may be lost; what is there must be intact, and the next gate must start.
            place.settings.on_failure = if cut % 5 == 4 { "warn" } else { "deny" };
            cut_once(program, &disk, &place, cut, &mut cuts);
        }
    }
    let Cuts { calls, answered, changes, lost } = cuts;
    format!(
        "{cut} power cuts: {calls} calls, {answered} answered with `deny`, all of them on the disk with their records; {lost} of {changes} changes cannot be undone any more"
    )
}

fn cut_once(program: &Program, disk: &Disk, place: &Place, cut: u64, cuts: &mut Cuts) {
    // The files that the very first gate creates, such as its keys, meet a power cut without any other `sync`.
    let is_first = !place.settings.state.join("audit").exists();
    let kept_before = if is_first { 0 } else { place.settings.changes(program) };
    rustix::fs::sync();
    let (gate, client) = Gate::open(program, &place.settings);
    let load = Load::begin(client, place, "a", format!("p{cut}"));
    std::thread::sleep(Duration::from_millis(100 + (spread(cut) * 400.0) as u64));
    load.loses_power();
    disk.cut_power();
    gate.kill();
    let diary = load.gone();
    disk.unmount();
    disk.mount();
    let (_gate, _client) = Gate::open(program, &place.settings);
    place.verify(program);
    if place.settings.on_failure == "warn" {
        let _ = CHANGES.map(|change| change.version(&place.settings.workspace, "a"));
        return;
    }
    let is_change = |id: &String| diary.begun.get(id).is_some_and(Option::is_some);
    let made = diary.answered.iter().filter(|(id, answer)| answer.is_ok() && is_change(id)).count();
    let sums = place.judge(&[("a", diary)]);
    // A call during the cut is refused, and so are calls to the same gate until it is killed.
    cuts.calls += sums.begun;
    cuts.answered += sums.answered;
    cuts.changes += made;
    cuts.lost += made.saturating_sub(place.settings.changes(program).saturating_sub(kept_before));
}

pub(crate) fn full(program: &Program) -> String {
    let mut told = Vec::new();
    for on_failure in ["deny", "warn"] {
        let disk = Disk::new(64 << 20);
        let writers = ["a", "b"];
        let mut place = Place::at(&disk.root(), &writers);
        place.settings.on_failure = on_failure;
        // Two gates share the audit log, the undo journal and the disk.
        let loads = writers.map(|writer| {
            let (gate, client) = Gate::open(program, &place.settings);
            (gate, writer, Load::begin(client, &place, writer, format!("f-{on_failure}-{writer}")))
        });
        std::thread::sleep(Duration::from_millis(200));
        fill(&disk.root().join("filler"));
        std::thread::sleep(Duration::from_millis(500));
        std::fs::remove_file(disk.root().join("filler")).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let diaries = loads.map(|(_gate, writer, load)| (writer, load.end()));
        let answers = diaries.iter().flat_map(|(_, diary)| diary.answered.values());
        let refused = answers.filter(|answer| answer.is_err()).count();
        let (gate, mut client) = Gate::open(program, &place.settings);
        let again = client.call("after", "write_file", json!({"path": "after.txt", "content": "x"})).unwrap();
        assert_eq!(refusal(&again), None, "{on_failure}: after the disk has room again");
        drop(gate);
        let sums = place.judge(&diaries);
        let missing = place.gaps(program);
        assert_eq!(missing, sums.unrecorded, "calls that the record says it lacks, and those it lacks");
        told.push(format!(
            "{on_failure}: {} answered, {refused} of them refused, {missing} without a record as the record says",
            sums.answered
        ));
    }
    told.join("; ")
}

/// `fdatasync` fails. A command whose intent is not on the disk does not start, and a new gate on a healthy disk works.
pub(crate) fn failed_sync(program: &Program) -> String {
    let mut place = Place::new(&[]);
    // The very first gate writes the journal's version, and does not start if that cannot be synced.
    drop(Gate::open(program, &place.settings));
    let inject = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fdatasync",
        "-e",
        "inject=fdatasync:error=EIO",
    ];
    place.settings.wrapper = inject.map(str::to_owned).to_vec();
    let (gate, mut client) = Gate::open(program, &place.settings);
    for (id, tool, arguments) in [
        ("command", "run_command", json!({"command": "touch ran.txt"})),
        ("write", "write_file", json!({"path": "ran.txt", "content": "x"})),
        ("again", "run_command", json!({"command": "touch ran.txt"})),
    ] {
        let refused = refusal(&client.call(id, tool, arguments).unwrap());
        assert!(refused.is_some_and(|text| text.contains("audit_unavailable")), "{id} was not refused");
        assert!(!place.settings.workspace.join("ran.txt").exists(), "{id} had its effect");
    }
    drop((gate, client));
    place.settings.wrapper.clear();
    let (_gate, mut client) = Gate::open(program, &place.settings);
    let made = client.call("after", "run_command", json!({"command": "touch ran.txt"})).unwrap();
    assert_eq!(refusal(&made), None);
    assert!(place.settings.workspace.join("ran.txt").exists());
    place.verify(program);
    "commands and changes are refused and have no effect; the next gate works".to_owned()
}

/// Fills the disk to the last byte.
fn fill(at: &Path) {
    use std::io::Write as _;
    let mut filler = File::create(at).unwrap();
    for size in [1 << 20, 4096, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
}
