//! `cargo test`, and a second attempt for the tests that failed, alone.
//!
//! Two thousand tests share two cores, and some drive real clocks and processes. What fails beside the others and succeeds alone is named in the
//! summary, so that it is looked at, and does not fail the run.

use crate::Fault;
use crate::command::{Stream, cargo, listen};

/// More failures than this are no accident of scheduling.
const MAX_REPEATED: usize = 6;

/// Lines of a failed test's output that the summary shows.
const MAX_LINES: usize = 60;

/// Runs every test of the workspace. Returns the names of those that succeeded only at the second attempt.
pub(crate) fn run(seed: Option<(&str, &str)>) -> Result<Vec<String>, Fault> {
    let (succeeded, first) = attempt(&["test", "--workspace", "--no-fail-fast"], seed)?;
    if succeeded {
        return Ok(Vec::new());
    }
    if first.names.is_empty()
        || first.names.len() > MAX_REPEATED
        || first.names.iter().any(|name| is_document(name))
    {
        return Err(first.summary().into());
    }
    let mut arguments =
        vec!["test", "--workspace", "--no-fail-fast", "--tests", "--", "--test-threads=1", "--exact"];
    arguments.extend(first.names.iter().map(String::as_str));
    match attempt(&arguments, seed)? {
        (true, _) => Ok(first.names),
        (false, second) => Err(format!("{}\nand alone:\n{}", first.summary(), second.summary()).into()),
    }
}

fn attempt(arguments: &[&str], seed: Option<(&str, &str)>) -> Result<(bool, FailedTests), Fault> {
    let mut tests = cargo(arguments)?;
    tests.envs(seed);
    let mut failed = FailedTests::default();
    let succeeded = listen(tests, Stream::Output, |line| failed.read(line))?;
    Ok((succeeded, failed))
}

/// A test in a document has the place as its name, and belongs to no binary that could run it alone.
fn is_document(name: &str) -> bool {
    name.contains(" - ")
}

/// What failed, from the output of `libtest`: a block of output for each test, and then their names.
#[derive(Default)]
struct FailedTests {
    names: Vec<String>,
    output: Vec<String>,
    place: Place,
    shown: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Elsewhere,
    /// After the line `failures:`.
    Failures,
    /// In the output of a test.
    Output,
}

impl FailedTests {
    fn read(&mut self, line: &str) {
        let is_title = line.starts_with("---- ") && line.ends_with(" stdout ----");
        match self.place {
            _ if line == "failures:" => self.place = Place::Failures,
            _ if line.starts_with("test result: ") => self.place = Place::Elsewhere,
            Place::Failures | Place::Output if is_title => {
                (self.place, self.shown) = (Place::Output, 0);
                self.output.push(line.to_owned());
            }
            Place::Failures => {
                if let Some(name) = line.strip_prefix("    ").filter(|name| !name.starts_with(' ')) {
                    self.names.push(name.to_owned());
                }
            }
            Place::Output if self.shown < MAX_LINES => {
                self.shown += 1;
                self.output.push(line.to_owned());
            }
            Place::Output | Place::Elsewhere => {}
        }
    }

    fn summary(&self) -> String {
        match self.names.as_slice() {
            [] => "the tests did not run to their end".to_owned(),
            names => format!("{}\n{}", self.output.join("\n"), names.join("\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a::holds ... ok
test a::breaks ... FAILED
test b::breaks ... FAILED

failures:

---- a::breaks stdout ----

thread 'a::breaks' panicked at a.rs:1:2:
left
---- b::breaks stdout ----
right

failures:
    a::breaks
    b::breaks

test result: FAILED. 1 passed; 2 failed; 0 ignored

running 1 test
    not a name
test c ... ok
test result: ok. 1 passed; 0 failed; 0 ignored
";

    #[test]
    fn failed_tests_are_read_with_their_output() {
        let mut failed = FailedTests::default();
        OUTPUT.lines().for_each(|line| failed.read(line));
        assert_eq!(failed.names, ["a::breaks", "b::breaks"]);
        assert!(failed.summary().contains("panicked at a.rs:1:2:\nleft"), "{}", failed.summary());
        assert!(!failed.summary().contains("running"), "{}", failed.summary());
    }

    #[test]
    fn a_run_without_failures_has_no_names() {
        let mut failed = FailedTests::default();
        failed.read("test result: ok. 1 passed; 0 failed; 0 ignored");
        assert_eq!(failed.summary(), "the tests did not run to their end");
    }
}
