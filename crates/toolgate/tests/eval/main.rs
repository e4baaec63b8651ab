//! The cases that came along, against the binary: they hold, and each boundary case fails without the layer that it tests.
//!
//! A program of its own: a process that becomes its child in some other way than by being started for a case counts as an orphan.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests arrange files by hand and fail by panicking"
)]

mod hostile;
mod models;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toolgate_eval::{Case, CaseKind, CaseResult, EvalOptions};

/// Checks of what was decided and recorded. The others are of what came of it.
const OF_DECISIONS: [&str; 3] =
    ["the outcome is as expected", "the record contains what it must", "every call was recorded once"];

fn options() -> EvalOptions {
    EvalOptions {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_toolgate")),
        model: None,
        tries: 1,
        jobs: 2,
        timeout: Duration::from_secs(120),
        tap: None,
        records: None,
    }
}

fn play(cases: &[Case]) -> Vec<CaseResult> {
    toolgate_eval::run(cases, &options(), &|_| {}).unwrap()
}

#[test]
fn every_case_that_came_along_passes() {
    let results = play(&toolgate_eval::built_in().unwrap());
    assert!(results.iter().all(CaseResult::passed), "{}", toolgate_eval::table(&results));
}

#[test]
fn a_boundary_case_fails_without_the_layer_that_it_tests() {
    let cases = toolgate_eval::built_in().unwrap();
    let weakened: Vec<Case> = cases.iter().filter_map(Case::weakened).collect();
    let named = cases.iter().filter_map(|case| case.without.as_ref()?.test.as_deref()).count();
    assert_eq!(weakened.len() + named, cases.iter().filter(|case| case.kind == CaseKind::Boundary).count());
    let mut red = BTreeMap::new();
    for result in play(&weakened) {
        let [one] = result.tries.as_slice() else { panic!("one try was asked for") };
        assert_eq!(one.broken, None, "{}", result.case.name);
        // Everything but the calls that a weaker gate lets through says what came of them.
        let failed: Vec<&str> =
            one.checks.iter().filter(|check| check.problem.is_some()).map(|check| check.check).collect();
        let effect = failed.iter().find(|check| !OF_DECISIONS.contains(check)).or_else(|| failed.first());
        let Some(check) = effect else {
            panic!("{} holds without {:?}", result.case.name, result.case.without)
        };
        // A gate that cannot be built fails everything, and shows nothing.
        let is_whole = !failed.contains(&"the chain of the record verifies");
        assert!(is_whole, "{}: {:?}", result.case.name, one.problems());
        red.insert(result.case.name.clone(), (*check).to_owned());
    }
    check_page(&matrix(&cases, &red));
}

/// A row for each boundary case: its layer, what takes it out, and the first check that fails then; or the test of the code, and why.
fn matrix(cases: &[Case], red: &BTreeMap<String, String>) -> String {
    let mut rows = "| case | layer | taken out by | red without it |\n|---|---|---|---|\n".to_owned();
    for case in cases {
        let Some(without) = &case.without else { continue };
        let (means, proof) = match (red.get(&case.name), &without.test) {
            (Some(check), _) => (without.means(), check.clone()),
            (None, Some(test)) => ("no configuration".to_owned(), format!("`{test}`")),
            (None, None) => panic!("{} was not played", case.name),
        };
        rows.push_str(&format!("| `{}` | {} | {means} | {proof} |\n", case.name, without.layer));
    }
    rows
}

/// The table of `docs/eval.md` is this one; `TOOLGATE_DOCS=update` writes it.
fn check_page(table: &str) {
    let page = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/eval.md"));
    let text = std::fs::read_to_string(page).unwrap();
    let head = table.lines().next().unwrap();
    let (before, rest) = text.split_once(head).unwrap();
    let (rows, after) = rest.split_once("\n\n").unwrap();
    if std::env::var("TOOLGATE_DOCS").is_ok_and(|wanted| wanted == "update") {
        std::fs::write(page, format!("{before}{table}\n{after}")).unwrap();
    } else {
        let shown = format!("{head}{rows}\n");
        assert_eq!(shown, table, "`TOOLGATE_DOCS=update` writes the table of docs/eval.md");
    }
}

#[test]
fn a_test_that_a_case_names_exists() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for case in toolgate_eval::built_in().unwrap() {
        let Some(test) = case.without.as_ref().and_then(|without| without.test.clone()) else { continue };
        let (file, name) = test.split_once("::").unwrap();
        let text = std::fs::read_to_string(root.join(file))
            .unwrap_or_else(|error| panic!("{}: {file}: {error}", case.name));
        assert!(text.contains(&format!("fn {name}(")), "{}: {test}", case.name);
    }
}

#[test]
fn a_kept_record_verifies() {
    let place = tempfile::tempdir().unwrap();
    let cases = toolgate_eval::load(&["try_delete_file".to_owned(), "replayed_approval".to_owned()]).unwrap();
    let options = EvalOptions { records: Some(place.path().join("kept")), ..options() };
    let results = toolgate_eval::run(&cases, &options, &|_| {}).unwrap();
    for result in results {
        let kept = place.path().join("kept").join(&result.case.name);
        let records = std::fs::read_dir(&kept)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("20"));
        let lines: usize =
            records.map(|day| std::fs::read_to_string(day.path()).unwrap().lines().count()).sum();
        assert_eq!(lines, result.tries[0].records.len(), "{}", result.case.name);
        assert!(lines > 0 && kept.join("audit.pub").exists());
    }
}
