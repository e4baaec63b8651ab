//! The allowed dependencies between crates.

use std::path::Path;

use super::finding::Finding;
use crate::metadata::{Dependency, Metadata, Package};

/// The file with the allowed dependencies.
pub(super) const FILE: &str = "xtask/arrows.txt";

/// The allowed dependencies, in the order of the file.
pub(super) struct Arrows(Vec<Allowed>);

struct Allowed {
    line: usize,
    name: String,
    targets: Vec<String>,
}

/// A crate of the workspace and those it uses, by the names of their directories.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) uses: Vec<String>,
}

impl Arrows {
    /// Parses lines such as `policy: types manifest`.
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        let allowed = lines.filter_map(|(index, line)| {
            let (name, targets) = line.split_once(':')?;
            let targets = targets.split_whitespace().map(str::to_owned).collect();
            Some(Allowed { line: index + 1, name: name.trim().to_owned(), targets })
        });
        Self(allowed.collect())
    }

    /// The crates in the order of the file.
    pub(super) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|allowed| &*allowed.name).collect()
    }

    /// Dependencies that the file does not allow, and crates that the workspace does not have.
    pub(super) fn compare(&self, crates: &[Crate]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = crates.iter().flat_map(|member| self.check(member)).collect();
        let exists = |name: &str| name == "*" || crates.iter().any(|member| member.name == name);
        for Allowed { line, name, targets } in &self.0 {
            let gone = std::iter::once(name).chain(targets).filter(|name| !exists(name));
            findings.extend(gone.map(|gone| {
                Finding::error(FILE, *line, format!("there is no crate `{gone}`"), "remove it from this line")
            }));
            let below = targets.iter().filter(|target| self.is_below(target, *line));
            findings.extend(below.map(|target| {
                let message = format!("`{name}` is above `{target}`, which it may use");
                Finding::error(FILE, *line, message, "move the line below it, here and in `Cargo.toml`")
            }));
        }
        findings
    }

    fn check(&self, member: &Crate) -> Vec<Finding> {
        let Some(allowed) = self.0.iter().find(|allowed| allowed.name == member.name) else {
            let remedy = format!("add a line `{}: …` with the crates it may use", member.name);
            return vec![Finding::error(
                FILE,
                0,
                format!("the crate `{}` is not listed", member.name),
                remedy,
            )];
        };
        let forbidden = member.uses.iter().filter(|target| !self.permits(allowed, target));
        let finding = |target: &String| {
            let message = format!("`{}` uses `{target}`, an arrow that is not allowed", member.name);
            let remedy =
                format!("remove the dependency, or add `{target}` to this line and say why in the commit");
            Finding::error(FILE, allowed.line, message, remedy)
        };
        forbidden.map(finding).collect()
    }

    fn is_below(&self, name: &str, line: usize) -> bool {
        self.0.iter().any(|other| other.name == name && other.line > line)
    }

    /// `*` is every crate above.
    fn permits(&self, allowed: &Allowed, target: &str) -> bool {
        let above = || self.0.iter().any(|other| other.name == target && other.line < allowed.line);
        allowed.targets.iter().any(|name| name == target || (name == "*" && above()))
    }
}

/// The crates of the workspace in `root`.
pub(super) fn crates(metadata: &Metadata, root: &Path) -> Vec<Crate> {
    let read = |package: &Package| {
        let uses = package.dependencies.iter().filter_map(|dependency| used(dependency, root)).collect();
        Some(Crate { name: folder(package.manifest_path.parent()?)?, uses })
    };
    metadata.packages.iter().filter_map(read).collect()
}

/// The directory of a dependency on another crate of the workspace; development dependencies do not count.
fn used(dependency: &Dependency, root: &Path) -> Option<String> {
    let path = dependency.path.as_deref().filter(|path| path.starts_with(root))?;
    if dependency.kind.as_deref() == Some("dev") { None } else { folder(path) }
}

fn folder(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, uses: &[&str]) -> Crate {
        Crate { name: name.to_owned(), uses: uses.iter().map(|name| (*name).to_owned()).collect() }
    }

    fn told(arrows: &str, crates: &[Crate]) -> Vec<String> {
        Arrows::parse(arrows).compare(crates).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn allowed_arrows_are_silent() {
        let arrows = "# comment: types\ntypes:\npolicy: types\n\ncli: *\n";
        let crates =
            [member("types", &[]), member("policy", &["types"]), member("cli", &["types", "policy"])];
        assert_eq!(told(arrows, &crates), Vec::<String>::new());
    }

    #[test]
    fn a_new_arrow_a_new_crate_and_a_gone_crate_are_reported() {
        let arrows = "types: gone\npolicy: types\ncli: *\nxtask:\n";
        let crates = [
            member("types", &["policy"]),
            member("policy", &["types"]),
            member("cli", &["types", "xtask"]),
            member("xtask", &[]),
            member("new", &[]),
        ];
        assert_eq!(
            told(arrows, &crates),
            [
                "xtask/arrows.txt:1: error: `types` uses `policy`, an arrow that is not allowed; remove the \
                 dependency, or add `policy` to this line and say why in the commit",
                "xtask/arrows.txt:3: error: `cli` uses `xtask`, an arrow that is not allowed; remove the \
                 dependency, or add `xtask` to this line and say why in the commit",
                "xtask/arrows.txt: error: the crate `new` is not listed; add a line `new: …` with the crates it may use",
                "xtask/arrows.txt:1: error: there is no crate `gone`; remove it from this line",
            ]
        );
    }

    #[test]
    fn a_crate_above_one_that_it_may_use_is_reported() {
        let crates = [member("policy", &["types"]), member("types", &[])];
        assert_eq!(
            told("policy: types\ntypes:\n", &crates),
            [
                "xtask/arrows.txt:1: error: `policy` is above `types`, which it may use; move the line below it, here and in `Cargo.toml`"
            ]
        );
    }

    #[test]
    fn reads_what_cargo_says() {
        let metadata = json!({"target_directory": "/repo/target", "packages": [{
            "targets": [],
            "name": "toolgate-policy",
            "manifest_path": "/repo/crates/policy/Cargo.toml",
            "dependencies": [
                {"name": "toolgate-types", "path": "/repo/crates/types", "kind": null},
                {"name": "toolgate-gate", "path": "/repo/crates/gate", "kind": "build"},
                {"name": "toolgate-audit", "path": "/repo/crates/audit", "kind": "dev"},
                {"name": "serde", "kind": null},
                {"name": "vendored", "path": "/elsewhere/vendored", "kind": null},
            ],
        }]});
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        assert_eq!(crates(&metadata, Path::new("/repo")), [member("policy", &["types", "gate"])]);
    }
}
