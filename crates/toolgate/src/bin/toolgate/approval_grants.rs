//! The lasting grants of a question: how the terminal shows them, and how an answer names one.

use toolgate_gate::{ApprovalRequest, GrantDuration, GrantOffer};

use crate::approval_screen::Screen;

/// What is typed after the number of a grant.
fn letter(lasts: GrantDuration) -> char {
    match lasts {
        GrantDuration::Session => 's',
        GrantDuration::Until(_) => 'u',
        GrantDuration::Workspace => 'w',
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
        let names: Vec<String> =
            offers.iter().map(|offer| format!("{number}{}", letter(offer.lasts))).collect();
        let covers = offers.first().map_or("", |offer| offer.covers.as_str());
        rows.push_str(&screen.line(&format!("[{}] yes, and to {covers}", names.join("|")), ""));
    }
    if let Some(offers) = by_coverage(question).next() {
        let lasts: Vec<String> =
            offers.iter().map(|offer| format!("{}: {}", letter(offer.lasts), offer.lasts.words())).collect();
        rows.push_str(&screen.line(&format!("    {}", lasts.join("; ")), ""));
    }
    rows
}

/// The id of the grant that an answer such as `2w` names.
pub(crate) fn chosen_grant(question: &ApprovalRequest, answer: &str) -> Option<String> {
    let letters = answer.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number: usize = answer.strip_suffix(letters)?.parse().ok()?;
    let offers = by_coverage(question).nth(number.checked_sub(1)?)?;
    let offer = offers.iter().find(|offer| letters.chars().eq([letter(offer.lasts)]))?;
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
        let end = GrantDuration::Until(1_700_000_000_000);
        question.grants = vec![
            offer("call-session", "exactly this", GrantDuration::Session),
            offer("call-week", "exactly this", end),
            offer("call-workspace", "exactly this", GrantDuration::Workspace),
            offer("command-session", "every command \"cargo test\"", GrantDuration::Session),
            offer("command-workspace", "every command \"cargo test\"", GrantDuration::Workspace),
        ];
        question
    }

    #[test]
    fn grants_are_shown_with_what_is_typed() {
        let screen = Screen { columns: 110, rows: None, unicode: true, colour: false };
        insta::assert_snapshot!(grant_rows(&offered(), screen), @r#"
        [1s|1u|1w] yes, and to exactly this
        [2s|2w] yes, and to every command "cargo test"
            s: in this session; u: in this workspace until 2023-11-14; w: in this workspace until revoked
        "#);
        assert_eq!(grant_rows(&questions::question(&[], PreviewBody::Nothing), screen), "");
    }

    #[test]
    fn an_answer_names_a_grant_that_was_offered_or_none() {
        for (answer, expected) in [
            ("1s", Some("call-session")),
            ("1u", Some("call-week")),
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
