//! A call that tries to leave its bounds: the model is informed, or the conversation ends.

use serde_json::json;
use toolgate_agent::EndReason;
use toolgate_tools::Profile;
use toolgate_types::OnViolation;

use crate::event_log;
use crate::fake_model::{FakeModel, calls, say};
use crate::fixture::AgentFixture;

/// How each profile reads a file.
fn reading(profile: Profile) -> (&'static str, &'static str) {
    match profile.name() {
        "crew" => ("fs.read", "@project/../../outside.txt"),
        "studio" => ("file_read", "../../outside.txt"),
        _ => ("read_file", "../../outside.txt"),
    }
}

#[test]
fn each_profile_does_what_it_says() {
    for profile in Profile::all() {
        if profile == Profile::PROXY {
            // Its tools are commands in the sandbox, which need the binary: the command line's tests cover them.
            continue;
        }
        let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
        let world = AgentFixture::of(profile, |options| options.package(&package));
        let (tool, path) = reading(profile);
        let arguments = json!({"path": path}).to_string();
        let model =
            FakeModel::steps(vec![calls(&[(tool, &arguments), (tool, &arguments)]), say("I may not.")]);
        let held = world.turn(model.clone(), "Read it.");
        let stops = profile == Profile::STUDIO;
        let wanted = if stops { EndReason::Violation } else { EndReason::Done };
        assert_eq!(held.ended.reason, wanted, "{profile}: {}", held.story());
        assert_eq!(model.asked().len(), if stops { 1 } else { 2 }, "{profile}");
        insta::assert_snapshot!(format!("violation_{profile}"), event_log::told(&held.events));
    }
}

#[test]
fn the_operator_decides_otherwise() {
    for (profile, answer) in [(Profile::NATIVE, OnViolation::Stop), (Profile::STUDIO, OnViolation::Answer)] {
        let world = AgentFixture::of(profile, |options| options);
        let (tool, path) = reading(profile);
        let model =
            FakeModel::steps(vec![calls(&[(tool, &json!({"path": path}).to_string())]), say("I may not.")]);
        let how = world.how().settings(|settings| settings.on_violation = answer);
        let held = world.turn_as(model, "Read it.", how);
        let wanted = if answer == OnViolation::Stop { EndReason::Violation } else { EndReason::Done };
        assert_eq!(held.ended.reason, wanted, "{profile}");
    }
}

/// A mistake is not a violation.
#[test]
fn a_file_that_is_not_there_ends_nothing() {
    let world = AgentFixture::of(Profile::STUDIO, |options| options);
    let model = FakeModel::steps(vec![
        calls(&[("file_read", r#"{"path": "missing.txt"}"#)]),
        say("It is not there."),
    ]);
    assert_eq!(world.turn(model, "Read it.").ended.reason, EndReason::Done);
}
