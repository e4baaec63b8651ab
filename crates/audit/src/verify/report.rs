//! The result of a verification.

use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;
use toolgate_types::{CallId, Sha256, time};

use crate::{Day, PublicKey};

/// The result of verifying the whole log. Counts cover what was read before the first problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Valid records.
    pub records: u64,
    /// Day files with valid records.
    pub days: u64,
    /// Timestamp of the first one.
    pub first_time: Option<Timestamp>,
    /// Timestamp of the last one.
    pub last_time: Option<Timestamp>,
    /// Sequence number of the last one.
    pub last_seq: Option<u64>,
    /// Hash of the last one: noted elsewhere, it serves as an independent checkpoint.
    pub last_hash: Option<Sha256>,
    /// Checkpoints that are valid and consistent with the chain.
    pub checkpoints: u64,
    /// Records after the last checkpoint: their removal would not be detected.
    pub records_after_checkpoint: u64,
    /// The keys that signed the checkpoints.
    pub keys: Vec<PublicKey>,
    /// Gaps that the log itself reports.
    pub gaps: Vec<CallGap>,
    /// Calls with an intent and no record yet: they are running, or their gate ended before recording them.
    pub announced_without_record: u64,
    /// How many of these belong to a gate that no longer runs. The next start records them.
    pub announced_by_ended_gates: u64,
    /// Notes that are no sign of tampering.
    pub notes: Vec<VerifyNote>,
    /// The first problem.
    pub problem: Option<IntegrityProblem>,
}

impl VerifyReport {
    /// How many calls are known to have no record.
    #[must_use]
    pub fn calls_without_record(&self) -> u64 {
        self.gaps.iter().filter_map(|gap| gap.calls).fold(0, u64::saturating_add)
    }

    /// Whether calls are missing that no running gate will record.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.gaps.is_empty() || self.announced_by_ended_gates > 0
    }
}

/// Calls without a record, as reported by the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallGap {
    /// Links its end to its start.
    pub id: CallId,
    /// When it started.
    pub since: Timestamp,
    /// When writing worked again, if it did. If not, the calls are counted in a separate file.
    pub until: Option<Timestamp>,
    /// How many calls; unknown if the gate ended before it could record the number.
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

/// A problem, and the first line where it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityProblem {
    /// The file; the directory if there is no day file.
    pub file: PathBuf,
    /// The line, starting at one. For missing lines, where they should be; 0 if that is in no file.
    pub line: u64,
    /// What is wrong.
    pub kind: IntegrityProblemKind,
}

/// The kind of problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntegrityProblemKind {
    /// The line is not a record.
    Unparsable {
        /// Why not.
        detail: String,
    },
    /// It has no newline although other lines follow.
    Unfinished,
    /// Its hash does not match its content.
    Changed,
    /// Its number is right, but its `prev` hash does not match the line before.
    Unlinked,
    /// Records are missing before it.
    Missing {
        /// The record that should be here.
        expected: u64,
        /// The record that is.
        found: u64,
    },
    /// It and the next line are swapped.
    Swapped,
    /// Its number was used before: it was inserted, or is too late.
    Repeated {
        /// The record that should be here.
        expected: u64,
        /// The record that is.
        found: u64,
    },
    /// The call already has a record.
    SecondRecord {
        /// The call.
        call: CallId,
        /// The day of the first record.
        day: Day,
        /// The line of the first record.
        line: u64,
    },
    /// The record is later than the day of its file.
    WrongDay,
    /// This day's file is missing.
    DayMissing,
    /// A checkpoint covers records that are missing.
    Cut {
        /// The last existing record; 0 if there is none.
        last: u64,
        /// The record that the checkpoint covers.
        vouched: u64,
    },
    /// A checkpoint covers a different record at this position: history was rewritten.
    Rewritten {
        /// The line of the checkpoint.
        checkpoint: u64,
    },
    /// The last signed record, stored beside the key, is missing or different: no gate will continue this log.
    ContradictsSigned {
        /// The last record that exists or was reached; 0 if there is none.
        last: u64,
        /// The record that was signed.
        signed: u64,
        /// The file with the last signed record.
        note: PathBuf,
    },
    /// The line is not a checkpoint.
    CheckpointUnparsable,
    /// The checkpoint's signature is invalid.
    CheckpointForged,
    /// The checkpoint is signed by an untrusted key.
    CheckpointUntrusted {
        /// The key.
        key: PublicKey,
    },
    /// The checkpoint is not newer than the one before it.
    CheckpointDisorder,
}

impl IntegrityProblemKind {
    /// A stable identifier for programs.
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

/// Notes that are no sign of tampering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyNote {
    /// The log ends in a partial line: a process is writing it, or died while writing.
    UnfinishedLine {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
    },
    /// There are no checkpoints: truncation or rewriting would not be detected.
    NoCheckpoints,
    /// No trusted key was given: the checkpoints may be signed with any key.
    KeyNotPinned,
    /// This user may not read the last signed record beside the key.
    SignedNotCompared,
    /// Older day files were archived; the rest starts right after a checkpoint.
    BeginsAtCheckpoint {
        /// The first remaining record.
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
