//! Time stamps as records write them: UTC, RFC 3339, milliseconds.

use jiff::Timestamp;

/// `2026-11-15T05:01:02.003Z`.
#[must_use]
pub fn rfc3339_millis(moment: Timestamp) -> String {
    format!("{moment:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_three_digits() {
        let moment = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        assert_eq!(rfc3339_millis(moment), "2023-11-14T22:13:20.000Z");
    }
}
