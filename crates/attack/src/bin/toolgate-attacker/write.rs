//! Makes changes through a gate until it is killed, and prints each before and after.

use std::path::Path;

use toolgate_attack::{BenchOptions, CHANGES, Diary, person};
use toolgate_tools::Profile;
use toolgate_types::ToolCall;

pub(crate) fn run(workspace: &Path, state: &Path, writer: &str) {
    let bench = BenchOptions::new(Profile::NATIVE, workspace, state).open();
    let mut versions = CHANGES.map(|change| change.version(workspace, writer));
    loop {
        for (change, version) in CHANGES.into_iter().zip(&mut versions) {
            let (tool, arguments) = change.call(writer, *version);
            let call = ToolCall::new(tool, arguments);
            let id = call.id;
            println!("{}", Diary::begin_line(id, change, *version + 1));
            let called = bench.make(call, person(writer));
            assert!(!called.answer.is_error, "{change:?}: {}", called.answer.text);
            println!("{}", Diary::answer_line(id));
            *version += 1;
        }
    }
}
