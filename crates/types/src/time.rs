//! Timestamps as audit records write them: UTC, RFC 3339, milliseconds.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// Whether the clock of this machine is before 1970. rustls panics then while it verifies a certificate, so no connection is opened.
#[must_use]
pub fn is_before_1970() -> bool {
    std::time::SystemTime::now() < std::time::UNIX_EPOCH
}

/// The reason why no connection is opened then.
pub const BEFORE_1970: &str =
    "the clock of this machine is before 1970, so that no certificate can be checked";

static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// `2026-11-15T05:01:02.003Z`.
#[must_use]
pub fn rfc3339_millis(moment: Timestamp) -> String {
    PRINTER.timestamp_to_string(&moment)
}

/// Appends the same to a byte buffer.
pub fn put_rfc3339_millis(moment: Timestamp, bytes: &mut Vec<u8>) {
    // Cannot fail: a `Vec` grows.
    let _ = PRINTER.print_timestamp(&moment, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_three_digits() {
        let moment = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        assert_eq!(rfc3339_millis(moment), "2023-11-14T22:13:20.000Z");
    }

    #[test]
    fn a_time_is_cut_and_never_rounded() {
        for (moment, expected) in [
            ("1969-12-31T23:59:59.9995Z", "1969-12-31T23:59:59.999Z"),
            ("2024-02-29T23:59:59.999999999Z", "2024-02-29T23:59:59.999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
        ] {
            let moment = moment.parse().unwrap();
            let mut bytes = b"at ".to_vec();
            put_rfc3339_millis(moment, &mut bytes);
            assert_eq!(rfc3339_millis(moment), expected);
            assert_eq!(bytes, format!("at {expected}").into_bytes());
        }
    }
}
