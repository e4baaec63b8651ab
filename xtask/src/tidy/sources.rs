//! Rules about the text of files.

use super::files::File;
use super::finding::Finding;

/// More lines of production code than one thing usually has.
const LONG_FILE: usize = 500;

/// Paths of one machine, which are meaningless on another. Written in pieces, or this file would contain them.
const MACHINE_PLACES: &[&str] = &[concat!("/", "root/"), concat!("/", "work/")];

/// The options of a gate, and the crates that may fill them in: that of the gate, whose unit tests do, and the composition root.
const GATE_OPTIONS: &str = concat!("GateOptions", " {");
const BUILDS_GATES: &[&str] = &["crates/gate/", "crates/assembly/"];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.path.ends_with(".rs") {
        findings.extend(ignored_tests(file));
        findings.extend(unexplained_allowances(file));
        findings.extend(long_file(file));
        findings.extend(assembled_by_hand(file));
    }
    if !file.is_test() {
        findings.extend(machine_places(file));
    }
    findings
}

/// An ignored test is a defect that looks like a check.
fn ignored_tests(file: &File) -> impl Iterator<Item = Finding> {
    let lines = file.text.lines().enumerate();
    let ignored = lines.filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with("#[ignore") || (line.starts_with("#[cfg_attr(") && line.contains("ignore"))
    });
    ignored.map(|(index, _)| {
        Finding::error(&file.path, index + 1, "a test is ignored", "make it run everywhere, or remove it")
    })
}

/// Every lint exception has a reason.
fn unexplained_allowances(file: &File) -> impl Iterator<Item = Finding> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_allowance(line.trim_start()));
    lines.filter_map(|(index, _)| {
        let attribute: Vec<&str> = file.text.lines().skip(index).take(12).collect();
        let attribute = attribute.join("\n");
        let attribute = attribute.split(")]").next().unwrap_or_default();
        let remedy = "add `reason = \"…\"` to the attribute";
        (!attribute.contains("reason ="))
            .then(|| Finding::error(&file.path, index + 1, "a lint is lifted without a reason", remedy))
    })
}

fn is_allowance(line: &str) -> bool {
    let inner = line.strip_prefix("#![").or_else(|| line.strip_prefix("#["));
    inner.is_some_and(|inner| inner.starts_with("allow(") || inner.starts_with("expect("))
}

fn long_file(file: &File) -> Option<Finding> {
    let is_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let lines = file.production_lines().filter(|(_, line)| is_code(line)).count();
    (lines > LONG_FILE && !file.is_test()).then(|| {
        let message = format!("{lines} lines of production code");
        Finding::note(&file.path, 0, message, "a file this long is usually two things")
    })
}

/// A gate that is put together anywhere else is not the one that ships, and a test of it proves little.
fn assembled_by_hand(file: &File) -> impl Iterator<Item = Finding> {
    let is_elsewhere = !BUILDS_GATES.iter().any(|directory| file.path.starts_with(directory));
    let lines =
        file.text.lines().enumerate().filter(move |(_, line)| is_elsewhere && line.contains(GATE_OPTIONS));
    lines.map(|(index, _)| {
        let remedy = "use `toolgate_assembly::gate_builder::build_gate`, and its options for what differs";
        Finding::error(&file.path, index + 1, "a gate is assembled by hand", remedy)
    })
}

fn machine_places(file: &File) -> impl Iterator<Item = Finding> {
    file.production_lines().flat_map(move |(number, line)| {
        MACHINE_PLACES.iter().filter(|place| names(line, place)).map(move |place| {
            let message = format!("`{place}` is a place on somebody's machine");
            Finding::error(&file.path, number, message, "name the place relative to the repository")
        })
    })
}

/// Whether a line contains a path that begins with this one, rather than one with such a directory inside.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(start, _)| {
        let before = line.get(..start).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| {
            !before.is_alphanumeric() && !matches!(before, '.' | '-' | '_' | '/' | '~' | '*' | '}')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn ignored_tests_are_reported() {
        for text in ["    #[ignore]\n", "#[ignore = \"slow\"]", "#[cfg_attr(miri, ignore)]"] {
            assert_eq!(told("a/tests/it/b.rs", text).len(), 1, "{text}");
        }
        assert!(told("a/src/b.rs", "let text = \"#[ignore]\";\n// #[ignore]\n").is_empty());
        assert!(told("a.md", "#[ignore]").is_empty());
    }

    #[test]
    fn lifted_lints_need_a_reason() {
        for text in
            ["#[allow(dead_code)]", "#![expect(a,\n    b\n)]\n#[doc = \"reason = \"]", "    #[expect(a)]"]
        {
            assert_eq!(told("src/b.rs", text).len(), 1, "{text}");
        }
        for text in ["#[allow(a, reason = \"r\")]", "#![expect(\n    a,\n    b,\n    reason = \"r\"\n)]"] {
            assert!(told("src/b.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn long_files_are_noted() {
        let code = "let a = 1;\n".repeat(501);
        assert_eq!(
            told("src/b.rs", &code),
            ["src/b.rs: note: 501 lines of production code; a file this long is usually two things"]
        );
        let tests = format!("{}#[cfg(test)]\n{code}", "// why\n\n".repeat(500));
        assert!(told("src/b.rs", &tests).is_empty());
        assert!(told("tests/it/b.rs", &code).is_empty());
    }

    #[test]
    fn gates_that_are_assembled_by_hand_are_reported() {
        let line = format!("Gate::new({GATE_OPTIONS}\n");
        assert_eq!(told("crates/tools/tests/it/b.rs", &line).len(), 1);
        assert_eq!(told("benches/src/lib.rs", &line).len(), 1);
        for path in ["crates/gate/src/gate.rs", "crates/assembly/src/gate_builder.rs", "docs/a.md"] {
            assert!(told(path, &line).is_empty(), "{path}");
        }
    }

    #[test]
    fn places_of_one_machine_are_reported() {
        let place = MACHINE_PLACES[0];
        for line in [format!("cd {place}x"), format!("\"{place}\""), format!("({place}a)"), place.to_owned()]
        {
            assert_eq!(told("docs/a.md", &line).len(), 1, "{line}");
        }
        for line in [format!("target{place}x"), format!("..{place}"), "root".to_owned()] {
            assert!(told("docs/a.md", &line).is_empty(), "{line}");
        }
        assert!(told("a/tests/it/b.rs", place).is_empty());
        assert!(told("a/src/b.rs", &format!("#[cfg(test)]\n\"{place}\"")).is_empty());
    }
}
