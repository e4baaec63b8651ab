//! What a check found, in words.

use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use toolgate_types::{CallId, Sha256, time};

use crate::{Day, PublicKey};

/// What a check of the whole log found. Figures are about what was read before the first problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Records that were checked and found good.
    pub records: u64,
    /// Day files with records among them.
    pub days: u64,
    /// When the first of them was written.
    pub first_time: Option<Timestamp>,
    /// When the last of them was written.
    pub last_time: Option<Timestamp>,
    /// The place of the last of them.
    pub last_seq: Option<u64>,
    /// The hash of the last of them: whoever notes it down elsewhere has a checkpoint of their own.
    pub last_hash: Option<Sha256>,
    /// Checkpoints that were checked and agree with the chain.
    pub checkpoints: u64,
    /// Records after the last checkpoint: their removal would not be noticed.
    pub records_after_checkpoint: u64,
    /// The keys that signed the checkpoints.
    pub keys: Vec<PublicKey>,
    /// Where the record says itself that calls are not in it.
    pub gaps: Vec<CallGap>,
    /// Calls that were announced and have no record yet: they are being made, or their gate ended before it could record them.
    pub announced_without_record: u64,
    /// How many of these were announced by a gate that does not run any more. The next start records them.
    pub announced_by_ended_gates: u64,
    /// What is worth knowing and no sign of tampering.
    pub notes: Vec<VerifyNote>,
    /// The first thing that is wrong.
    pub problem: Option<IntegrityProblem>,
}

impl VerifyReport {
    /// How many calls are known to have no record.
    #[must_use]
    pub fn calls_without_record(&self) -> u64 {
        self.gaps.iter().filter_map(|gap| gap.calls).fold(0, u64::saturating_add)
    }

    /// Whether calls are missing that no running gate is about to record.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.gaps.is_empty() || self.announced_by_ended_gates > 0
    }
}

/// Calls that have no record, as the record itself says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallGap {
    /// What ties its end to its beginning.
    pub id: CallId,
    /// Since when.
    pub since: Timestamp,
    /// When writing worked again, if it did. Without that, the calls are counted beside the record.
    pub until: Option<Timestamp>,
    /// How many calls; not known where the gate ended before it could say.
    pub calls: Option<u64>,
}

impl fmt::Display for CallGap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.calls {
            None => formatter.write_str("an unknown number of calls has no record")?,
            Some(1) => formatter.write_str("1 call has no record")?,
            Some(calls) => write!(formatter, "{calls} calls have no record")?,
        }
        write!(formatter, ", since {}", time::rfc3339_millis(self.since))?;
        match (self.until, self.calls) {
            (Some(until), _) => write!(formatter, " until {}", time::rfc3339_millis(until)),
            (None, Some(_)) => formatter.write_str("; no record says so yet"),
            (None, None) => formatter.write_str("; the gate ended before it could say how many"),
        }
    }
}

/// Something wrong, and the first line where it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityProblem {
    /// The file; the directory where there is no file of any day.
    pub file: PathBuf,
    /// The line, from one. For lines that are gone it is where they should be; 0 where that is in no file.
    pub line: u64,
    /// What is wrong.
    pub kind: IntegrityProblemKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntegrityProblemKind {
    /// It is not a record.
    Unparsable {
        /// Why not.
        detail: String,
    },
    /// It ends without a newline though other lines come after it.
    Unfinished,
    /// Its hash is not that of its content.
    Changed,
    /// Its number is right but it does not name the line before it.
    Unlinked,
    /// Records are missing before it.
    Missing {
        /// The record that should be here.
        expected: u64,
        /// The record that is.
        found: u64,
    },
    /// It and the next line stand in the wrong order.
    Swapped,
    /// Its number was used before: it was added, or stands too late.
    Repeated {
        /// The record that should be here.
        expected: u64,
        /// The record that is.
        found: u64,
    },
    /// The call has a record already.
    SecondRecord {
        /// The call.
        call: CallId,
        /// The day of the first record.
        day: Day,
        /// The line of the first record.
        line: u64,
    },
    /// The record is younger than the day of its file.
    WrongDay,
    /// This day's file is gone.
    DayMissing,
    /// A checkpoint vouches for records that are not there.
    Cut {
        /// The last record that is there; 0 when there is none.
        last: u64,
        /// The record that a checkpoint vouches for.
        vouched: u64,
    },
    /// A checkpoint vouches for another record in this place: history was rewritten.
    Rewritten {
        /// The line of the checkpoint.
        checkpoint: u64,
    },
    /// What is noted beside the key as signed last is not there, or is another record: no gate continues this log.
    ContradictsSigned {
        /// The last record that is there or was reached; 0 when there is none.
        last: u64,
        /// The record that was signed.
        signed: u64,
        /// The file that says so.
        note: PathBuf,
    },
    /// The line is not a checkpoint.
    CheckpointUnparsable,
    /// The checkpoint's signature is not good.
    CheckpointForged,
    /// The checkpoint is signed by a key that is not trusted.
    CheckpointUntrusted {
        /// The key.
        key: PublicKey,
    },
    /// The checkpoint does not come after the one before it.
    CheckpointDisorder,
}

