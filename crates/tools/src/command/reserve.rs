//! No command is started where too little space is left for the gate's record.

use toolgate_types::{ErrorCode, Failure};
use toolgate_workspace::{DiskReserve, Headroom};

/// What a model can do about it.
pub(super) const HELP: &str = "ask the operator to free space; deleting with a file tool frees none, because what is deleted is kept for undo";

/// Refuses to start a command where there is too little space already: it would be ended as soon as it is looked at.
pub(super) fn check(reserve: &DiskReserve) -> Result<(), Failure> {
    let (Headroom::RemovalsOnly(note) | Headroom::Nothing(note)) = reserve.headroom(0) else {
        return Ok(());
    };
    let message = "no command is started: the disk that the gate keeps its record on is almost full";
    let note = format!("{note}; remove what is not needed yourself, or set `audit.reserve`");
    Err(Failure::new(ErrorCode::DiskFull, message).help(HELP).operator_note(note))
}
