//! Several steps with headings, each timed, and one verdict at the end.

use std::time::{Duration, Instant};

use crate::Fault;

/// The steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    taken: Vec<Taken>,
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

    /// Prints the duration of each step, and whether all succeeded.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        println!("\n=== Summary");
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