impl IntegrityProblemKind {
    /// A word for programs.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unparsable { .. } => "unparsable",
            Self::Unfinished => "unfinished",
            Self::Changed => "changed",
            Self::Unlinked => "unlinked",
            Self::Missing { .. } => "missing",
            Self::Swapped => "swapped",
            Self::Repeated { .. } => "repeated",
            Self::SecondRecord { .. } => "second_record",
            Self::WrongDay => "wrong_day",
            Self::DayMissing => "day_missing",
            Self::Cut { .. } => "cut",
            Self::Rewritten { .. } => "rewritten",
            Self::ContradictsSigned { .. } => "contradicts_signed",
            Self::CheckpointUnparsable => "checkpoint_unparsable",
            Self::CheckpointForged => "checkpoint_forged",
            Self::CheckpointUntrusted { .. } => "checkpoint_untrusted",
            Self::CheckpointDisorder => "checkpoint_disorder",
        }
    }
}

impl fmt::Display for IntegrityProblemKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unparsable { detail } => write!(formatter, "this is not a record: {detail}"),
            Self::Unfinished => formatter.write_str("the line breaks off though records come after it"),
            Self::Changed => formatter.write_str("the line was changed: its hash is not that of its content"),
            Self::Unlinked => {
                formatter.write_str("the line does not follow the one before it: one of the two was replaced")
            }
            Self::Missing { expected, found } => {
                write!(
                    formatter,
                    "record {expected} should be here, but this is record {found}: lines were removed"
                )
            }
            Self::Swapped => formatter.write_str("this line and the next were swapped"),
            Self::Repeated { expected, found } => write!(
                formatter,
                "record {expected} should be here, but this is record {found}: a line was added or moved"
            ),
            Self::SecondRecord { call, day, line } => {
                write!(formatter, "call `{call}` has a record already, in `{}` line {line}", day.file_name())
            }
            Self::WrongDay => formatter.write_str("the record is younger than the day of its file"),
            Self::DayMissing => {
                formatter.write_str("the file of this day is gone, though a checkpoint vouches for it")
            }
            Self::Cut { last, vouched } => write!(
                formatter,
                "the log ends after record {last}, but a checkpoint vouches for record {vouched}: \
                 the end was cut, or lost before it reached the disk"
            ),
            Self::Rewritten { checkpoint } => write!(
                formatter,
                "checkpoint {checkpoint} vouches for another record in this place: history was rewritten"
            ),
            Self::ContradictsSigned { last, signed, note } => {
                match last < signed {
                    true => write!(
                        formatter,
                        "the log ends after record {last}, but record {signed} was signed: lines were removed, or lost in a power failure"
                    )?,
                    false => write!(
                        formatter,
                        "record {signed} is not the one that was signed: history was rewritten"
                    )?,
                }
                write!(
                    formatter,
                    ". `{}` says so, and no gate starts with this log: keep a copy, then move the audit directory and that file aside to begin a new one",
                    note.display()
                )
            }
            Self::CheckpointUnparsable => formatter.write_str("this is not a checkpoint"),
            Self::CheckpointForged => formatter.write_str("the signature of this checkpoint is not good"),
            Self::CheckpointUntrusted { key } => {
                write!(formatter, "this checkpoint is signed by `{key}`, which is not a trusted key")
            }
            Self::CheckpointDisorder => {
                formatter.write_str("this checkpoint does not come after the one before it")
            }
        }
    }
}

impl fmt::Display for IntegrityProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "`{}`: {}", self.file.display(), self.kind),
            line => write!(formatter, "`{}` line {line}: {}", self.file.display(), self.kind),
        }
    }
}

/// What is worth knowing and no sign of tampering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyNote {
    /// The log ends in an unfinished line: a process is writing it, or died while it was.
    UnfinishedLine {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
    },
    /// There are no checkpoints: a cut end or a rewritten log would not be noticed.
    NoCheckpoints,
    /// No trusted key was given: the checkpoints may have been signed by anybody.
    KeyNotPinned,
    /// What was signed last is noted beside the key, where this user may not read.
    SignedNotCompared,
    /// Older day files were taken away; what is left begins right after a checkpoint.
    BeginsAtCheckpoint {
        /// The first record that is left.
        seq: u64,
    },
}

impl fmt::Display for VerifyNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnfinishedLine { file, line } => {
                write!(
                    formatter,
                    "`{}` line {line} is unfinished; the next writer removes it",
                    file.display()
                )
            }
            Self::SignedNotCompared => formatter
                .write_str("what was signed last is noted beside the key, which this user may not read, so it was not compared"),
            Self::NoCheckpoints => formatter
                .write_str("there are no checkpoints, so a cut or rewritten log would not be noticed"),
            Self::KeyNotPinned => formatter.write_str("no trusted key was given, so any key was taken"),
            Self::BeginsAtCheckpoint { seq } => {
                write!(
                    formatter,
                    "older days were taken away; the log begins at record {seq}, after a checkpoint"
                )
            }
        }
    }
}
