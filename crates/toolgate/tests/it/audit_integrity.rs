//! Verification of the audit log: gaps, held locks, logs that do not match their checkpoints.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_audit::{AuditEntry, AuditLog, Intent, LogOptions};
use toolgate_types::{CallId, Caller, Sha256, StateKey, ToolClass, Trust};

use crate::fixture::CliFixture;

fn alice() -> Caller {
    Caller {
        subject: "alice".to_owned(),
        permissions: [].into(),
        agent: None,
        session: "s".parse().unwrap(),
        run: None,
        trust: Trust::Guided,
    }
}

fn read_by(caller: &Caller) -> AuditEntry<'_> {
    AuditEntry {
        call: CallId::fresh(),
        client_call_id: None,
        caller,
        tool: "read_file",
        class: Some(ToolClass::Read),
        version: None,
        args_hash: Sha256::of(b"{}"),
        changed_from: None,
        escalation: &[],
        repairs: &[],
        grant: None,
        denial: None,
        response: None,
        details: None,
        flow: None,
        duration: Duration::from_millis(1),
        waited: Duration::ZERO,
    }
}

/// A log of four calls, two of which have no record.
fn log_with_a_gap(directory: &Path) {
    let clock = || "2026-11-15T12:00:00Z".parse().unwrap();
    let options = LogOptions { clock: Arc::new(clock), ..LogOptions::new(directory) };
    let (log, _) = AuditLog::open(options, &StateKey::new([7; 32])).unwrap();
    let caller = alice();
    let append = || log.append(&read_by(&caller));
    append().unwrap();
    let (today, aside) = (directory.join("2026-11-15.jsonl"), directory.join("aside"));
    fs::rename(&today, &aside).unwrap();
    fs::create_dir(&today).unwrap();
    append().unwrap_err();
    append().unwrap_err();
    fs::remove_dir(&today).unwrap();
    fs::rename(&aside, &today).unwrap();
    append().unwrap();
    log.close().unwrap();
}

/// Without volatile values.
fn settled(place: &CliFixture, text: &str) -> String {
    let mut settled = text.replace(place.state.to_str().unwrap(), "STATE");
    for line in text.lines().filter_map(|line| line.strip_prefix("signed by ")) {
        settled = settled.replace(line, "KEY");
    }
    settled
}

