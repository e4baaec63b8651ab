//! A page with the evidence of each case, in one file without scripts.

use std::fmt::Write as _;

use serde_json::Value;

use super::markup;
use crate::evidence::field;
use crate::runner::{CaseResult, TryResult};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:light-dark(#d9dbe0,#33363d);--quiet:light-dark(#5a5f6a,#9aa0ab);--good:light-dark(#116b3a,#5cc98d);--bad:light-dark(#a4161a,#ff8b8b)}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:0}.sum{color:var(--quiet);margin:.25rem 0 1.5rem}\
details{border:1px solid var(--line);border-radius:8px;margin:.5rem 0}summary{padding:.6rem .9rem;cursor:pointer;display:flex;gap:.75rem;align-items:baseline}\
summary b{font-weight:600}summary .kind,summary .time{color:var(--quiet);font-size:.85em}summary .time{margin-left:auto}\
.ok{color:var(--good)}.no{color:var(--bad)}.in{padding:0 .9rem .9rem;border-top:1px solid var(--line)}\
table{border-collapse:collapse;width:100%;font-size:.9em}td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}h3{font-size:.95rem;margin:1rem 0 .3rem}p{margin:.6rem 0}";

/// The page.
#[must_use]
pub fn html(results: &[CaseResult]) -> String {
    let passed = results.iter().filter(|result| result.passed()).count();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>toolgate eval</title><style>{STYLE}</style></head><body><h1>toolgate eval</h1>\
         <p class=\"sum\">{passed} of {} cases passed</p>\n",
        results.len()
    );
    for result in results {
        case(&mut page, result);
    }
    page + "</body></html>\n"
}

fn case(page: &mut String, result: &CaseResult) {
    let passed = result.passed();
    let (class, word) = if passed { ("ok", "passed") } else { ("no", "failed") };
    let took: u128 = result.tries.iter().map(|one| one.took.as_millis()).sum();
    let _ = write!(
        page,
        "<details{}><summary><span class=\"{class}\">{word}</span><b>{}</b><span class=\"kind\">{}</span>\
         <span class=\"time\">{took} ms</span></summary><div class=\"in\"><p>{}</p><p>Prompt: <code>{}</code></p>",
        if passed { "" } else { " open" },
        markup(&result.case.name),
        result.case.kind.as_str(),
        markup(&result.case.about),
        markup(&result.case.prompt),
    );
    for one in &result.tries {
        attempt(page, one);
    }
    page.push_str("</div></details>\n");
}

fn attempt(page: &mut String, one: &TryResult) {
    if let Some(broken) = &one.broken {
        let _ = write!(page, "<p class=\"no\">{}</p>", markup(broken));
    }
    page.push_str("<h3>Calls</h3><table><tr><th>Tool</th><th>Arguments</th><th>Result</th></tr>");
    for (tool, input, succeeded) in &one.calls {
        let (class, word) = if *succeeded { ("", "succeeded") } else { ("no", "refused or failed") };
        let _ = write!(
            page,
            "<tr><td><code>{}</code></td><td><code>{}</code></td><td class=\"{class}\">{word}</td></tr>",
            markup(tool),
            markup(&input.to_string())
        );
    }
    page.push_str("</table><h3>Record</h3><table><tr><th>Decision</th><th>Tool</th><th>Stage</th><th>Code</th><th>Caller</th></tr>");
    for record in &one.records {
        record_row(page, record);
    }
    page.push_str("</table><h3>Checks</h3><table>");
    for check in &one.checks {
        let (class, word) = if check.problem.is_none() { ("ok", "holds") } else { ("no", "does not hold") };
        let problem = check.problem.as_deref().unwrap_or_default();
        let _ = write!(
            page,
            "<tr><td class=\"{class}\">{word}</td><td>{}</td><td>{}</td></tr>",
            markup(check.check),
            markup(problem)
        );
    }
    let _ = write!(page, "</table><h3>Answer</h3><p>{}</p>", markup(&one.answer));
}

fn record_row(page: &mut String, record: &Value) {
    page.push_str("<tr>");
    for pointer in ["/decision", "/tool/name", "/denial/stage", "/denial/code", "/caller/sub"] {
        let _ = write!(page, "<td><code>{}</code></td>", markup(field(record, pointer)));
    }
    page.push_str("</tr>");
}
