//! The links and test names on the pages are valid.

use std::path::{Path, PathBuf};

use crate::page::root;

const PAGES: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"];

/// Every page with its directory.
fn pages() -> Vec<(String, PathBuf, String)> {
    let inner = crate::page::all().into_iter().map(|page| page.name);
    let mut names: Vec<String> = PAGES.iter().map(|name| (*name).to_owned()).chain(inner).collect();
    names.sort();
    names.dedup();
    let read = |name: String| {
        let path = root().join(&name);
        let text = std::fs::read_to_string(&path).unwrap();
        (name, path.parent().unwrap().to_path_buf(), text)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn every_link_leads_somewhere() {
    for (page, folder, text) in pages() {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { root().join(&page) } else { folder.join(path) };
            assert!(path.exists(), "{page} links to `{target}`, which does not exist");
            assert!(
                anchor.is_empty() || anchors(&path).contains(&anchor.to_owned()),
                "{page} links to `{target}`"
            );
        }
    }
}

/// The anchors of a page's headings.
fn anchors(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = |character: &char| character.is_alphanumeric() || " -_".contains(*character);
        heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// `` `crates/x/tests/it/y.rs::name` `` names the test that proves a sentence, `` `web/tests/browser/y.spec.ts::its title` `` one of the page.
#[test]
fn every_test_that_is_named_as_proof_exists() {
    let mut named = 0;
    let is_reference = |part: &&str| part.contains(".rs::") || part.contains(".spec.ts::");
    for (page, _, text) in pages() {
        for reference in text.split('`').filter(is_reference) {
            let (file, name) = reference.split_once("::").unwrap();
            let code = std::fs::read_to_string(root().join(file))
                .unwrap_or_else(|error| panic!("{page} names `{file}`: {error}"));
            let forms = [format!("fn {name}("), format!("mod {name} "), format!("test('{name}'")];
            let is_test = forms.iter().any(|form| code.contains(form));
            assert!(is_test, "{page} names `{reference}`, and there is no such test");
            named += 1;
        }
    }
    assert!(named > 10, "the invariants name the tests that prove them");
}

/// A row of the threat model names the test that shows it, and the cases of `toolgate eval` that re-enact it, where there are some.
#[test]
fn every_row_of_the_threat_model_names_a_test_and_cases_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let cases = toolgate_eval::built_in().unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| it tries"));
    let (mut all, mut linked) = (0, 0);
    for row in rows {
        all += 1;
        assert!(row.contains(".rs::") || row.contains(".spec.ts::"), "no test: {row}");
        let Some((_, named)) = row.split_once("; case") else { continue };
        linked += 1;
        for name in named.split('`').skip(1).step_by(2) {
            assert!(cases.iter().any(|case| case.name == name), "`{name}` is no case: {row}");
        }
    }
    assert!(all > 100 && linked > 15, "{all} rows, {linked} with a case");
}