#[test]
fn a_record_with_gaps_is_told_in_words_and_json_with_an_exit_code_of_its_own() {
    let place = CliFixture::new();
    log_with_a_gap(&place.state.join("audit"));
    let output = place.run(&["audit", "verify"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    insta::assert_snapshot!(settled(&place, &String::from_utf8(output.stdout).unwrap()), @r"
    INCOMPLETE: 3 records in 1 day, 1 checkpoint, 0 records after the last checkpoint
    gap: 2 calls have no record, since 2026-11-15T12:00:00.000Z until 2026-11-15T12:00:00.000Z
    signed by KEY
    note: no trusted key was given, so any key was taken
    ");
    let output = place.run(&["audit", "verify", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for changing in ["keys", "lastHash"] {
        report[changing] = "…".into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap(), @r#"
    {
      "ok": false,
      "records": 3,
      "days": 1,
      "firstTime": "2026-11-15T12:00:00.000Z",
      "lastTime": "2026-11-15T12:00:00.000Z",
      "lastSeq": 3,
      "lastHash": "…",
      "checkpoints": 1,
      "recordsAfterCheckpoint": 0,
      "callsWithoutRecord": 2,
      "gaps": [
        {
          "since": "2026-11-15T12:00:00.000Z",
          "until": "2026-11-15T12:00:00.000Z",
          "calls": 2,
          "message": "2 calls have no record, since 2026-11-15T12:00:00.000Z until 2026-11-15T12:00:00.000Z"
        }
      ],
      "announcedWithoutRecord": 0,
      "announcedByEndedGates": 0,
      "keys": "…",
      "notes": [
        "no trusted key was given, so any key was taken"
      ],
      "problem": null
    }
    "#);
    let shown = place.must(&["audit", "show", "--tool", "audit_gap"]);
    assert!(
        shown.contains("ERROR") && shown.trim_end().ends_with("gap: 2 calls without a record"),
        "{shown}"
    );
    let seq = shown.split_whitespace().next().unwrap().to_owned();
    let whole = place.must(&["audit", "show", "--tool", "audit_gap", "--json"]);
    assert!(
        whole.contains(&format!("\"seq\":{seq}")) && whole.contains("2 calls have no record since"),
        "{whole}"
    );
    // Tampering is reported before gaps.
    let path = place.state.join("audit/2026-11-15.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap().replacen("alice", "mallory", 1)).unwrap();
    assert_eq!(place.run(&["audit", "verify"]).status.code(), Some(1));
}

/// Unrecorded calls are also reported if their gate was killed, or still cannot write.
#[test]
fn calls_that_are_only_counted_are_told_in_words_and_json() {
    let place = CliFixture::new();
    let audit = place.state.join("audit");
    let clock = || "2026-11-15T12:00:00Z".parse().unwrap();
    let lock_timeout = Duration::from_millis(10);
    let options = LogOptions { clock: Arc::new(clock), lock_timeout, ..LogOptions::new(&audit) };
    let (log, _) = AuditLog::open(options, &StateKey::new([7; 32])).unwrap();
    let caller = alice();
    log.append(&read_by(&caller)).unwrap();
    let lock = File::open(audit.join("lock")).unwrap();
    lock.lock().unwrap();
    (0..3).for_each(|_| _ = log.append(&read_by(&caller)).unwrap_err());
    let output = place.run(&["audit", "verify"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    INCOMPLETE: 1 record in 1 day, 0 checkpoints, 1 record after the last checkpoint
    gap: 3 calls have no record, since 2026-11-15T12:00:00.000Z; no record says so yet
    note: there are no checkpoints, so a cut or rewritten log would not be noticed
    ");
    let output = place.run(&["audit", "verify", "--json"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = [&report["ok"], &report["problem"], &report["callsWithoutRecord"], &report["gaps"]];
    insta::assert_snapshot!(serde_json::to_string_pretty(&told).unwrap(), @r#"
    [
      false,
      null,
      3,
      [
        {
          "since": "2026-11-15T12:00:00.000Z",
          "until": null,
          "calls": 3,
          "message": "3 calls have no record, since 2026-11-15T12:00:00.000Z; no record says so yet"
        }
      ]
    ]
    "#);
    lock.unlock().unwrap();
    log.close().unwrap();
    let output = place.run(&["audit", "verify", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["callsWithoutRecord"]), (Some(6), &3.into()), "{report}");
    assert!(report["gaps"][0]["until"].is_string(), "{report}");
}

#[test]
fn announced_calls_without_a_record_are_told_until_the_next_start_records_them() {
    let place = CliFixture::new();
    let audit = place.state.join("audit");
    let (log, _) = AuditLog::open(LogOptions::new(&audit), &StateKey::new([7; 32])).unwrap();
    let caller = alice();
    let announce = || {
        let AuditEntry { call, args_hash, .. } = read_by(&caller);
        let (client_call_id, class) = (None, ToolClass::Write);
        let intent = Intent {
            call,
            client_call_id,
            caller: &caller,
            tool: "write_file",
            class,
            version: None,
            args_hash,
            grant: None,
            details: None,
        };
        log.intent(&intent).unwrap().wait().unwrap();
        call
    };
    let (recorded, _) = (announce(), announce());
    log.append(&AuditEntry { call: recorded, ..read_by(&caller) }).unwrap();
    let verify = || {
        let words = place.run(&["audit", "verify"]);
        let json = place.run(&["audit", "verify", "--json"]);
        assert_eq!(words.status.code(), json.status.code());
        let report: Value = serde_json::from_slice(&json.stdout).unwrap();
        let told = ["ok", "announcedWithoutRecord", "announcedByEndedGates", "callsWithoutRecord"];
        let words = String::from_utf8(words.stdout).unwrap();
        let verdict = words.split(':').next().unwrap();
        let words: String = words.lines().filter(|line| line.starts_with("announced")).collect();
        format!("{:?} {} {verdict} {words}", json.status.code(), json!(told.map(|name| &report[name])))
    };
    insta::assert_snapshot!(verify(), @"Some(0) [true,1,0,0] ok announced: 1 call without a record yet, being made by a running gate");
    log.close().unwrap();
    insta::assert_snapshot!(verify(), @"Some(6) [false,1,1,0] INCOMPLETE announced: 1 call without a record yet, left by a gate that ended; the next start of a gate adds what is missing");
    fs::write(place.workspace.join("a.txt"), "hello\n").unwrap();
    place.must(&["call", "read_file", "{\"path\": \"a.txt\"}"]);
    assert_eq!(verify(), "Some(0) [true,0,0,0] ok ");
}

/// The row of `doctor` with this name, if there is one, and the exit code.
fn doctor_row(place: &CliFixture, name: &str) -> (Option<i32>, Option<String>) {
    let output = place.run(&["doctor", "--offline", "--json"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let row = rows.iter().find(|row| row["check"] == name && row["state"] != "ok");
    (output.status.code(), row.map(|row| format!("{} {}", row["state"], row["detail"])))
}

#[test]
fn doctor_says_that_the_undo_journal_is_full_and_what_to_do() {
    let place = CliFixture::new();
    let bounds =
        |entries| place.write("toolgate.yaml", &format!("retention: {{undo: {{max_entries: {entries}}}}}\n"));
    bounds(1);
    let delete = |name: &str| {
        fs::write(place.workspace.join(name), "a person's\n").unwrap();
        place.run(&["call", "delete_file", &json!({"path": name}).to_string()])
    };
    assert!(delete("first.txt").status.success());
    assert_eq!(doctor_row(&place, "undo journal").1, None);
    // A sweep is awaited after at most two steps of the limit.
    let refused =
        (0..9).map(|number| delete(&format!("{number}.txt"))).find(|output| !output.status.success());
    let said = String::from_utf8(refused.expect("a refusal").stdout).unwrap();
    assert!(said.contains("the undo journal is full"), "{said}");
    let help = said.lines().find(|line| line.starts_with("help:")).unwrap();
    let (code, row) = doctor_row(&place, "undo journal");
    let is_named = row.as_ref().is_some_and(|row| row.contains("the 1 calls of `retention.undo`"));
    assert_eq!((help.contains("`retention.undo`"), code, is_named), (true, Some(1), true), "{said} {row:?}");
    bounds(1000);
    assert_eq!(doctor_row(&place, "undo journal").1, None);
    assert!(delete("last.txt").status.success());
}

#[test]
fn doctor_says_that_less_space_is_left_than_the_reserve() {
    let place = CliFixture::new();
    assert_eq!(doctor_row(&place, "disk reserve").1, None);
    // The reserve is capped at the size of the filesystem.
    place.write("toolgate.yaml", "audit: {reserve: 1000000GiB}\n");
    let (code, row) = doctor_row(&place, "disk reserve");
    let row = row.expect("a row about the reserve");
    assert_eq!(code, Some(1), "{row}");
    assert!(row.contains("failing") && row.contains("free space there, or lower `audit.reserve`"), "{row}");
    let refused = place.run(&["call", "write_file", "{\"path\": \"a.txt\", \"content\": \"a\"}"]);
    assert!(String::from_utf8(refused.stdout).unwrap().contains("disk_full"));
}

#[test]
fn a_start_does_not_wait_for_a_held_lock_for_ever_and_names_who_holds_it() {
    let place = CliFixture::new();
    fs::write(place.workspace.join("a.txt"), "hello\n").unwrap();
    place.must(&["call", "read_file", "{\"path\": \"a.txt\"}"]);
    let lock = File::open(place.state.join("audit/lock")).unwrap();
    lock.lock().unwrap();
    let output = place.run(&["call", "read_file", "{\"path\": \"a.txt\"}"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("is locked by process {}", std::process::id())), "{said}");
    assert!(said.contains("help: end that process"), "{said}");
    lock.unlock().unwrap();
    place.must(&["call", "read_file", "{\"path\": \"a.txt\"}"]);
}

#[test]
fn no_gate_continues_a_log_that_was_cut_and_doctor_says_so() {
    let place = CliFixture::new();
    fs::write(place.workspace.join("a.txt"), "hello\n").unwrap();
    let read = ["call", "read_file", "{\"path\": \"a.txt\"}"];
    place.must(&read);
    place.must(&read);
    let day = fs::read_dir(place.state.join("audit")).unwrap().map(|entry| entry.unwrap().path());
    let day =
        day.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("20")).unwrap();
    let whole = fs::read_to_string(&day).unwrap();
    let cut: String = whole.lines().take(1).map(|line| format!("{line}\n")).collect();
    fs::write(&day, &cut).unwrap();
    let output = place.run(&read);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("record 2 was signed, and the log ends after record 1"), "{said}");
    assert_eq!(fs::read_to_string(&day).unwrap(), cut, "nothing was added to it");
    let doctor = String::from_utf8(place.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.lines().any(|line| line.contains("audit") && line.contains("contradicts")), "{doctor}");
    // Even without the checkpoints, verification finds what the start refuses.
    let checkpoints = place.state.join("audit/checkpoints.jsonl");
    let kept = fs::read(&checkpoints).unwrap();
    fs::remove_file(&checkpoints).unwrap();
    let verified = place.run(&["audit", "verify", "--json"]);
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(
        (verified.status.code(), &report["problem"]["kind"]),
        (Some(1), &"contradicts_signed".into()),
        "{report}"
    );
    fs::write(&checkpoints, kept).unwrap();
    fs::write(&day, whole).unwrap();
    place.must(&read);
    assert_eq!(place.run(&["audit", "verify"]).status.code(), Some(0));
    // A file that a start set aside is reported until it is examined.
    fs::write(place.state.join("audit/intents/x.jsonl.damaged"), "?").unwrap();
    let doctor = String::from_utf8(place.run(&["doctor"]).stdout).unwrap();
    assert!(
        doctor.lines().any(|line| line.contains("audit") && line.contains("x.jsonl.damaged")),
        "{doctor}"
    );
}

/// Names are encrypted where the operator says so; who holds the key reads them, and without it they are said to be lost, and the record is verified all the same.
#[test]
fn encrypted_details_are_shown_with_their_key_and_said_to_be_lost_without_it() {
    let place = CliFixture::new();
    place.write("toolgate.yaml", "audit: {details_storage: encrypted}\n");
    fs::write(place.workspace.join("quartz.txt"), "x").unwrap();
    place.must(&["call", "delete_file", r#"{"path": "quartz.txt"}"#]);
    assert!(!place.audit_text().contains("quartz"), "{}", place.audit_text());
    let shown = place.must(&["audit", "show"]);
    assert!(shown.contains("deleted @project/quartz.txt"), "{shown}");
    let record: Value = serde_json::from_str(&place.must(&["audit", "show", "--json"])).unwrap();
    assert_eq!(record["details"], json!({"deleted": ["@project/quartz.txt"]}));
    assert!(record.get("sealedDetails").is_none());
    assert_eq!(record["durationMs"], record["duration"], "the name that says its unit");
    let call = record["traceId"].as_str().unwrap();
    assert!(place.must(&["audit", "show", "--call", call]).contains("deleted     @project/quartz.txt"));

    let key = place.state_home().join("toolgate/keys/details.key");
    fs::rename(&key, key.with_extension("aside")).unwrap();
    let shown = place.must(&["audit", "show"]);
    assert!(shown.contains("encrypted") && !shown.contains("quartz"), "{shown}");
    let shown = place.must(&["audit", "show", "--call", call]);
    let lost = format!("touched     encrypted, and the key {} is missing\n", key.display());
    assert!(shown.contains(&lost), "{shown}");
    let verified = place.must(&["audit", "verify"]);
    assert!(verified.starts_with("ok: 1 record "), "{verified}");
    // The next gate makes another key, which does not open what was there before.
    place.must(&["call", "list_directory", "{}"]);
    let shown = place.must(&["audit", "show", "--call", call]);
    let other = format!("touched     encrypted with another key than {}\n", key.display());
    assert!(shown.contains(&other), "{shown}");
    assert!(place.must(&["audit", "show"]).contains("@project\n"), "what is recorded now is readable");
}
