//! Journal entries as a dying process leaves them.

use std::path::Path;

use toolgate_types::CallId;

/// Turns the entry of a finished change into that of a process that died: without the seal of the finish, and back in `pending`.
pub fn unfinish(journal: &Path, call: CallId) {
    let name = format!("{call}.json");
    let (done, pending) = (journal.join("done").join(&name), journal.join("pending").join(&name));
    let entry = std::fs::read_to_string(&done).unwrap();
    let lines: Vec<&str> = entry.lines().collect();
    assert_eq!(lines.len(), 3, "an entry and its two seals");
    std::fs::write(pending, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    std::fs::remove_file(done).unwrap();
}
