//! No command starts when the disk of the audit log is nearly full.

use toolgate_types::{ErrorCode, Failure};
use toolgate_workspace::{DiskReserve, Headroom};

/// What a model can do about it.
pub(super) const HELP: &str = "ask the operator to free space; deleting with a file tool frees none, because what is deleted is kept for undo";

/// Rejects a command if the reserve is already used up: it would be terminated at the first check.
pub(super) fn check(reserve: &DiskReserve) -> Result<(), Failure> {
    let note = match reserve.headroom(0) {
        Headroom::Enough => return Ok(()),
        Headroom::RemovalsOnly(note) | Headroom::Nothing(note) => note,
        Headroom::Unknown(note) => {
            let message = "no command is started: how full the disk is that the gate keeps its record on cannot be told";
            let help = "try again when less is under way, or ask the operator";
            return Err(Failure::new(ErrorCode::IoError, message).help(help).operator_note(note));
        }
    };
    let message = "no command is started: the disk that the gate keeps its record on is almost full";
    let note = format!("{note}; remove what is not needed yourself, or set `audit.reserve`");
    Err(Failure::new(ErrorCode::DiskFull, message).help(HELP).operator_note(note))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_shortage_of_descriptors_is_not_reported_as_a_full_disk() {
        for (cause, remedy) in [(Errno::MFILE, "`ulimit -n`"), (Errno::NFILE, "`fs.file-max`")] {
            let refused = check(&DiskReserve::new(move || Err(cause.into()), None)).unwrap_err();
            assert_eq!(refused.code, ErrorCode::IoError, "{refused:?}");
            assert!(refused.operator_note.as_ref().unwrap().contains(remedy), "{refused:?}");
        }
    }
}
