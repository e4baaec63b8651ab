//! The lasting grants of a question: how the terminal shows them, and how an answer names one.

use toolgate_gate::{ApprovalRequest, GrantDuration, GrantOffer, day_words};

use crate::approval_screen::Screen;

/// The days of a grant that ends on a day, if an answer does not say how many.
const USUAL_DAYS: u16 = 7;

/// What is typed after the number of a grant.
fn letter(lasts: GrantDuration) -> char {
    match lasts {
        GrantDuration::Session => 's',
        GrantDuration::Until { .. } => 'u',
        GrantDuration::Workspace => 'w',
    }
}

/// Whether an answer without its number says that a grant should last so long: `s`, `w`, `u`, or `u30` with the days.
fn names(answer: &str, lasts: GrantDuration) -> bool {
    let days = match (lasts, answer.strip_prefix(letter(lasts))) {
        (_, None) => return false,
        (GrantDuration::Until { days, .. }, Some(named)) => (days, named),
        (GrantDuration::Session | GrantDuration::Workspace, Some(rest)) => return rest.is_empty(),
    };
    match days {
        (days, "") => days == USUAL_DAYS,
        (days, named) => named == days.to_string(),
    }
}

/// The offers that cover the same, in order.
fn by_coverage(question: &ApprovalRequest) -> impl Iterator<Item = &[GrantOffer]> {
    question.grants.chunk_by(|one, other| one.covers == other.covers)
}

/// The rows above the choices: what each grant covers, and how long it can last.
pub(crate) fn grant_rows(question: &ApprovalRequest, screen: Screen) -> String {
    let mut rows = String::new();
    for (number, offers) in (1..).zip(by_coverage(question)) {
        let mut names: Vec<String> =
            offers.iter().map(|offer| format!("{number}{}", letter(offer.lasts))).collect();
        names.dedup();
        let covers = offers.first().map_or("", |offer| offer.covers.as_str());
        rows.push_str(&screen.line(&format!("[{}] yes, and to {covers}", names.join("|")), ""));
    }
    if let Some(offers) = by_coverage(question).next() {
        rows.push_str(&screen.line(&format!("    {}", duration_words(offers)), ""));
    }
    rows
}

/// How long each letter lasts: `s: in this session; u: in this workspace until 2026-11-26 (u1: 2026-11-20, u30: 2026-12-19); …`.
fn duration_words(offers: &[GrantOffer]) -> String {
    let others: Vec<String> = offers
        .iter()
        .filter_map(|offer| match offer.lasts {
            GrantDuration::Until { end, days } if days != USUAL_DAYS => {
                Some(format!("u{days}: {}", day_words(end)))
            }
            _ => None,
        })
        .collect();
    let usual =
        |lasts: GrantDuration| !matches!(lasts, GrantDuration::Until { days, .. } if days != USUAL_DAYS);
    let words = offers.iter().filter(|offer| usual(offer.lasts)).map(|offer| {
        let has_others = matches!(offer.lasts, GrantDuration::Until { .. }) && !others.is_empty();
        let more = if has_others { format!(" ({})", others.join(", ")) } else { String::new() };
        format!("{}: {}{more}", letter(offer.lasts), offer.lasts.words())
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The id of the grant that an answer such as `2w` names.
pub(crate) fn chosen_grant(question: &ApprovalRequest, answer: &str) -> Option<String> {
    let letters = answer.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number: usize = answer.strip_suffix(letters)?.parse().ok()?;
    let offers = by_coverage(question).nth(number.checked_sub(1)?)?;
    let offer = offers.iter().find(|offer| names(letters, offer.lasts))?;
    Some(offer.id.clone())
}

#[cfg(test)]
mod tests {
    use toolgate_gate::{Preview, PreviewBody};

    use super::*;

    mod questions {
        include!("../../../../gate/tests/shared/question.rs");
    }

    fn offered() -> ApprovalRequest {
        let mut question = questions::question(&["run in @project"], PreviewBody::Nothing);
        let offer = |id: &str, covers: &str, lasts| GrantOffer {
            id: id.to_owned(),
            covers: covers.to_owned(),
            lasts,
        };
        let until =
            |days: u16| GrantDuration::Until { end: 1_700_000_000_000 + i64::from(days) * 86_400_000, days };
        question.grants = vec![
            offer("call-session", "exactly this", GrantDuration::Session),
            offer("call-day", "exactly this", until(1)),
            offer("call-week", "exactly this", until(7)),
            offer("call-month", "exactly this", until(30)),
            offer("call-workspace", "exactly this", GrantDuration::Workspace),
            offer("command-session", "every command \"cargo test\"", GrantDuration::Session),
            offer("command-workspace", "every command \"cargo test\"", GrantDuration::Workspace),
        ];
        question
    }

    #[test]
    fn grants_are_shown_with_what_is_typed() {
        let screen = Screen { columns: 140, rows: None, unicode: true, colour: false };
        insta::assert_snapshot!(grant_rows(&offered(), screen), @r#"
        [1s|1u|1w] yes, and to exactly this
        [2s|2w] yes, and to every command "cargo test"
            s: in this session; u: in this workspace until 2023-11-21 (u1: 2023-11-15, u30: 2023-12-14); w: in this workspace until revoked
        "#);
        assert_eq!(grant_rows(&questions::question(&[], PreviewBody::Nothing), screen), "");
    }

    #[test]
    fn an_answer_names_a_grant_that_was_offered_or_none() {
        for (answer, expected) in [
            ("1s", Some("call-session")),
            ("1u", Some("call-week")),
            ("1u1", Some("call-day")),
            ("1u7", Some("call-week")),
            ("1u30", Some("call-month")),
            ("1u2", None),
            ("1u01", None),
            ("1u 1", None),
            ("1s1", None),
            ("1w7", None),
            ("2w", Some("command-workspace")),
            ("2u", None),
            ("3s", None),
            ("0s", None),
            ("1", None),
            ("s", None),
            ("1ss", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("call-session", None),
            ("", None),
        ] {
            assert_eq!(chosen_grant(&offered(), answer).as_deref(), expected, "{answer:?}");
        }
    }
}
