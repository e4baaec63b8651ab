//! `docs/errors.md` lists every code, in order, as the profiles write it.

use serde_json::Value;
use toolgate_tools::{ModelAnswer, Profile};
use toolgate_types::{ErrorCode, Failure, Outcome, Stage};

use crate::markdown_tables::rows;

const PAGE: &str = include_str!("../../../../docs/errors.md");

#[test]
fn the_page_lists_every_code_as_the_profiles_spell_it() {
    let (spelt, explained): (Vec<String>, Vec<bool>) = rows(PAGE, "## The codes")
        .iter()
        .map(|cells| (cells[..cells.len() - 1].join(" | "), !cells[cells.len() - 1].is_empty()))
        .unzip();
    let wanted: Vec<String> = ErrorCode::ALL.iter().map(|code| row(*code)).collect();
    assert_eq!(spelt, wanted, "docs/errors.md should hold:\n| {} |", wanted.join(" | … |\n| "));
    assert!(explained.iter().all(|explained| *explained), "every code needs a meaning");
}

fn row(code: ErrorCode) -> String {
    let decision = failed(code).decision().as_str();
    let kind = if code.is_violation() { format!("{decision}, violation") } else { decision.to_owned() };
    let [crew, claw, sidecar] = [Profile::CREW, Profile::CLAW, Profile::SIDECAR].map(|p| spelling(p, code));
    format!("`{}` | {kind} | `{crew}` | `{claw}` | `{sidecar}`", code.as_str())
}

/// What the page says about the three profiles without a column.
#[test]
fn native_proxy_and_studio_spell_codes_as_they_are() {
    for code in ErrorCode::ALL {
        assert_eq!(spelling(Profile::NATIVE, *code), code.as_str());
        assert_eq!(spelling(Profile::PROXY, *code), code.as_str());
        assert_eq!(spelling(Profile::STUDIO, *code), code.as_str());
        let studio = answer(Profile::STUDIO, *code).structured.unwrap().into_value();
        assert_eq!(studio["metadata"]["violation"], code.is_violation(), "{}", code.as_str());
    }
}

#[test]
fn no_profile_takes_a_failure_for_a_success() {
    let each = |code| Profile::all().map(move |profile| (code, profile));
    for (code, profile) in ErrorCode::ALL.iter().flat_map(each) {
        let answer = answer(profile, *code);
        assert!(answer.is_error, "{profile} {}", code.as_str());
        assert!(!answer.text.starts_with("ok"), "{profile} {}", code.as_str());
        assert!(!answer.text.contains("only for the operator"), "{profile} {}", code.as_str());
    }
}

fn failed(code: ErrorCode) -> Outcome {
    let failure =
        Failure::new(code, "what is wrong").help("what would help").operator_note("only for the operator");
    Outcome::Failed { stage: Stage::Execution, failure }
}

fn answer(profile: Profile, code: ErrorCode) -> ModelAnswer {
    profile.render("read_file", failed(code))
}

/// How a profile names a code to a model.
fn spelling(profile: Profile, code: ErrorCode) -> String {
    let ModelAnswer { text, structured, .. } = answer(profile, code);
    let pointer = match profile.name() {
        "native" | "crew" | "proxy" | "sidecar" => "/error/code",
        "studio" => "/metadata/code",
        "claw" => return text.split(':').next().unwrap().to_owned(),
        other => panic!("the test does not know `{other}`"),
    };
    let structured = structured.unwrap();
    structured.into_value().pointer(pointer).and_then(Value::as_str).unwrap().to_owned()
}
