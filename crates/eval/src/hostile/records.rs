//! The record, as its files have it.
#![expect(
    clippy::disallowed_methods,
    reason = "the harness reads the files of the record itself, not what the gate says of them"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::evidence::field;

/// The records of calls, in order.
pub(super) fn records(state: &Path) -> Result<Vec<Value>, String> {
    let directory = state.join("audit");
    let Ok(entries) = fs::read_dir(&directory) else { return Ok(Vec::new()) };
    let mut days: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .filter(|path| path.file_name().is_some_and(|name| name != "checkpoints.jsonl"))
        .collect();
    days.sort();
    let mut records = Vec::new();
    for day in days {
        let text = fs::read_to_string(&day).map_err(|error| format!("the record cannot be read: {error}"))?;
        records.extend(
            crate::evidence::json_lines(&text).into_iter().filter(|record| record.get("decision").is_some()),
        );
    }
    Ok(records)
}

/// How many calls were made, and how sure it is that each has a record.
#[derive(Clone, Debug, Default)]
pub(super) struct CallCounts {
    /// Answered: exactly one record each.
    pub(super) certain: usize,
    /// Refused as requests, cancelled or lost with a gate that was killed: one record at most.
    pub(super) possible: usize,
    /// The ids that answers named.
    pub(super) ids: Vec<String>,
}

/// Why the record does not have each call exactly once.
pub(super) fn problem(records: &[Value], counts: &CallCounts) -> Option<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records {
        *times.entry(field(record, "/traceId")).or_default() += 1;
    }
    if let Some((id, times)) = times.iter().find(|(_, times)| **times != 1) {
        return Some(format!("the call {id} has {times} records"));
    }
    if let Some(id) = counts.ids.iter().find(|id| !times.contains_key(id.as_str())) {
        return Some(format!("the call {id} has no record"));
    }
    let (found, least, most) = (records.len(), counts.certain, counts.certain + counts.possible);
    (found < least || found > most).then(|| match least == most {
        true => format!("{least} calls were answered, and {found} are recorded"),
        false => format!("{least} to {most} calls were made, and {found} are recorded"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_without_a_record_and_one_with_two_are_noticed() {
        let record = |id: &str| json!({"traceId": id, "decision": "ALLOWED"});
        let counts = CallCounts { certain: 2, possible: 1, ids: vec!["a".to_owned()] };
        assert_eq!(problem(&[record("a"), record("b")], &counts), None);
        assert_eq!(problem(&[record("a"), record("b"), record("c")], &counts), None);
        assert!(problem(&[record("a")], &counts).is_some());
        assert!(problem(&[record("b"), record("c")], &counts).unwrap().contains("call a has no record"));
        assert!(problem(&[record("a"), record("a")], &counts).unwrap().contains("has 2 records"));
        assert!(problem(&[record("a"), record("b"), record("c"), record("d")], &counts).is_some());
    }
}
