//! A log in a scratch directory, with a clock that the test sets, and entries to append.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tempfile::TempDir;
use toolgate_audit::{
    AuditEntry, AuditLog, CallDetails, Intent, LogOptions, Record, RecordFilter, VerifyOptions, VerifyReport,
    query_records, verify,
};
use toolgate_types::{CallId, Caller, Sha256, ToolClass, Trust};

pub(crate) const NOON: &str = "2026-11-15T12:00:00.000Z";

/// A scratch audit directory with its own clock.
pub(crate) struct AuditFixture {
    _scratch: TempDir,
    pub(crate) directory: PathBuf,
    now: Arc<Mutex<Timestamp>>,
}

impl AuditFixture {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("state/audit");
        Self { _scratch: scratch, directory, now: Arc::new(Mutex::new(NOON.parse().unwrap())) }
    }

    pub(crate) fn options(&self) -> LogOptions {
        let now = Arc::clone(&self.now);
        LogOptions { clock: Arc::new(move || *now.lock().unwrap()), ..LogOptions::new(&self.directory) }
    }

    pub(crate) fn open(&self) -> AuditLog {
        AuditLog::open(self.options(), &toolgate_types::StateKey::new([7; 32])).unwrap().0
    }

    pub(crate) fn set_clock(&self, moment: &str) {
        *self.now.lock().unwrap() = moment.parse().unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        lines_of(&self.file(name))
    }

    pub(crate) fn verify(&self) -> VerifyReport {
        verify(&self.directory, &VerifyOptions::default()).unwrap()
    }

    /// Every record, oldest first, after a successful verification.
    pub(crate) fn sound_records(&self) -> Vec<Record> {
        sound_records(&self.directory)
    }
}

pub(crate) fn sound_records(directory: &Path) -> Vec<Record> {
    let report = verify(directory, &VerifyOptions::default()).unwrap();
    assert!(report.problem.is_none(), "{}", report.problem.unwrap());
    let mut records: Vec<Record> =
        query_records(directory, RecordFilter::default()).unwrap().map(Result::unwrap).collect();
    records.reverse();
    assert_eq!(records.len() as u64, report.records);
    records
}

pub(crate) fn lines_of(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// The location of a report's problem, as `file:line kind`; `sound` if there is none.
pub(crate) fn verdict(report: &VerifyReport) -> String {
    report.problem.as_ref().map_or("sound".to_owned(), |problem| {
        let file = problem.file.file_name().unwrap().to_str().unwrap();
        format!("{file}:{} {}", problem.line, problem.kind.as_str())
    })
}

pub(crate) fn alice() -> Caller {
    Caller {
        subject: "alice".to_owned(),
        permissions: ["files:read".to_owned(), "git:read".to_owned()].into(),
        agent: None,
        session: "s1".parse().unwrap(),
        run: None,
        trust: Trust::Guided,
    }
}

/// The id number `n`.
pub(crate) fn id(n: u64) -> CallId {
    format!("01931b2c-0000-7000-8000-{n:012x}").parse().unwrap()
}

pub(crate) fn allowed(call: CallId, caller: &Caller) -> AuditEntry<'_> {
    AuditEntry {
        call,
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
        duration: Duration::from_micros(1234),
        waited: Duration::ZERO,
    }
}

pub(crate) fn intent(call: CallId, caller: &Caller) -> Intent<'_> {
    static NAMED: LazyLock<CallDetails> =
        LazyLock::new(|| CallDetails { paths: vec!["@project/a".to_owned()], ..CallDetails::default() });
    Intent {
        call,
        client_call_id: Some("call_7"),
        caller,
        tool: "write_file",
        class: ToolClass::Write,
        version: None,
        args_hash: Sha256::of(b"{\"path\":\"a\"}"),
        grant: None,
        details: Some(&NAMED),
    }
}
