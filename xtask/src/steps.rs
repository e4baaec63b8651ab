//! Several steps with headings, each timed, and one verdict at the end.

use std::time::{Duration, Instant};

use crate::Fault;

/// The steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    taken: Vec<Taken>,
    notes: Vec<String>,
}

struct Taken {
    title: &'static str,
    elapsed: Duration,
    fault: Option<Fault>,
}

impl Steps {
    /// Runs a step. A failure does not prevent the next steps: one run shows everything.
    pub(crate) fn take(&mut self, title: &'static str, step: impl FnOnce() -> Result<(), Fault>) {
        println!("\n=== {title}");
        let start = Instant::now();
        let fault = step().err();
        if let Some(fault) = &fault {
            println!("{fault}");
        }
        self.taken.push(Taken { title, elapsed: start.elapsed(), fault });
    }

    /// Keeps something that succeeded, and that a reader of the summary should know.
    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Prints what failed and why, the duration of each step, and whether all succeeded.
    ///
    /// The output of a run has thousands of lines, and a reader may have only its end.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        println!("\n=== Summary");
        for Taken { title, fault, .. } in &self.taken {
            if let Some(fault) = fault {
                println!("--- {title} failed\n{fault}\n");
            }
        }
        for note in &self.notes {
            println!("note: {note}");
        }
        for Taken { title, elapsed, fault } in &self.taken {
            let word = if fault.is_none() { "ok" } else { "FAILED" };
            println!("{word:>6}  {:>7.1}s  {title}", elapsed.as_secs_f64());
        }
        let failed: Vec<&str> =
            self.taken.iter().filter(|step| step.fault.is_some()).map(|step| step.title).collect();
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_whole_and_hides_nothing_after_it() {
        let mut steps = Steps::default();
        let mut taken = 0;
        steps.take("first", || Err("broken".into()));
        steps.take("second", || {
            taken += 1;
            Ok(())
        });
        assert_eq!(taken, 1);
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: first");
    }
}
