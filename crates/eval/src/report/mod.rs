//! What is reported: a table, JSON, JUnit and a page with the evidence.

mod html;

use std::fmt::Write as _;

use serde_json::{Value, json};

pub use html::html;

use crate::runner::{CaseResult, TryResult};

/// One row per case, with the problems of those that failed below it, and a summary.
#[must_use]
pub fn table(results: &[CaseResult]) -> String {
    let mut text = String::new();
    let width = results.iter().map(|result| result.case.name.len()).max().unwrap_or_default();
    for result in results {
        let word = if result.passed() { "passed" } else { "FAILED" };
        let tries = result.tries.len();
        let held = result.tries.iter().filter(|one| one.passed()).count();
        let of = if tries > 1 { format!("  {held}/{tries}") } else { String::new() };
        let calls: usize = result.tries.iter().map(|one| one.calls.len()).sum();
        let _ = writeln!(
            text,
            "{word}  {:<width$}  {:<10}  {calls:>3} calls  {:>5} ms{of}",
            result.case.name,
            result.case.kind.as_str(),
            result.tries.iter().map(|one| one.took.as_millis()).sum::<u128>(),
        );
        for problem in result.tries.iter().flat_map(TryResult::problems) {
            let _ = writeln!(text, "        {problem}");
        }
    }
    let passed = results.iter().filter(|result| result.passed()).count();
    let _ = writeln!(text, "{passed} of {} cases passed", results.len());
    text
}

/// Everything, for programs.
#[must_use]
pub fn json(results: &[CaseResult]) -> Value {
    let cases: Vec<Value> = results.iter().map(case_json).collect();
    let passed = results.iter().filter(|result| result.passed()).count();
    json!({"passed": passed, "failed": results.len() - passed, "cases": cases})
}

fn case_json(result: &CaseResult) -> Value {
    let tries: Vec<Value> = result
        .tries
        .iter()
        .map(|one| {
            let checks: Vec<Value> = one
                .checks
                .iter()
                .map(|check| json!({"check": check.check, "ok": check.problem.is_none(), "problem": check.problem}))
                .collect();
            let calls: Vec<Value> = one
                .calls
                .iter()
                .map(|(tool, input, succeeded)| json!({"tool": tool, "arguments": input, "succeeded": succeeded}))
                .collect();
            json!({
                "player": one.player.as_str(), "passed": one.passed(), "problem": one.broken, "checks": checks, "calls": calls,
                "answer": one.answer, "records": one.records,
                "durationMs": u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX),
            })
        })
        .collect();
    json!({
        "name": result.case.name, "kind": result.case.kind.as_str(), "about": result.case.about,
        "passed": result.passed(), "tries": tries,
    })
}

/// The JUnit format that continuous integration systems read.
#[must_use]
pub fn junit(results: &[CaseResult]) -> String {
    let failures = results.iter().filter(|result| !result.passed()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"toolgate eval\" tests=\"{}\" failures=\"{failures}\">\n",
        results.len()
    );
    for result in results {
        let seconds: f64 = result.tries.iter().map(|one| one.took.as_secs_f64()).sum();
        let _ = write!(
            text,
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\"",
            result.case.kind.as_str(),
            markup(&result.case.name)
        );
        let problems: Vec<String> = result.tries.iter().flat_map(TryResult::problems).collect();
        match problems.first() {
            None => text.push_str("/>\n"),
            Some(first) => {
                let _ = writeln!(
                    text,
                    ">\n    <failure message=\"{}\">{}</failure>\n  </testcase>",
                    markup(first),
                    markup(&problems.join("\n"))
                );
            }
        }
    }
    text + "</testsuite>\n"
}

/// Text of others in XML or HTML: markup and what XML 1.0 cannot hold is escaped.
fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            other
                if other.is_control()
                    || ('\u{200b}'..='\u{206f}').contains(&other)
                    || other == '\u{feff}' =>
            {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(other));
            }
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_no_markup() {
        assert_eq!(
            markup("<b a='\"'>&\u{202e}\u{1b}\n"),
            "&lt;b a=&#39;&quot;&#39;&gt;&amp;\\u{202e}\\u{1b}\n"
        );
    }
}
