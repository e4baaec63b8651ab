//! Kills the binary at random moments of a call, hundreds of times.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_attack::{CHANGES, Change, litter_below, spread, unfinish};
use toolgate_audit::{Record, args_digest};
use toolgate_types::{CallId, Decision, ErrorCode, Sha256};

use crate::fixture::CliFixture;

const WRITER: &str = "k";
/// The minimum number of killed calls, and of those that were interrupted midway.
const KILLS: u32 = 500;
const INTERRUPTIONS: u32 = 20;
/// More batches than this mean that the kills keep missing.
const MOST_BATCHES: u64 = 1000;

/// A started call, and its answer if it was not killed before.
struct Begun {
    change: Change,
    from: u64,
    args_hash: Sha256,
    answered: Option<CallId>,
}

impl Begun {
    /// Makes the next change of a kind, and kills its process after this time.
    fn make(place: &CliFixture, change: Change, patience: Duration) -> Self {
        let from = change.version(&place.workspace, WRITER);
        let (tool, arguments) = change.call(WRITER, from);
        let mut process = place
            .toolgate()
            .args(["call", tool, &arguments.to_string(), "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(patience);
        process.kill().unwrap();
        let output = process.wait_with_output().unwrap();
        let answered = output.status.code().map(|code| {
            let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(code, 0, "{envelope}");
            envelope["call"].as_str().unwrap().parse().unwrap()
        });
        let plain = Sha256::of(&serde_json::to_vec(&arguments).unwrap());
        // The process may have been killed before the key was created; then nothing is recorded.
        let args_hash = place.state_key().map_or(plain, |key| args_digest(&key, plain));
        Self { change, from, args_hash, answered }
    }

    /// Whether the state matches the audit log. Returns the outcome.
    fn judge(&self, place: &CliFixture, records: &[Record]) -> &'static str {
        let what = format!("{:?} to version {}", self.change, self.from + 1);
        let now = self.change.version(&place.workspace, WRITER);
        assert!(now == self.from || now == self.from + 1, "{what}: now at {now}");
        let is_visible = now > self.from;
        let of_call: Vec<&Record> =
            records.iter().filter(|record| record.request.args_hash == self.args_hash).collect();
        assert!(of_call.len() <= 1, "{what}: {} records", of_call.len());
        let record = of_call.first();
        if let Some(call) = self.answered {
            assert!(is_visible, "{what} was answered and is not there");
            assert_eq!(record.map(|record| record.trace_id), Some(call), "{what} was answered");
        }
        match record.map(|record| record.decision) {
            Some(Decision::Allowed) => {
                assert!(is_visible, "{what} was allowed and is not there");
                if self.answered.is_some() { ANSWERED } else { "killed after it was recorded" }
            }
            Some(_) => {
                let code = record.and_then(|record| record.denial.as_ref()).map(|denial| denial.code);
                assert_eq!(code, Some(ErrorCode::Interrupted), "{what}");
                let reason =
                    record.and_then(|record| record.denial.as_ref()).map(|denial| denial.reason.clone());
                let says_that_it_stays = reason.as_deref().is_some_and(|reason| reason.contains("and stay"));
                assert_eq!(says_that_it_stays, is_visible, "{what}: {reason:?}");
                INTERRUPTED
            }
            None => {
                assert!(!is_visible, "{what} has an effect and no record");
                "killed before it began"
            }
        }
    }
}

const ANSWERED: &str = "answered before the kill";
const INTERRUPTED: &str = "killed in the middle";

fn begin() -> CliFixture {
    let place = CliFixture::new();
    std::fs::create_dir(place.workspace.join(format!("{WRITER}-patched"))).unwrap();
    CHANGES.iter().for_each(|change| change.begin(&place.workspace, WRITER));
    place
}

/// The duration of a complete call here, with a margin.
fn typical_duration(place: &CliFixture) -> Duration {
    let mut durations: Vec<Duration> = Vec::new();
    for change in CHANGES.into_iter().cycle().take(3 * CHANGES.len()) {
        let (tool, arguments) = change.call(WRITER, change.version(&place.workspace, WRITER));
        let begun = Instant::now();
        let (code, envelope) = place.call(tool, &arguments);
        durations.push(begun.elapsed());
        assert_eq!(code, 0, "{envelope}");
    }
    durations.sort();
    durations[durations.len() / 2]
}

fn is_clean(place: &CliFixture, what: &str) {
    assert_eq!(litter_below(&place.workspace), Vec::<PathBuf>::new(), "{what}: litter");
    assert_eq!(place.pending(), 0, "{what}: pending entries");
}

#[test]
fn five_hundred_kills_leave_old_or_new_and_one_record_for_each_call() {
    let place = begin();
    let mut span = typical_duration(&place).mul_f64(1.5);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut known = place.records().len();
    for batch in 0..MOST_BATCHES {
        // Each call first recovers from the previous kill, and may be killed during that.
        let calls = CHANGES.into_iter().zip(batch * CHANGES.len() as u64..);
        let begun: Vec<Begun> =
            calls.map(|(change, moment)| Begun::make(&place, change, span.mul_f64(spread(moment)))).collect();
        place.must(&["changes"]);
        is_clean(&place, &format!("after batch {batch}"));
        let records = place.records();
        for begun in &begun {
            *counts.entry(begun.judge(&place, &records[known..])).or_default() += 1;
        }
        known = records.len();
        let count = |fate| counts.get(fate).copied().unwrap_or(0);
        let killed: u32 = counts.values().sum::<u32>() - count(ANSWERED);
        if killed >= KILLS && count(INTERRUPTED) >= INTERRUPTIONS {
            break;
        }
        // The machine may have become faster or slower since the last batch.
        let answered = begun.iter().filter(|begun| begun.answered.is_some()).count();
        span = span.mul_f64(if answered * 2 > begun.len() { 0.9 } else { 1.02 });
    }
    println!("{counts:?}");
    assert!(counts.get(INTERRUPTED).is_some_and(|count| *count >= INTERRUPTIONS), "{counts:?}");
    let verdict = place.run(&["audit", "verify"]);
    assert_eq!(verdict.status.code(), Some(0), "{verdict:?}");
}

#[test]
fn a_killed_undo_is_done_or_not_and_knows_which() {
    const AT_LEAST: u64 = 120;
    let place = CliFixture::new();
    let file = place.workspace.join("a.txt");
    std::fs::write(&file, "old\n").unwrap();
    let write = json!({"path": "a.txt", "content": "new\n"});
    assert_eq!(place.call("write_file", &write).0, 0);
    let begun = Instant::now();
    place.must(&["undo"]);
    let typical = begun.elapsed();
    let (mut undone, mut not_undone) = (0, 0);
    for kill in 0..10 * AT_LEAST {
        if kill >= AT_LEAST && undone > 0 && not_undone > 0 {
            break;
        }
        let (code, envelope) = place.call("write_file", &write);
        assert_eq!(code, 0, "{envelope}");
        let mut process =
            place.toolgate().arg("undo").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if kill % 2 == 0 {
            std::thread::sleep(typical.mul_f64(1.5 * spread(kill)));
        } else {
            // As soon as the effect is visible, or shortly after: that is when journal and log are updated.
            let is_undone = || std::fs::read(&file).unwrap() == b"old\n";
            while !is_undone() && process.try_wait().unwrap().is_none() {}
            std::thread::sleep(Duration::from_micros((spread(kill) * 300.0) as u64));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        let changes: Value = serde_json::from_str(&place.must(&["changes", "--json"])).unwrap();
        is_clean(&place, &format!("after kill {kill}"));
        let of_call: Vec<&Value> =
            changes.as_array().unwrap().iter().filter(|set| set["call"] == envelope["call"]).collect();
        assert_eq!(of_call.len(), 1, "kill {kill}: {changes}");
        let is_undone = !of_call[0]["undoneBy"].is_null();
        let expected = if is_undone { "old\n" } else { "new\n" };
        assert_eq!(std::fs::read_to_string(&file).unwrap(), expected, "kill {kill}");
        if is_undone {
            undone += 1;
        } else {
            not_undone += 1;
            place.must(&["undo"]);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "old\n", "kill {kill}");
        }
    }
    println!("{} kills: {undone} undone, {not_undone} not", undone + not_undone);
    assert!(undone > 0 && not_undone > 0);
    place.must(&["audit", "verify"]);
}

/// The journal entry of a call, as if its process had died between the change and its commit.
fn die_before_the_end(place: &CliFixture, call: &str) -> PathBuf {
    let journal = place.state.join("journal.toolgate");
    let name = format!("{call}.json");
    unfinish(&journal, call.parse().unwrap());
    journal.join("pending").join(name)
}

#[test]
fn a_killed_recovery_is_taken_up_by_the_next() {
    const FILES: u64 = 40;
    const ROUNDS: u64 = 12;
    let name = |file: u64| format!("folder/file-{file}.txt");
    let place = CliFixture::new();
    std::fs::create_dir(place.workspace.join("folder")).unwrap();
    (0..FILES).for_each(|file| std::fs::write(place.workspace.join(name(file)), "old\n").unwrap());
    let patch: String =
        (0..FILES).map(|file| format!("--- {0}\n+++ {0}\n@@ -1 +1 @@\n-old\n+new\n", name(file))).collect();
    let old = || -> usize {
        let contents =
            (0..FILES).map(|file| std::fs::read_to_string(place.workspace.join(name(file))).unwrap());
        let contents: Vec<String> = contents.collect();
        assert!(contents.iter().all(|content| content == "old\n" || content == "new\n"), "{contents:?}");
        contents.iter().filter(|content| *content == "old\n").count()
    };
    let mut in_the_middle = 0;
    for round in 0..ROUNDS {
        let (code, envelope) = place.call("apply_patch", &json!({"patch": patch}));
        assert_eq!(code, 0, "{envelope}");
        let entry = die_before_the_end(&place, envelope["call"].as_str().unwrap());
        let mut attempts = 0;
        while entry.exists() {
            let mut process =
                place.toolgate().arg("changes").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // Killed as soon as it has restored something, at a different moment each time.
            let before = old();
            while old() == before && entry.exists() && process.try_wait().unwrap().is_none() {}
            std::thread::sleep(Duration::from_micros((spread(round * 64 + attempts) * 400.0) as u64));
            process.kill().unwrap();
            process.wait().unwrap();
            in_the_middle += u32::from(entry.exists());
            attempts += 1;
        }
        place.must(&["changes"]);
        is_clean(&place, &format!("after round {round}"));
        assert_eq!(old(), FILES as usize, "after round {round}");
    }
    println!("{in_the_middle} recoveries killed in the middle");
    assert!(in_the_middle > 0);
}

#[test]
fn a_gate_that_is_killed_while_it_sweeps_the_journal_leaves_what_the_next_one_can_use() {
    const KILLS: u64 = 60;
    let place = CliFixture::new();
    place.write("toolgate.yaml", "retention: {undo: {max_bytes: 64KiB, max_entries: 8}}\n");
    let file = place.workspace.join("a.txt");
    let content = |number: u64| format!("{number:08}\n").repeat(1000);
    std::fs::write(&file, "original\n").unwrap();
    let write = |number| json!({"path": "a.txt", "content": content(number)}).to_string();
    let begun = Instant::now();
    let first = place.call("write_file", &serde_json::from_str(&write(0)).unwrap()).1;
    let typical = begun.elapsed();
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(place.state.join("journal.toolgate").join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    // Every call sweeps: with eight entries, a step is one.
    for kill in 1..=KILLS {
        let mut call = place.toolgate();
        call.args(["call", "write_file", &write(kill)]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = call.spawn().unwrap();
        std::thread::sleep(typical.mul_f64(1.2 * spread(kill)));
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let (code, last) = place.call("write_file", &serde_json::from_str(&write(KILLS + 1)).unwrap());
    assert_eq!(code, 0, "{last}");
    let changes: Value = serde_json::from_str(&place.must(&["changes", "--json"])).unwrap();
    is_clean(&place, "after the kills");
    assert!(changes.as_array().unwrap().len() <= 8, "{changes}");
    // Nothing is left of dropped entries, and nothing is missing of kept ones.
    let (done, blobs) = (names("done"), names("blobs"));
    for blob in &blobs {
        let call = blob.rsplit_once('.').unwrap().0;
        assert!(done.contains(&format!("{call}.json")), "{blob} is nobody's: {done:?}");
    }
    place.must(&["undo"]);
    let before = std::fs::read_to_string(&file).unwrap();
    assert!((0..=KILLS).any(|number| before == content(number)), "{before}");
    place.must(&["undo", "--force", "--call", first["call"].as_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "original\n");
    place.must(&["audit", "verify"]);
}
