//! Identifiers. Each is its own type, so that a run id cannot be passed as a session id.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::{ContextV7, Timestamp, Uuid};

/// Keeps ids ordered that are made in the same millisecond, or after the clock was set back.
static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());

/// A fresh UUID of version 7: later ones sort later. `Uuid::now_v7` panics if the clock is before 1970; this takes such a clock as 1970.
#[must_use]
pub fn fresh_uuid() -> Uuid {
    uuid_at(SystemTime::now())
}

fn uuid_at(now: SystemTime) -> Uuid {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let order = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
    Uuid::new_v7(Timestamp::from_unix(&*order, since.as_secs(), since.subsec_nanos()))
}

/// One call through the gate. Time-ordered: sorting ids sorts calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    /// A fresh id; ids made later sort later.
    #[must_use]
    pub fn fresh() -> Self {
        Self(fresh_uuid())
    }

    /// When it was made, in milliseconds since 1970: the first 48 bits of a UUID version 7.
    #[must_use]
    pub fn unix_millis(self) -> u64 {
        let [a, b, c, d, e, f, ..] = *self.0.as_bytes();
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The id as the sixteen bytes of its UUID.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        *self.0.as_bytes()
    }

    /// The id with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The id as ASCII, for writing it into a byte buffer.
    #[must_use]
    pub fn to_hyphenated(self) -> [u8; 36] {
        let mut digits = [0; 36];
        self.0.hyphenated().encode_lower(&mut digits);
        digits
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for CallId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Uuid::parse_str(text)
            .map(Self)
            .map_err(|_| InvalidId { text: text.to_owned(), wanted: "a call id (UUID)" })
    }
}

/// Text that is not a valid identifier of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidId {
    text: String,
    wanted: &'static str,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` is not {}", self.text.escape_debug(), self.wanted)
    }
}

impl std::error::Error for InvalidId {}

/// Names that may become a directory or a file: one to 128 of `A-Z a-z 0-9 . _ -`, not starting with a dot.
fn is_safe_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

macro_rules! safe_name {
    ($(#[$doc:meta])* $name:ident, $wanted:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                if is_safe_name(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { text: text.chars().take(60).collect(), wanted: $wanted })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

safe_name!(
    /// A conversation or a command-line session: what `undo --session` reverts.
    SessionId,
    "a session id (1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot)"
);
safe_name!(
    /// A run of a workflow: owns one `@state` directory.
    RunId,
    "a run id (1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot)"
);
safe_name!(
    /// An agent that the operator declared.
    AgentName,
    "an agent name (1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot)"
);
safe_name!(
    /// A tool's name as models see it, such as `read_file` or `fs.read`.
    ToolName,
    "a tool name (1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot)"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_makes_ids_that_differ_and_are_in_order() {
        let early = UNIX_EPOCH - std::time::Duration::from_secs(40 * 365 * 24 * 60 * 60);
        let ids: Vec<Uuid> = (0..100).map(|_| uuid_at(early)).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        assert!(fresh_uuid() > ids[99], "the clock was set right");
    }

    #[test]
    fn names_that_could_leave_a_folder_are_refused() {
        for bad in ["", ".", "..", ".hidden", "a/b", "a\\b", "a\0b", "a b", "é", &"x".repeat(129)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?} was accepted");
        }
        for good in ["a", "run-1", "fs.read", "A_b.9", &"x".repeat(128)] {
            assert_eq!(good.parse::<RunId>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn call_ids_sort_by_age() {
        let ids: Vec<CallId> = (0..1000).map(|_| CallId::fresh()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(ids[0].to_string().parse::<CallId>().unwrap(), ids[0]);
        assert_eq!(ids[0].to_string().as_bytes(), ids[0].to_hyphenated());
    }
}
