//! Timestamps as audit records write them: UTC, RFC 3339, milliseconds.

use jiff::Timestamp;
use jiff::tz::Offset;

/// Whether the clock of this machine is before 1970. rustls panics then while it verifies a certificate, so no connection is opened.
#[must_use]
pub fn is_before_1970() -> bool {
    std::time::SystemTime::now() < std::time::UNIX_EPOCH
}

/// The reason why no connection is opened then.
pub const BEFORE_1970: &str =
    "the clock of this machine is before 1970, so that no certificate can be checked";

/// `2026-11-15T05:01:02.003Z`.
#[must_use]
pub fn rfc3339_millis(moment: Timestamp) -> String {
    match digits(moment) {
        Some(digits) => String::from_utf8_lossy(&digits).into_owned(),
        None => format!("{moment:.3}"),
    }
}

/// Appends the same to a byte buffer.
pub fn put_rfc3339_millis(moment: Timestamp, bytes: &mut Vec<u8>) {
    match digits(moment) {
        Some(digits) => bytes.extend_from_slice(&digits),
        None => bytes.extend_from_slice(rfc3339_millis(moment).as_bytes()),
    }
}

/// The timestamp, unless its year does not fit into four digits: years before 0 do not.
fn digits(moment: Timestamp) -> Option<[u8; 24]> {
    let at = Offset::UTC.to_datetime(moment);
    let year = u16::try_from(at.year()).ok()?;
    let millis = at.millisecond().unsigned_abs();
    let of = |part: i8| u16::from(part.unsigned_abs());
    let mut digits = *b"0000-00-00T00:00:00.000Z";
    let pairs = [
        (0, year / 100),
        (2, year % 100),
        (5, of(at.month())),
        (8, of(at.day())),
        (11, of(at.hour())),
        (14, of(at.minute())),
        (17, of(at.second())),
        (20, millis / 10),
    ];
    for (place, number) in pairs {
        digits
            .iter_mut()
            .skip(place)
            .zip([number / 10, number % 10])
            .for_each(|(zero, digit)| *zero += digit as u8);
    }
    let [.., last, _] = &mut digits;
    *last += (millis % 10) as u8;
    Some(digits)
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    #[test]
    fn keeps_three_digits() {
        let moment = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        assert_eq!(rfc3339_millis(moment), "2023-11-14T22:13:20.000Z");
    }

    #[test]
    fn every_moment_is_written_as_jiff_writes_it() {
        let edges = [
            Timestamp::MIN,
            Timestamp::MAX,
            Timestamp::UNIX_EPOCH,
            "2024-02-29T23:59:59.999999999Z".parse().unwrap(),
            "0000-01-01T00:00:00Z".parse().unwrap(),
            "1969-12-31T23:59:59.9995Z".parse().unwrap(),
        ];
        let near = |moment: Timestamp| {
            [-1_000_000_000, -1_000_000, -1, 0, 1, 999_999, 1_000_000_000]
                .into_iter()
                .filter_map(move |nanoseconds: i64| moment.checked_add(nanoseconds.nanoseconds()).ok())
        };
        // The step is no multiple of a day, an hour or a second, so it reaches every hour, month and kind of year.
        let everywhere = (0..199_000).filter_map(|step: i64| {
            let moment = Timestamp::MIN.checked_add((step * 3_155_761).seconds()).ok()?;
            moment.checked_add((step * 7_654_321).nanoseconds()).ok()
        });
        for moment in edges.into_iter().flat_map(near).chain(everywhere) {
            let mut bytes = b"at ".to_vec();
            put_rfc3339_millis(moment, &mut bytes);
            assert_eq!(rfc3339_millis(moment), format!("{moment:.3}"));
            assert_eq!(bytes, format!("at {moment:.3}").into_bytes());
        }
    }
}
