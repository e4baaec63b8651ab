//! Durations and sizes such as `30s` and `256KiB`.

use std::time::Duration;

use crate::problem::shown;

/// Units of time, in milliseconds.
const TIME_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Units of size, in bytes; case-insensitive.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Why a text is not a quantity, and a remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidQuantity {
    pub(crate) message: String,
    pub(crate) help: String,
}

/// Parses a duration that may be `0s`.
pub(crate) fn duration_or_none(text: &str) -> Result<Duration, InvalidQuantity> {
    let (number, unit) = split(text);
    let is_none = !number.is_empty() && number.bytes().all(|digit| digit == b'0');
    match is_none && TIME_UNITS.iter().any(|(name, _)| *name == unit) {
        true => Ok(Duration::ZERO),
        false => duration(text),
    }
}

/// Parses a duration of at least one millisecond.
pub(crate) fn duration(text: &str) -> Result<Duration, InvalidQuantity> {
    const HELP: &str = "write a whole number and `ms`, `s`, `m`, `h` or `d`, such as `30s` or `500ms`";
    let (number, unit) = split(text);
    if unit.is_empty() && !number.is_empty() {
        let help = format!("say the unit, such as `{number}s` or `{number}ms`");
        return Err(InvalidQuantity { message: format!("`{}` has no unit of time", shown(text)), help });
    }
    let scale = TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    multiply(text, number, scale, "a time", HELP).map(Duration::from_millis)
}

/// Parses a size of at least one byte.
pub(crate) fn size(text: &str) -> Result<u64, InvalidQuantity> {
    const HELP: &str = "write a whole number of bytes, or one with `KB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`, such as `256KiB`";
    let (number, unit) = split(text);
    let scale = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, scale)| *scale);
    multiply(text, number, scale, "a size", HELP)
}

/// Parses a count of at least one.
pub(crate) fn count(text: &str) -> Result<u64, InvalidQuantity> {
    let (number, unit) = split(text);
    multiply(text, number, unit.is_empty().then_some(1), "a count", "write a whole number, such as `500`")
}

/// The leading digits, and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number, rest.trim_start_matches(' '))
}

fn multiply(
    text: &str,
    number: &str,
    scale: Option<u64>,
    what: &str,
    help: &str,
) -> Result<u64, InvalidQuantity> {
    let misfit = |message: String| InvalidQuantity { message, help: help.to_owned() };
    let Some(scale) = scale.filter(|_| !number.is_empty()) else {
        return Err(misfit(format!("`{}` is not {what}", shown(text))));
    };
    let product = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    match product {
        Some(0) => Err(misfit(format!("`{}` is nothing at all", shown(text)))),
        Some(product) => Ok(product),
        None => Err(misfit(format!("`{}` is too large", shown(text)))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("1", 1),
            ("20000", 20_000),
            ("7B", 7),
            ("256KiB", 262_144),
            ("256 KiB", 262_144),
            ("100kb", 100_000),
            ("1MB", 1_000_000),
            ("1mib", 1_048_576),
            ("2GiB", 2_147_483_648),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000), ("2d", 172_800_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(count("500"), Ok(500));
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            "x",
            "-1",
            "+1",
            "0",
            "0KiB",
            "1.5MB",
            "1K",
            "1 2",
            "1KiBs",
            "0x10",
            "１",
            "18446744073709551616",
        ] {
            assert!(size(text).is_err(), "{text} was accepted as a size");
        }
        for text in ["", "s", "30", "0s", "1.5s", "-1s", "30S", "30 sec", "1w", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text} was accepted as a time");
        }
        for text in ["", "0", "5KiB", "-3", "three"] {
            assert!(count(text).is_err(), "{text} was accepted as a count");
        }
    }

    proptest! {
        #[test]
        fn any_number_and_unit_reads_as_their_product(number in 1u64..=u64::MAX, unit in 0..SIZE_UNITS.len()) {
            let (name, scale) = SIZE_UNITS[unit];
            let wide = u128::from(number) * u128::from(scale);
            prop_assert_eq!(size(&format!("{number}{name}")).ok(), u64::try_from(wide).ok());
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            let _ = (size(&text), duration(&text), count(&text));
        }
    }
}
