//! Every manipulation of the files, at every line: `verify` names the line and the kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;
use toolgate_audit::{IntegrityProblemKind, VerifyNote, VerifyOptions, verify};
use toolgate_types::Sha256;

use crate::fixture::{AuditFixture, alice, allowed, id, lines_of, verdict};

const DAYS: [&str; 3] = ["2026-11-15.jsonl", "2026-11-16.jsonl", "2026-11-18.jsonl"];
const PER_DAY: usize = 5;
/// After 4, 8 and 12 records, and at the end of each day.
const CHECKPOINTS: [usize; 6] = [4, 5, 8, 10, 12, 15];

/// The lines of a log's files by name.
type Files = BTreeMap<&'static str, Vec<String>>;

/// A valid log of three days.
fn sound() -> &'static Files {
    static SOUND: OnceLock<Files> = OnceLock::new();
    SOUND.get_or_init(|| {
        let place = AuditFixture::new();
        for (number, day) in DAYS.iter().enumerate() {
            place.set_clock(&format!("{}T12:00:00Z", &day[..10]));
            for line in 0..PER_DAY {
                // Reopened each time, so that checkpoints do not depend on thread scheduling.
                let options = toolgate_audit::LogOptions { checkpoint_every: 4, ..place.options() };
                let (log, _) =
                    toolgate_audit::AuditLog::open(options, &toolgate_types::StateKey::new([7; 32])).unwrap();
                log.append(&allowed(id((number * PER_DAY + line) as u64), &alice())).unwrap();
                drop(log);
            }
        }
        let mut files: Files = DAYS.iter().map(|day| (*day, place.lines(day))).collect();
        let wanted = |line: &String| {
            let seq =
                serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap() as usize;
            CHECKPOINTS.contains(&seq)
        };
        files.insert(
            "checkpoints.jsonl",
            place.lines("checkpoints.jsonl").into_iter().filter(wanted).collect(),
        );
        assert_eq!(files["checkpoints.jsonl"].len(), CHECKPOINTS.len());
        files
    })
}

struct Copy {
    scratch: TempDir,
}

impl Copy {
    fn of(files: &Files) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for (name, lines) in files {
            let content: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(scratch.path().join(name), content).unwrap();
        }
        Self { scratch }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn verdict(&self) -> String {
        verdict(&verify(self.scratch.path(), &VerifyOptions::default()).unwrap())
    }
}

/// Modifies a copy of the valid log and compares the verdict.
#[track_caller]
fn expect(change: impl FnOnce(&mut Files), verdict: &str) {
    let mut files = sound().clone();
    change(&mut files);
    assert_eq!(Copy::of(&files).verdict(), verdict);
}

/// Every line by its file and zero-based number.
fn every_line() -> impl Iterator<Item = (&'static str, usize)> {
    DAYS.into_iter().flat_map(|day| (0..PER_DAY).map(move |line| (day, line)))
}

fn lines<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<String> {
    files.get_mut(name).unwrap()
}

/// What an attacker without the key does to make a line look valid again.
fn rehash(line: &str, prev: Option<&str>) -> String {
    let (content, _) = line.split_once(",\"hash\":\"").unwrap();
    let mut content = content.to_owned();
    if let Some(prev) = prev {
        let start = content.find("\"prev\":\"").unwrap() + 8;
        content.replace_range(start..start + 64, prev);
    }
    let hash = Sha256::of(format!("toolgate.audit.record.v1\0{content}").as_bytes());
    format!("{content},\"hash\":\"{hash}\"}}")
}

fn hash_of(line: &str) -> String {
    line[line.len() - 66..line.len() - 2].to_owned()
}

#[test]
fn the_copy_itself_is_sound() {
    expect(|_| (), "sound");
    // Proves that `rehash` hashes lines as the log does.
    for (day, line) in every_line() {
        expect(|files| lines(files, day)[line] = rehash(&sound()[day][line], None), "sound");
    }
}

#[test]
fn a_changed_line() {
    for (day, line) in every_line() {
        let verdict = format!("{day}:{} changed", line + 1);
        expect(|files| lines(files, day)[line] = sound()[day][line].replace("alice", "mallo"), &verdict);
        expect(|files| lines(files, day)[line] = sound()[day][line].replace("ALLOWED", "DENIED"), &verdict);
        let hash = hash_of(&sound()[day][line]);
        let other = hash.replace(|digit: char| digit.is_ascii_digit(), "a");
        expect(|files| lines(files, day)[line] = sound()[day][line].replace(&hash, &other), &verdict);
    }
}

