//! A workspace and a state directory, and their invariants after any fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolgate_attack::{CHANGES, Scratch, litter_below};

use crate::gate::{Program, Settings, records};
use crate::load::{Diary, Step};

/// The exit code of `audit verify` if calls have no record.
const GAPS: i32 = 6;

/// Totals over calls and records.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) begun: usize,
    pub(crate) answered: usize,
    pub(crate) interrupted: usize,
    pub(crate) records: usize,
    /// Calls that were answered and have no record: they could not be audited, and had no effect.
    pub(crate) unrecorded: u64,
}

/// Whether a call was answered with `audit_unavailable`.
fn is_unrecorded(answer: &Result<(), String>) -> bool {
    answer.as_ref().is_err_and(|refused| refused.contains("audit_unavailable"))
}

/// Whether some call's record accounts for a version. A refused call is retried under another id with the same target version: of these calls, the
/// one that made the change has the record.
fn is_accounted_for(diary: &Diary, leads_to: Step, by_id: &BTreeMap<String, Vec<Value>>) -> bool {
    let calls = diary.begun.iter().filter(|(_, to)| **to == leads_to);
    let mut records = calls.filter_map(|(id, _)| by_id.get(id)).flatten();
    records.any(|record| record["decision"] == "ALLOWED" || record["denial"]["code"] == "interrupted")
}

/// The directories of the gates.
pub(crate) struct Place {
    _scratch: Option<Scratch>,
    pub(crate) settings: Settings,
}

impl Place {
    pub(crate) fn new(writers: &[&str]) -> Self {
        let scratch = Scratch::new();
        let place = Self::at(scratch.path(), writers);
        Self { _scratch: Some(scratch), ..place }
    }

    /// In an existing directory, such as on a disk of its own.
    pub(crate) fn at(directory: &Path, writers: &[&str]) -> Self {
        let (workspace, state) = (directory.join("w"), directory.join("s"));
        for made in [&workspace, &state] {
            std::fs::create_dir_all(made).unwrap();
        }
        for writer in writers {
            std::fs::create_dir_all(workspace.join(format!("{writer}-patched"))).unwrap();
            CHANGES.iter().for_each(|change| change.begin(&workspace, writer));
        }
        let (wrapper, environment) = (Vec::new(), Vec::new());
        let settings = Settings { workspace, state, on_failure: "deny", wrapper, environment };
        Self { _scratch: None, settings }
    }

    /// To be called once the next gate has recovered: every change is complete or absent, every answered change is present, and every call has one
    /// record with its outcome.
    pub(crate) fn judge(&self, diaries: &[(&str, Diary)]) -> Sums {
        let workspace = &self.settings.workspace;
        assert_eq!(litter_below(workspace), Vec::<PathBuf>::new(), "litter");
        let mut by_id: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let all = records(&self.settings.state);
        let count = all.len();
        for record in all {
            let id = record["request"]["clientCallId"].as_str().map(str::to_owned);
            if let Some(id) = id {
                by_id.entry(id).or_default().push(record);
            }
        }
        let mut sums = Sums { records: count, ..Sums::default() };
        for (writer, diary) in diaries {
            let versions: BTreeMap<_, u64> =
                CHANGES.into_iter().map(|change| (change, change.version(workspace, writer))).collect();
            for (id, leads_to) in &diary.begun {
                let found = by_id.get(id).map(Vec::as_slice).unwrap_or_default();
                assert!(found.len() <= 1, "{id}: {} records", found.len());
                let is_there = leads_to.map(|(change, to)| versions[&change] >= to);
                let has_effect = is_there == Some(true) && !is_accounted_for(diary, *leads_to, &by_id);
                let record = found.first();
                let is_interrupted = record.is_some_and(|record| record["denial"]["code"] == "interrupted");
                sums.begun += 1;
                sums.interrupted += usize::from(is_interrupted);
                match (diary.answered.get(id), record) {
                    (Some(answer), Some(record)) => {
                        sums.answered += 1;
                        // A disk that fails to confirm a record may have stored it all the same.
                        let is_told = is_unrecorded(answer) && diary.has_lost_power;
                        let is_allowed = record["decision"] == "ALLOWED";
                        assert!(is_allowed == answer.is_ok() || is_told, "{id}: {answer:?} {record}");
                        assert!(answer.is_err() || is_there != Some(false), "{id} was answered and is gone");
                    }
                    (Some(answer), None) => {
                        let is_told = is_unrecorded(answer);
                        // With `warn`, a call refused because of a full disk is only counted if there is no room for its record.
                        let is_refused = answer.as_ref().is_err_and(|refused| refused.contains("disk_full"));
                        let may_be = self.settings.on_failure == "warn" && (leads_to.is_none() || is_refused);
                        assert!(is_told || may_be, "{id} was answered ({answer:?}) and has no record");
                        assert!(!has_effect, "{id} has an effect and no record");
                        sums.answered += 1;
                        sums.unrecorded += 1;
                    }
                    (None, Some(_)) => {}
                    (None, None) => {
                        assert!(!has_effect, "{id} has an effect and no record");
                    }
                }
            }
        }
        sums
    }

    /// `audit verify` finds no problem, and no gap.
    pub(crate) fn verify(&self, program: &Program) {
        let (code, told) = self.settings.verify(program);
        assert!(code == 0 && told["ok"] == true, "verify ended with {code}: {told}");
    }

    /// `audit verify` finds no problem except calls without a record: how many.
    pub(crate) fn gaps(&self, program: &Program) -> u64 {
        let (code, told) = self.settings.verify(program);
        let missing = told["callsWithoutRecord"].as_u64().unwrap_or(0);
        let is_complete = missing == 0 && told["announcedByEndedGates"] == 0;
        assert!(told["problem"].is_null() && code == if is_complete { 0 } else { GAPS }, "{code}: {told}");
        missing
    }
}
