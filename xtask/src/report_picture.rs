//! Draws the report of `toolgate eval`: the whole suite, and the evidence of one case.

use std::path::Path;

use crate::Fault;
use crate::command::{program, root, succeed};

/// The case whose evidence is shown.
const CASE: &str = "issue_to_public_answer";

/// Both pictures, from real runs of this binary.
pub(crate) fn draw(toolgate: &Path, scratch: &Path) -> Result<(), Fault> {
    let pictures = root()?.join("docs/pictures");
    picture(toolgate, scratch, &[], "1100,1150", &pictures.join("eval-report.png"))?;
    picture(toolgate, scratch, &[CASE], "1100,1110", &pictures.join("eval-case.png"))
}

fn picture(toolgate: &Path, scratch: &Path, cases: &[&str], size: &str, file: &Path) -> Result<(), Fault> {
    let page = scratch.join("report.html");
    let mut eval = program("timeout", &["--kill-after=10", "600"])?;
    eval.arg(toolgate).arg("eval").args(cases).arg("--html").arg(&page);
    succeed(eval)?;
    if !cases.is_empty() {
        let text = std::fs::read_to_string(&page)?;
        std::fs::write(&page, text.replace("<details>", "<details open>"))?;
    }
    let mut browser =
        program("chromium", &["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"])?;
    browser.arg(format!("--window-size={size}")).arg(format!("--screenshot={}", file.display()));
    browser.arg(format!("--user-data-dir={}", scratch.join("browser").display()));
    browser.arg(format!("file://{}", page.display()));
    succeed(browser)
}