#[test]
fn a_line_that_is_no_record() {
    for (day, line) in every_line() {
        let verdict = format!("{day}:{} unparsable", line + 1);
        for garbage in ["", "garbage", "{}", "{\"seq\":1}", "\u{0}"] {
            expect(|files| lines(files, day)[line] = garbage.to_owned(), &verdict);
            expect(|files| lines(files, day).insert(line, garbage.to_owned()), &verdict);
        }
        let cut = |line: &str| line[..line.len() - 1].to_owned();
        expect(|files| lines(files, day)[line] = cut(&sound()[day][line]), &verdict);
        let unreadable = rehash(&sound()[day][line].replace("\"traceId\":\"", "\"traceId\":\"x"), None);
        expect(|files| lines(files, day)[line] = unreadable, &verdict);
        expect(|files| lines(files, day)[line] = "x".repeat(2 << 20), &verdict);
    }
}

#[test]
fn a_removed_line() {
    for (day, line) in every_line() {
        let is_last = (day, line) == (DAYS[2], PER_DAY - 1);
        let kind = if is_last { "cut" } else { "missing" };
        expect(|files| drop(lines(files, day).remove(line)), &format!("{day}:{} {kind}", line + 1));
    }
}

#[test]
fn several_removed_lines() {
    expect(|files| drop(lines(files, DAYS[0]).drain(1..4)), "2026-11-15.jsonl:2 missing");
    expect(|files| drop(lines(files, DAYS[1]).drain(..)), "2026-11-16.jsonl:1 missing");
    expect(|files| drop(lines(files, DAYS[2]).drain(2..)), "2026-11-18.jsonl:3 cut");
    expect(|files| drop(lines(files, DAYS[2]).drain(..)), "2026-11-18.jsonl:1 cut");
}

#[test]
fn a_repeated_line() {
    for (day, line) in every_line() {
        let again = sound()[day][line].clone();
        expect(
            |files| lines(files, day).insert(line + 1, again.clone()),
            &format!("{day}:{} repeated", line + 2),
        );
    }
    let first = sound()[DAYS[0]][0].clone();
    expect(|files| lines(files, DAYS[2]).push(first.clone()), "2026-11-18.jsonl:6 repeated");
    expect(|files| lines(files, DAYS[1]).insert(0, first.clone()), "2026-11-16.jsonl:1 repeated");
}

#[test]
fn an_added_line_that_fits_what_is_before_it() {
    for (day, line) in every_line() {
        let next = sound()[day].get(line + 1);
        let Some(next) = next else { continue };
        let forged = rehash(&next.replace("alice", "mallory"), None);
        // Detected by the checkpoint at this position if there is one, otherwise by the next line.
        let seq = DAYS.iter().position(|name| *name == day).unwrap() * PER_DAY + line + 2;
        let verdict = if CHECKPOINTS.contains(&seq) {
            format!("{day}:{} rewritten", line + 2)
        } else {
            format!("{day}:{} repeated", line + 3)
        };
        expect(|files| lines(files, day).insert(line + 1, forged), &verdict);
    }
}

#[test]
fn swapped_lines() {
    for (day, line) in every_line().filter(|(_, line)| line + 1 < PER_DAY) {
        expect(|files| lines(files, day).swap(line, line + 1), &format!("{day}:{} swapped", line + 1));
    }
    let (last, first) = (sound()[DAYS[0]][PER_DAY - 1].clone(), sound()[DAYS[1]][0].clone());
    expect(
        |files| {
            lines(files, DAYS[0])[PER_DAY - 1] = first;
            lines(files, DAYS[1])[0] = last;
        },
        "2026-11-15.jsonl:5 missing",
    );
}

#[test]
fn a_line_moved_to_the_day_beside() {
    let last = |files: &mut Files, day| lines(files, day).pop().unwrap();
    expect(
        |files| {
            let moved = last(files, DAYS[0]);
            lines(files, DAYS[1]).insert(0, moved);
        },
        "2026-11-16.jsonl:1 rewritten",
    );
    expect(
        |files| {
            let moved = lines(files, DAYS[1]).remove(0);
            lines(files, DAYS[0]).push(moved);
        },
        "2026-11-15.jsonl:6 wrong_day",
    );
}

