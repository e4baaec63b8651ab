//! A page with the evidence of each case, in one file without scripts.

use std::fmt::Write as _;

use serde_json::Value;

use super::markup;
use crate::case::CaseKind;
use crate::evidence::field;
use crate::runner::{CaseResult, TryResult};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:light-dark(#d9dbe0,#33363d);--quiet:light-dark(#5a5f6a,#9aa0ab);--good:light-dark(#116b3a,#5cc98d);--bad:light-dark(#a4161a,#ff8b8b);\
--card:light-dark(#fff,#1b1d21);--page:light-dark(#f6f7f9,#121316)}\
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;background:var(--page)}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}.sum{color:var(--quiet);margin:.25rem 0 1rem}\
.sum b{font-weight:600}.bar{display:flex;height:.4rem;border-radius:.2rem;overflow:hidden;background:var(--bad);margin:.6rem 0}.bar span{background:var(--good)}\
details{border:1px solid var(--line);border-radius:8px;margin:.4rem 0;background:var(--card)}details.bad{border-color:var(--bad)}\
summary{padding:.55rem .9rem;cursor:pointer;display:flex;flex-wrap:wrap;gap:.1rem .75rem;align-items:baseline}\
summary b{font-weight:600;overflow-wrap:anywhere}summary .kind,summary .time{color:var(--quiet);font-size:.85em}summary .time{margin-left:auto;font-variant-numeric:tabular-nums}\
.ok{color:var(--good)}.no{color:var(--bad)}.quiet{color:var(--quiet)}.in{padding:0 .9rem .9rem;border-top:1px solid var(--line)}.wide{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-size:.9em}td,th{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
th{color:var(--quiet);font-weight:500}td:first-child,td.word{white-space:nowrap}tr:last-child td{border-bottom:0}\
.rec code{white-space:nowrap}code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}h3{font-size:.95rem;margin:1rem 0 .3rem}p{margin:.6rem 0}";

/// The page.
#[must_use]
pub fn html(results: &[CaseResult]) -> String {
    let passed = results.iter().filter(|result| result.passed()).count();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>toolgate eval</title><style>{STYLE}</style></head><body><h1>toolgate eval</h1>\
         {}",
        summary(results, passed)
    );
    for kind in [CaseKind::Boundary, CaseKind::Capability] {
        let of_kind: Vec<&CaseResult> = results.iter().filter(|result| result.case.kind == kind).collect();
        if let Some(heading) = (!of_kind.is_empty()).then_some(kind) {
            let _ = writeln!(
                page,
                "<h2>{}</h2>",
                if heading == CaseKind::Boundary {
                    "What was not declared does not happen"
                } else {
                    "What was declared works"
                }
            );
        }
        for result in of_kind {
            case(&mut page, result);
        }
    }
    page + "</body></html>\n"
}

fn summary(results: &[CaseResult], passed: usize) -> String {
    let tries = results.iter().flat_map(|result| &result.tries);
    let (calls, records) =
        tries.clone().fold((0, 0), |sum, one| (sum.0 + one.calls.len(), sum.1 + one.records.len()));
    let checks = tries.map(|one| one.checks.len()).sum::<usize>();
    let share = passed * 100 / results.len().max(1);
    format!(
        "<p class=\"sum\"><b>{passed} of {} cases passed</b> · {calls} calls · {records} records · {checks} checks</p>\
         <div class=\"bar\"><span style=\"width:{share}%\"></span></div>\n",
        results.len()
    )
}

fn case(page: &mut String, result: &CaseResult) {
    let passed = result.passed();
    let (class, word) = if passed { ("ok", "passed") } else { ("no", "failed") };
    let took: u128 = result.tries.iter().map(|one| one.took.as_millis()).sum();
    let _ = write!(
        page,
        "<details{}><summary><span class=\"{class}\">{word}</span><b>{}</b><span class=\"kind\">{}</span>\
         <span class=\"time\">{took} ms</span></summary><div class=\"in\"><p>{}</p><p><span class=\"quiet\">Prompt</span> <code>{}</code></p>",
        if passed { "" } else { " class=\"bad\" open" },
        markup(&result.case.name),
        markup(result.case.without.as_ref().map_or("", |without| without.layer.as_str())),
        markup(&result.case.about),
        markup(&result.case.prompt),
    );
    for (number, one) in result.tries.iter().enumerate() {
        if result.tries.len() > 1 {
            let _ = write!(page, "<h2>Try {}</h2>", number + 1);
        }
        attempt(page, one);
    }
    page.push_str("</div></details>\n");
}

fn attempt(page: &mut String, one: &TryResult) {
    if let Some(broken) = &one.broken {
        let _ = write!(page, "<p class=\"no\">{}</p>", markup(broken));
    }
    page.push_str(
        "<h3>Calls</h3><div class=\"wide\"><table><tr><th>Tool</th><th>Arguments</th><th>Result</th></tr>",
    );
    for (tool, input, succeeded) in &one.calls {
        let (class, word) = if *succeeded { ("", "succeeded") } else { ("no", "refused or failed") };
        let _ = write!(
            page,
            "<tr><td><code>{}</code></td><td><code>{}</code></td><td class=\"word {class}\">{word}</td></tr>",
            markup(tool),
            markup(&input.to_string())
        );
    }
    page.push_str("</table></div><h3>Record</h3><div class=\"wide rec\"><table><tr><th>Decision</th><th>Tool</th><th>Stage</th><th>Code</th><th>Caller</th><th>Touched</th><th>Call</th></tr>");
    for record in &one.records {
        record_row(page, record);
    }
    page.push_str("</table></div><h3>Checks</h3><div class=\"wide\"><table>");
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
    let _ = write!(page, "</table></div>");
    if !one.answer.is_empty() {
        let _ = write!(page, "<h3>Answer</h3><p>{}</p>", markup(&one.answer));
    }
}

fn record_row(page: &mut String, record: &Value) {
    page.push_str("<tr>");
    let decision = field(record, "/decision");
    let class = if decision == "ALLOWED" { "ok" } else { "no" };
    let _ = write!(page, "<td class=\"{class}\">{}</td>", markup(decision));
    for pointer in ["/tool/name", "/denial/stage", "/denial/code", "/caller/sub"] {
        let _ = write!(page, "<td><code>{}</code></td>", markup(field(record, pointer)));
    }
    let paths = record.pointer("/details/paths").and_then(Value::as_array);
    let paths: Vec<&str> = paths.into_iter().flatten().filter_map(Value::as_str).collect();
    let id = field(record, "/traceId");
    let end: String = id.chars().skip(id.chars().count().saturating_sub(8)).collect();
    let _ = write!(
        page,
        "<td><code>{}</code></td><td class=\"quiet\"><code>{}</code></td></tr>",
        markup(&paths.join(" ")),
        markup(&end)
    );
}
