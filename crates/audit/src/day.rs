//! Days, which name the files of their records.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan as _};

/// The suffix of day files.
pub(crate) const DAY_FILE_SUFFIX: &str = ".jsonl";

/// A day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(Date);

impl Day {
    /// The day of this moment.
    #[must_use]
    pub fn of(moment: Timestamp) -> Self {
        Self(Offset::UTC.to_datetime(moment).date())
    }

    /// The next day; saturates.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1.day()))
    }

    /// The first moment of the next day. If that is out of range, [`Timestamp::MIN`], which makes the caller compare days instead.
    pub(crate) fn end(self) -> Timestamp {
        Offset::UTC.to_timestamp(self.next().0.to_datetime(Time::midnight())).unwrap_or(Timestamp::MIN)
    }

    /// The name of the file with this day's records.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{self}{DAY_FILE_SUFFIX}")
    }

    /// The day of a file name; `None` for any other file.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        name.strip_suffix(DAY_FILE_SUFFIX)?.parse().ok()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Not a valid day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDay;

impl fmt::Display for InvalidDay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a day; write it as `2026-11-15`")
    }
}

impl std::error::Error for InvalidDay {}

impl FromStr for Day {
    type Err = InvalidDay;

    /// Exactly `YYYY-MM-DD`: another notation of the same day would name another file.
    fn from_str(text: &str) -> Result<Self, InvalidDay> {
        let date: Date = text.parse().map_err(|_| InvalidDay)?;
        if text.len() == 10 && date.to_string() == text { Ok(Self(date)) } else { Err(InvalidDay) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_spelling_is_a_day_file() {
        let day = Day::from_file_name("2026-11-15.jsonl").unwrap();
        assert_eq!(day.file_name(), "2026-11-15.jsonl");
        assert_eq!(day.next().to_string(), "2026-11-16");
        for other in
            ["20261115.jsonl", "2026-11-15", "2026-11-31.jsonl", "2026-11-15.jsonl.gz", "x.jsonl", ".jsonl"]
        {
            assert_eq!(Day::from_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn midnight_belongs_to_the_new_day() {
        let midnight: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        assert_eq!(Day::of(midnight).to_string(), "2026-11-16");
        let eve = Day::of(midnight - 1.millisecond());
        assert_eq!((eve.to_string().as_str(), eve.end()), ("2026-11-15", midnight));
    }

    #[test]
    fn a_day_never_ends_too_late() {
        for moment in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            let day = Day::of(moment);
            assert!(
                day.end().checked_sub(1.nanosecond()).is_err() || Day::of(day.end() - 1.nanosecond()) == day
            );
        }
    }
}
