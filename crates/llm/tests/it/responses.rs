//! OpenAI Responses.

use toolgate_llm::Wire;

use crate::stream::{any_chunking, cut_anywhere, snapshots};

const FOLDER: &str = "openai";

#[test]
fn streams_become_events() {
    snapshots(Wire::Openai, FOLDER);
}

#[test]
fn streams_may_come_in_any_pieces() {
    any_chunking(Wire::Openai, FOLDER);
}

#[test]
fn streams_that_break_off_make_no_calls() {
    cut_anywhere(Wire::Openai, FOLDER);
}