#[test]
fn a_replaced_line_with_a_good_hash() {
    for (day, line) in every_line() {
        let number = DAYS.iter().position(|name| *name == day).unwrap();
        let seq = number * PER_DAY + line + 1;
        // The next line no longer follows it, unless a checkpoint detects it first.
        let verdict = match CHECKPOINTS.contains(&seq) {
            true => format!("{day}:{} rewritten", line + 1),
            false if line + 1 < PER_DAY => format!("{day}:{} unlinked", line + 2),
            false => format!("{}:1 unlinked", DAYS[number + 1]),
        };
        let forged = rehash(&sound()[day][line].replace("alice", "mallory"), None);
        expect(|files| lines(files, day)[line] = forged, &verdict);
    }
}

#[test]
fn history_rewritten_from_any_line_on() {
    for (start, (day, line)) in every_line().enumerate() {
        let change = |files: &mut Files| {
            lines(files, day)[line] = sound()[day][line].replace("alice", "mallory");
            let mut prev = None;
            for (day, line) in every_line().skip(start) {
                let forged = rehash(&files[day][line], prev.as_deref());
                prev = Some(hash_of(&forged));
                lines(files, day)[line] = forged;
            }
        };
        let seen = CHECKPOINTS.iter().find(|seq| **seq > start).unwrap() - 1;
        expect(change, &format!("{}:{} rewritten", DAYS[seen / PER_DAY], seen % PER_DAY + 1));
    }
}

#[test]
fn a_missing_day() {
    for day in DAYS {
        expect(|files| drop(files.remove(day)), &format!("{day}:1 day_missing"));
    }
    let all_gone = |files: &mut Files| files.retain(|name, _| *name == "checkpoints.jsonl");
    expect(all_gone, "2026-11-15.jsonl:1 day_missing");
    let renamed = |files: &mut Files| {
        let lines = files.remove(DAYS[1]).unwrap();
        files.insert("2026-11-17.jsonl", lines);
    };
    expect(renamed, "2026-11-17.jsonl:3 rewritten");
}

#[test]
fn a_cut_end_without_checkpoints_is_not_seen_and_the_report_says_so() {
    let mut files = sound().clone();
    files.remove("checkpoints.jsonl");
    lines(&mut files, DAYS[2]).pop();
    let copy = Copy::of(&files);
    let report = verify(copy.scratch.path(), &VerifyOptions::default()).unwrap();
    assert_eq!((verdict(&report).as_str(), report.records_after_checkpoint), ("sound", 14));
    assert!(report.notes.contains(&VerifyNote::NoCheckpoints));
}

#[test]
fn a_changed_checkpoint() {
    let name = "checkpoints.jsonl";
    for line in 0..CHECKPOINTS.len() {
        let original = &sound()[name][line];
        let number = line + 1;
        let field =
            |field: &str| serde_json::from_str::<serde_json::Value>(original).unwrap()[field].to_string();
        let signature = field("signature").replace(['1', '2', '3'], "4");
        expect(
            |files| lines(files, name)[line] = original.replace(&field("signature"), &signature),
            &format!("{name}:{number} checkpoint_forged"),
        );
        let hash = field("hash").replace(['1', '2', '3'], "4");
        expect(
            |files| lines(files, name)[line] = original.replace(&field("hash"), &hash),
            &format!("{name}:{number} checkpoint_forged"),
        );
        for garbage in ["", "garbage", &original.replace(',', ", "), &original.to_uppercase()] {
            expect(
                |files| lines(files, name)[line] = garbage.to_owned(),
                &format!("{name}:{number} checkpoint_unparsable"),
            );
        }
        expect(
            |files| lines(files, name).insert(line, original.clone()),
            &format!("{name}:{} checkpoint_disorder", number + 1),
        );
    }
    expect(|files| lines(files, name).swap(0, 1), "checkpoints.jsonl:2 checkpoint_disorder");
    // Any of them may be missing; the others cover its records too.
    expect(|files| drop(lines(files, name).remove(2)), "sound");
}

#[test]
fn checkpoints_signed_with_another_key() {
    let copy = Copy::of(sound());
    let check = |trusted| {
        let options = VerifyOptions { trusted, ..VerifyOptions::default() };
        verify(copy.scratch.path(), &options).unwrap()
    };
    let key = check(vec![]).keys[0];
    assert!(check(vec![]).notes.contains(&VerifyNote::KeyNotPinned));
    let report = check(vec![[9; 32].into(), key]);
    assert_eq!((verdict(&report).as_str(), &report.notes), ("sound", &vec![]));
    let report = check(vec![[9; 32].into()]);
    assert_eq!(verdict(&report), "checkpoints.jsonl:1 checkpoint_untrusted");
}

