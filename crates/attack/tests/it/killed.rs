//! Processes that are killed during calls, and the recovery by the next start.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use toolgate_attack::{Bench, BenchOptions, CHANGES, Diary, Scratch, litter_below, spread};
use toolgate_audit::Record;
use toolgate_tools::Profile;
use toolgate_types::{CallId, Decision, ErrorCode};

/// A process that writes until it is killed.
struct Writer {
    name: &'static str,
    process: Child,
    told: BufReader<ChildStdout>,
    diary: Diary,
}

impl Writer {
    fn start(place: &Place, name: &'static str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_toolgate-attacker"))
            .args([Path::new("write"), &place.workspace, &place.state, Path::new(name)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(process.stdout.take().unwrap());
        Self { name, process, told, diary: Diary::default() }
    }

    /// Reads this many lines.
    fn listen(&mut self, lines: u64) {
        for _ in 0..lines {
            assert!(self.hear(), "the writer {} ended by itself", self.name);
        }
    }

    fn hear(&mut self) -> bool {
        let mut line = String::new();
        let heard = self.told.read_line(&mut line).unwrap() > 0;
        self.diary.read(&line);
        heard
    }

    /// Kills it, and reads the rest of its output.
    fn kill(mut self) -> Diary {
        self.process.kill().unwrap();
        while self.hear() {}
        assert!(self.process.wait().unwrap().code().is_none(), "the writer {} ended by itself", self.name);
        std::mem::take(&mut self.diary)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Place {
    _scratch: Scratch,
    workspace: PathBuf,
    state: PathBuf,
}

impl Place {
    fn new(writers: &[&str]) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        for writer in writers {
            std::fs::create_dir(workspace.join(format!("{writer}-patched"))).unwrap();
            CHANGES.iter().for_each(|change| change.begin(&workspace, writer));
        }
        Self { _scratch: scratch, workspace, state }
    }

    /// The next start.
    fn start(&self) -> Bench {
        BenchOptions::new(Profile::NATIVE, &self.workspace, &self.state).open()
    }

    fn pending(&self) -> usize {
        std::fs::read_dir(self.state.join("journal.toolgate/pending")).unwrap().count()
    }

    /// Blobs of calls that left no entry.
    fn orphaned_blobs(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.state.join("journal.toolgate/blobs")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_orphan = |blob: &String| {
            let call = blob.rsplit_once('.').unwrap().0;
            !self.state.join(format!("journal.toolgate/done/{call}.json")).exists()
        };
        names.filter(is_orphan).collect()
    }
}

/// Every call in the log has the record that matches its files.
fn judge(place: &Place, writer: &str, diary: &Diary, records: &BTreeMap<CallId, Vec<Record>>) {
    let versions: BTreeMap<_, u64> =
        CHANGES.into_iter().map(|change| (change, change.version(&place.workspace, writer))).collect();
    for (call, (change, to)) in &diary.begun {
        let is_visible = versions[change] >= *to;
        let of_call = records.get(call).map(Vec::as_slice).unwrap_or_default();
        assert!(of_call.len() <= 1, "{writer} {change:?} {to}: {} records", of_call.len());
        let decision = of_call.first().map(|record| record.decision);
        let code = of_call.first().and_then(|record| record.denial.as_ref()).map(|denial| denial.code);
        if diary.answered.contains(call) {
            assert_eq!(decision, Some(Decision::Allowed), "{writer} {change:?} {to} was answered");
        }
        match decision {
            Some(Decision::Allowed) => {
                assert!(is_visible, "{writer} {change:?} {to} was allowed and is gone")
            }
            Some(_) => {
                assert_eq!(code, Some(ErrorCode::Interrupted), "{writer} {change:?} {to}");
                let reason =
                    of_call.first().and_then(|record| record.denial.as_ref()).map(|denial| &denial.reason);
                let says_that_it_stays = reason.is_some_and(|reason| reason.contains("and stay"));
                assert_eq!(says_that_it_stays, is_visible, "{writer} {change:?} {to}: {reason:?}");
                let is_listed = place.state.join(format!("journal.toolgate/done/{call}.json")).exists();
                assert_eq!(
                    says_that_it_stays, is_listed,
                    "{writer} {change:?} {to}: `changes` says otherwise"
                );
            }
            None => assert!(!is_visible, "{writer} {change:?} {to} has an effect and no record"),
        }
    }
}

fn is_clean(place: &Place, what: &str) {
    assert_eq!(litter_below(&place.workspace), Vec::<PathBuf>::new(), "{what}: litter");
    assert_eq!(place.pending(), 0, "{what}: pending entries");
    assert_eq!(place.orphaned_blobs(), Vec::<String>::new(), "{what}: orphaned content");
}

#[test]
fn a_killed_writer_leaves_old_or_new_and_one_record_for_each_call() {
    /// How many calls must be hit in the middle, and how many kills that may take.
    const HITS: usize = 500;
    const KILLS: u64 = 3000;
    // The audit log grows with every call; a fresh directory now and then keeps reading it cheap.
    const KILLS_PER_PLACE: u64 = 60;
    let mut place = Place::new(&["a"]);
    let (mut kills, mut begun, mut answered, mut interrupted) = (0, 0, 0, 0);
    while interrupted < HITS && kills < KILLS {
        let kill = kills;
        kills += 1;
        if kills % KILLS_PER_PLACE == 0 {
            place.start().verify_audit();
            place = Place::new(&["a"]);
        }
        let mut writer = Writer::start(&place, "a");
        // At least one call is in flight, then any moment of the next ones.
        writer.listen(1 + kill % 12);
        std::thread::sleep(Duration::from_micros((spread(kill) * 3000.0) as u64));
        let diary = writer.kill();
        let bench = place.start();
        is_clean(&place, &format!("after kill {kill}"));
        judge(&place, "a", &diary, &bench.records());
        begun += diary.begun.len();
        answered += diary.answered.len();
        interrupted += bench.interrupted().len();
    }
    let bench = place.start();
    bench.verify_audit();
    println!(
        "{kills} kills: {begun} calls begun, {answered} answered, {interrupted} interrupted and recorded"
    );
    assert!(interrupted >= HITS, "only {interrupted} calls were hit in the middle");
}

#[test]
fn a_start_beside_a_living_writer_leaves_its_calls_alone() {
    const KILLS: u64 = 40;
    let place = Place::new(&["dies", "lives"]);
    let mut living = Writer::start(&place, "lives");
    living.listen(1);
    for kill in 0..KILLS {
        // Each start recovers from the last kill while the other writer is in the middle of a call.
        let mut dying = Writer::start(&place, "dies");
        dying.listen(1 + kill % 7);
        std::thread::sleep(Duration::from_micros((spread(kill) * 3000.0) as u64));
        let diary = dying.kill();
        judge(&place, "dies", &diary, &place.start().records());
        living.listen(6);
    }
    let diary = living.kill();
    let bench = place.start();
    is_clean(&place, "at the end");
    judge(&place, "lives", &diary, &bench.records());
    bench.verify_audit();
    println!("{KILLS} kills beside a writer that made {} calls", diary.answered.len());
}
