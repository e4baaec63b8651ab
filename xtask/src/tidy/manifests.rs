//! Rules about `Cargo.toml` files.

use super::arrows;
use super::files::File;
use super::finding::Finding;

/// Every crate inherits the workspace's lints.
pub(super) fn check(file: &File) -> Option<Finding> {
    let is_crate = file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/");
    let lints = file.text.lines().skip_while(|line| line.trim() != "[lints]").nth(1);
    let takes = lints.is_some_and(|line| line.split_whitespace().collect::<String>() == "workspace=true");
    (is_crate && !takes).then(|| {
        let remedy = "add `[lints]` and, below it, `workspace = true`";
        Finding::error(&file.path, 0, "the crate does not take the workspace's lints", remedy)
    })
}

/// Members are in the order of the arrows, which is the order to read them in.
pub(super) fn same_order(arrows: &[&str], manifest: &str) -> Option<Finding> {
    let start = manifest.lines().position(|line| line.starts_with("members = ["))?;
    let members: Vec<&str> = manifest
        .lines()
        .skip(start + 1)
        .take_while(|line| !line.starts_with(']'))
        .filter_map(|line| line.trim().trim_end_matches(',').trim_matches('"').rsplit('/').next())
        .collect();
    (members != arrows).then(|| {
        let message = format!("members are in the order {}", members.join(" "));
        let remedy = format!("bring them and {} into the same order: {}", arrows::FILE, arrows.join(" "));
        Finding::error("Cargo.toml", start + 1, message, remedy)
    })
}

/// Every third-party dependency has a reason beside it.
pub(super) fn reasons(manifest: &str) -> Vec<Finding> {
    let lines = manifest.lines().enumerate().map(|(index, line)| (index + 1, line));
    let lines = lines.skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    let lines = lines.take_while(|(_, line)| !line.starts_with('['));
    lines.filter_map(|(number, line)| without_reason(number, line)).collect()
}

fn without_reason(number: usize, line: &str) -> Option<Finding> {
    let (name, rest) = line.split_once('=')?;
    let ours = rest.contains("path =");
    let has_reason = comment(rest).is_some_and(|comment| !comment.trim().is_empty());
    (!line.starts_with('#') && !ours && !has_reason).then(|| {
        let message = format!("the dependency `{}` has no reason beside it", name.trim());
        Finding::error("Cargo.toml", number, message, "say in a comment on the same line why it is here")
    })
}

/// What follows the first `#` outside quotes.
fn comment(line: &str) -> Option<&str> {
    let mut quoted = false;
    let start = line.find(|character| {
        quoted ^= character == '"';
        character == '#' && !quoted
    })?;
    line.get(start + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_are_taken_or_reported() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let good = "[package]\n[lints]\nworkspace = true\n";
        assert_eq!(check(&file("crates/a/Cargo.toml", good)), None);
        assert_eq!(check(&file("Cargo.toml", "[workspace]")), None);
        assert_eq!(check(&file("fuzz/Cargo.toml", "[package]")), None);
        for bad in
            ["[package]\n", "[lints]\n", "[lints]\nworkspace = false\n", "[lints.rust]\nworkspace = true\n"]
        {
            assert!(check(&file("crates/a/Cargo.toml", bad)).is_some(), "{bad}");
        }
    }

    #[test]
    fn members_follow_the_arrows() {
        let manifest =
            "[workspace]\nmembers = [\n    \"crates/types\",\n    \"crates/text\",\n    \"xtask\",\n]\n";
        assert_eq!(same_order(&["types", "text", "xtask"], manifest), None);
        assert!(same_order(&["text", "types", "xtask"], manifest).is_some());
        assert!(same_order(&["types", "text"], manifest).is_some());
    }

    #[test]
    fn a_dependency_without_a_reason_is_reported() {
        let manifest = "[package]\na = \"1\"\n[workspace.dependencies]\n# Ours.\nours = { path = \"x\" }\n\
                        good = \"1\" # because\nbad = { version = \"1#2\" }\nempty = \"1\" #\n\n[lints]\nb = \"1\"\n";
        let told: Vec<String> = reasons(manifest).iter().map(Finding::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("Cargo.toml:7: error: the dependency `bad` has no reason"));
        assert!(told[1].starts_with("Cargo.toml:8: error: the dependency `empty` has no reason"));
    }
}