#[test]
fn a_call_with_two_records() {
    let place = AuditFixture::new();
    let log = place.open();
    for call in [1, 2, 3, 2, 1] {
        log.append(&allowed(id(call), &alice())).unwrap();
    }
    place.set_clock("2026-11-16T12:00:00Z");
    log.append(&allowed(id(3), &alice())).unwrap();
    log.close().unwrap();
    let problem = place.verify().problem.unwrap();
    assert_eq!((problem.line, problem.file.ends_with(DAYS[0])), (4, true));
    let expected =
        IntegrityProblemKind::SecondRecord { call: id(2), day: "2026-11-15".parse().unwrap(), line: 2 };
    assert_eq!(problem.kind, expected);
    // The first problem is named first, whatever its kind.
    let mut lines = place.lines(DAYS[0]);
    lines[2] = lines[2].replace("alice", "mallory");
    fs::write(place.file(DAYS[0]), lines.join("\n") + "\n").unwrap();
    assert_eq!(verdict(&place.verify()), "2026-11-15.jsonl:3 changed");
}

#[test]
fn an_unfinished_line() {
    let append = |path: &Path, text: &str| fs::write(path, fs::read_to_string(path).unwrap() + text).unwrap();
    let copy = Copy::of(sound());
    append(&copy.file(DAYS[2]), "{\"seq\":16,");
    let report = verify(copy.scratch.path(), &VerifyOptions::default()).unwrap();
    assert_eq!((verdict(&report).as_str(), report.records), ("sound", 15));
    assert!(report.notes.contains(&VerifyNote::UnfinishedLine { file: copy.file(DAYS[2]), line: 6 }));
    append(&copy.file("checkpoints.jsonl"), "{\"seq\":");
    assert_eq!(copy.verdict(), "sound");
    // In the middle of the log it is no accident.
    append(&copy.file(DAYS[0]), "{\"seq\":6,");
    assert_eq!(copy.verdict(), "2026-11-15.jsonl:6 unfinished");
    // Only the newline, of a line covered by a checkpoint.
    let copy = Copy::of(sound());
    let content = lines_of(&copy.file(DAYS[2])).join("\n");
    fs::write(copy.file(DAYS[2]), content).unwrap();
    assert_eq!(copy.verdict(), "2026-11-18.jsonl:5 cut");
}

#[test]
fn problems_in_words() {
    let mut words = String::new();
    let mut say = |change: &dyn Fn(&mut Files)| {
        let mut files = sound().clone();
        change(&mut files);
        let copy = Copy::of(&files);
        let problem = verify(copy.scratch.path(), &VerifyOptions::default()).unwrap().problem.unwrap();
        words.push_str(&problem.to_string().replace(&format!("{}/", copy.scratch.path().display()), ""));
        words.push('\n');
    };
    say(&|files| lines(files, DAYS[0])[1] = "{}".to_owned());
    say(&|files| lines(files, DAYS[0])[1] = sound()[DAYS[0]][1].replace("alice", "bob"));
    say(&|files| lines(files, DAYS[0])[1] = rehash(&sound()[DAYS[0]][1].replace("alice", "bob"), None));
    say(&|files| drop(lines(files, DAYS[0]).remove(1)));
    say(&|files| lines(files, DAYS[0]).swap(1, 2));
    say(&|files| lines(files, DAYS[0]).insert(1, sound()[DAYS[0]][0].clone()));
    say(&|files| drop(files.remove(DAYS[1])));
    say(&|files| drop(lines(files, DAYS[2]).pop()));
    say(&|files| lines(files, DAYS[0])[3] = rehash(&sound()[DAYS[0]][3].replace("alice", "bob"), None));
    say(&|files| lines(files, "checkpoints.jsonl").swap(0, 1));
    insta::assert_snapshot!(words, @r"
    `2026-11-15.jsonl` line 2: this is not a record: it has no hash at its end
    `2026-11-15.jsonl` line 2: the line was changed: its hash is not that of its content
    `2026-11-15.jsonl` line 3: the line does not follow the one before it: one of the two was replaced
    `2026-11-15.jsonl` line 2: record 2 should be here, but this is record 3: lines were removed
    `2026-11-15.jsonl` line 2: this line and the next were swapped
    `2026-11-15.jsonl` line 2: record 2 should be here, but this is record 1: a line was added or moved
    `2026-11-16.jsonl` line 1: the file of this day is gone, though a checkpoint vouches for it
    `2026-11-18.jsonl` line 5: the log ends after record 14, but a checkpoint vouches for record 15: the end was cut, or lost before it reached the disk
    `2026-11-15.jsonl` line 4: checkpoint 1 vouches for another record in this place: history was rewritten
    `checkpoints.jsonl` line 2: this checkpoint does not come after the one before it
    ");
}
