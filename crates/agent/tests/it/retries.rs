//! A failed step is retried if that may help; its partial output is void.

use std::time::Duration;

use toolgate_agent::{ChatEvent, EndReason};
use toolgate_llm::{ErrorKind, ProviderError, Usage};

use crate::event_log;
use crate::fake_model::{FakeModel, StepEnd, call, fail, say};
use crate::fixture::AgentFixture;

fn failing(kind: ErrorKind) -> StepEnd {
    StepEnd::Fail(ProviderError::new(kind, "it went wrong").help("wait a while"))
}

#[test]
fn a_step_is_tried_again_and_what_was_said_is_void() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![
        fail(ErrorKind::Overloaded, "too much to do"),
        say("Half an ans").ends(failing(ErrorKind::Truncated)),
        // An incomplete call is not a call.
        call("write_file", r#"{"path": "c.txt", "content": "no"}"#).after("I wri").ends(StepEnd::Break),
        say("A whole answer."),
    ]);
    let held = world.turn(model, "Go.");
    insta::assert_snapshot!(held.story());
    assert!(!world.workspace.join("c.txt").exists());
}

/// Failed attempts are paid for too; the context only contains the successful one.
#[test]
fn tries_that_failed_are_counted() {
    let usage = |input_tokens, output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
    let world = AgentFixture::new();
    let broken = || say("Half an ans").ends(StepEnd::Break).uses(1000, 500);
    let held = world.turn(FakeModel::steps(vec![broken(), say("A whole answer.").uses(1000, 7)]), "Go.");
    assert_eq!(held.ended.usage, usage(2000, 507));
    let used = held.events.iter().find_map(|event| match event {
        ChatEvent::Context { used_tokens, .. } => Some(*used_tokens),
        _ => None,
    });
    assert_eq!(used, Some(1007));
    let held = AgentFixture::new().turn(FakeModel::steps(vec![broken()]), "Go.");
    assert_eq!((held.ended.reason, held.ended.usage), (EndReason::ProviderError, usage(4000, 2000)));
}

#[test]
fn nothing_is_tried_for_ever() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![fail(ErrorKind::Overloaded, "too much to do")]);
    let held = world.turn(model.clone(), "Go.");
    insta::assert_snapshot!(held.story());
    assert_eq!(model.asked().len(), 4);
}

#[test]
fn what_does_not_pass_by_itself_is_not_tried_again() {
    for kind in ErrorKind::ALL.iter().copied().filter(|kind| !kind.is_retryable()) {
        if kind == ErrorKind::ContextExceeded {
            continue;
        }
        let world = AgentFixture::new();
        let model = FakeModel::steps(vec![say("Half").ends(failing(kind))]);
        let held = world.turn(model.clone(), "Go.");
        assert_eq!(held.ended.reason, EndReason::ProviderError);
        assert_eq!(held.ended.text, "it went wrong; wait a while");
        assert_eq!(model.asked().len(), 1, "{}", kind.as_str());
        assert_eq!(event_log::kept(&held.messages), "user: Go.\n");
    }
}

/// A `Retry-After` beyond the turn's deadline.
#[test]
fn nobody_waits_longer_than_there_is_time() {
    let world = AgentFixture::new();
    let mut error = ProviderError::new(ErrorKind::RateLimited, "too often");
    error.retry_after = Some(Duration::from_secs(100));
    let model = FakeModel::steps(vec![say("").ends(StepEnd::Fail(error))]);
    let how = world.how().settings(|settings| settings.time_limit = Some(Duration::from_secs(90)));
    let held = world.turn_as(model.clone(), "Go.", how);
    assert_eq!((held.ended.reason, model.asked().len()), (EndReason::ProviderError, 1));
}

#[test]
fn waiting_for_another_try_can_be_cancelled() {
    let world = AgentFixture::new();
    let mut error = ProviderError::new(ErrorKind::RateLimited, "too often");
    error.retry_after = Some(Duration::from_secs(100));
    let model = FakeModel::steps(vec![say("").ends(StepEnd::Fail(error))]);
    let how = world.how().cancel_when(|event| matches!(event, ChatEvent::Error { .. }));
    let held = world.turn_as(model.clone(), "Go.", how);
    assert_eq!((held.ended.reason, model.asked().len()), (EndReason::Cancelled, 1));
    let waits: Vec<_> = held
        .events
        .iter()
        .filter_map(|event| match event {
            ChatEvent::Error { wait_ms, .. } => Some(wait_ms.unwrap() >= 100_000),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [true]);
}

/// However a turn ended, the next one works.
#[test]
fn after_a_failure_the_conversation_goes_on() {
    let world = AgentFixture::new();
    let model = FakeModel::steps(vec![
        call("read_file", r#"{"path": "a.txt"}"#),
        fail(ErrorKind::Unauthorized, "the key is not good"),
        say("It says hello."),
    ]);
    world.runtime.block_on(async {
        let mut session = world.session("talk").await;
        let first = world.hold(model.clone(), &mut session, "What does it say?", world.how()).await;
        assert_eq!(first.ended.reason, EndReason::ProviderError);
        let second = world.hold(model, &mut session, "Again, please.", world.how()).await;
        insta::assert_snapshot!(second.story());
        assert_eq!(session.summary().usage, Default::default());
    });
}
