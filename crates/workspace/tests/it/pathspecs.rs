//! What git shows of a history with the pathspecs of a mount, compared with the files that tools can reach. The oracle is the host's git.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use toolgate_types::ErrorCode;
use toolgate_workspace::{DEFAULT_DENY, MountAccess, MountRules, PathGrant, Workspace};

use crate::tree_text::{make, mount};

fn git(directory: &Path, arguments: &[String]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "core.quotePath=false",
    ]);
    command.args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A repository with these files in its last commit.
fn repository(root: &Path, files: &BTreeSet<String>) {
    git(root, &words("init -q -b main"));
    git(root, &words("commit -q --allow-empty -m first"));
    files.iter().for_each(|file| make(root, file));
    git(root, &words("add -A -f"));
    git(root, &words("commit -q -m second"));
}

/// What git shows with the pathspecs of a workspace.
fn shown(root: &Path, workspace: &Workspace) -> BTreeSet<String> {
    let mut arguments = words("diff --name-only HEAD~1 HEAD --");
    arguments.extend(workspace.git_pathspecs("@project", None).unwrap());
    git(root, &arguments).lines().map(str::to_owned).collect()
}

/// A name for each rule of the built-in list, in several cases, as backup copies, above and below; and names that only look similar.
fn names() -> BTreeSet<String> {
    let rules = DEFAULT_DENY.iter().filter(|rule| !rule.starts_with(".git/") && !rule.contains("**"));
    let mut all = BTreeSet::new();
    for (number, rule) in rules.enumerate() {
        let name = rule.replace('*', "x");
        let forms = [
            name.clone(),
            name.to_uppercase(),
            format!("{name}~"),
            format!("{name}.bak"),
            format!("{name}.orig~"),
            format!("{name}.OLD"),
            format!("{name}.save"),
            format!("{name}.copy"),
            format!("{name}."),
            format!("{name} "),
            format!("{name}::$DATA"),
            format!("x{name}y"),
        ];
        for (form, place) in forms.into_iter().zip(0..) {
            all.insert(format!("n{number}/f{place}/{form}"));
        }
        all.insert(format!("n{number}/below/{name}/inner"));
        if let Some((directory, last)) = name.rsplit_once('/') {
            all.insert(format!("n{number}/swap/{directory}/.{last}.swp"));
        } else {
            all.extend([
                format!("n{number}/swap/.{name}.swp"),
                format!("n{number}/lock/.#{name}"),
                format!("n{number}/auto/#{name}#"),
            ]);
        }
    }
    all
}

#[test]
fn git_shows_nothing_that_the_built_in_list_denies() {
    let scratch = tempfile::tempdir().unwrap();
    let plain = [
        "a.txt",
        "credentials.go",
        "x/credentials/tls.go",
        "monkey.rs",
        "keys.bak",
        "src/key",
        "toolgate.rs",
        "credentials.cs",
        "x.pem.ts",
    ];
    let mut files = names();
    files.extend(plain.map(str::to_owned));
    repository(scratch.path(), &files);
    let project = mount("@project", scratch.path(), MountAccess::ReadWrite, MountRules::new());
    let shown = shown(scratch.path(), &Workspace::new(vec![project]).unwrap());
    for file in &shown {
        assert!(MountRules::new().reaches(Path::new(file)), "{file} is shown and denied");
    }
    for file in plain {
        assert!(shown.contains(file), "{file} is not shown");
    }
}

#[test]
fn git_shows_what_tools_reach_under_the_rules_of_an_operator() {
    let files = [
        "a.txt",
        "A.TXT",
        "secret",
        "Secret/x",
        "deep/secret/y",
        "src/main.rs",
        "src/lib/a.rs",
        "SRC/main.rs",
        "src",
        "docs/a.md",
        "docs/b.txt",
        "docs/deep/c.md",
        "[x]/y",
        "x/y",
        "q1/z",
        "data/public",
        "data/Private",
        "a,b",
        "Ärger/x",
        "ärger/y",
        "A\u{308}rger/z",
        "draft.Draft",
        "x/draft.dRAFT",
        "{a}",
        "a*b",
        "axb",
        "top/none",
        "note.md",
        "deep/note.md",
    ];
    let files: BTreeSet<String> =
        files.into_iter().filter(|file| *file != "src").map(str::to_owned).collect();
    let strings =
        |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
    let deny = |patterns: &[&str]| MountRules::new().deny(&strings(patterns)).unwrap();
    let scope = |patterns: &[&str]| MountRules::new().scope(&strings(patterns)).unwrap();
    for (rules, hides) in [
        (deny(&["secret"]), 1),
        (deny(&["[S]ecret*", "*.draft"]), 1),
        (deny(&["./src/", "docs/**"]), 1),
        (deny(&["{Src,data}/{m,P}*", "a\\*b"]), 1),
        (deny(&["Ärger", "data/[!pP]*"]), 1),
        (deny(&["\\[x\\]/**", "/etc", "../x", "?1/*"]), 1),
        (scope(&["src/**"]), 1),
        (scope(&["*.md", "docs/{a,b}.*", "x/y"]), 1),
        (scope(&["src", "docs", "a.txt"]), 1),
        (scope(&["**/note.md", "[a-q]1/?"]), 1),
        (scope(&["src/**"]).deny(&strings(&["*.rs"])).unwrap(), 1),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        repository(scratch.path(), &files);
        let project = mount("@project", scratch.path(), MountAccess::ReadWrite, rules.clone());
        let shown = shown(scratch.path(), &Workspace::new(vec![project]).unwrap());
        let reached: BTreeSet<String> =
            files.iter().filter(|file| rules.reaches(Path::new(file))).cloned().collect();
        assert!(shown.is_subset(&reached), "{rules:?}: {:?} are shown and not reached", &shown - &reached);
        // A class becomes `?`, and a character beyond ASCII becomes `*`: nothing more may be excluded.
        let lost: Vec<&String> = reached.difference(&shown).collect();
        assert!(lost.len() <= 3, "{rules:?}: {lost:?} are reached and not shown");
        assert!(files.len() - shown.len() >= hides);
    }
}

#[test]
fn mounts_inside_have_their_say_and_what_cannot_be_said_is_refused() {
    let files: BTreeSet<String> =
        ["a", "in/docs/open", "in/docs/draft/x", "in/data/x.csv", "in/own/x", "d"].map(str::to_owned).into();
    let scratch = tempfile::tempdir().unwrap();
    repository(scratch.path(), &files);
    let inner = |alias: &str, place: &str, rules: MountRules| {
        mount(alias, &scratch.path().join(place), MountAccess::ReadOnly, rules)
    };
    let project = mount("@project", scratch.path(), MountAccess::ReadWrite, MountRules::new())
        .hide_gate_files(&[scratch.path().join("in/own")]);
    let draft = MountRules::new().deny(&["draft/**".to_owned()]).unwrap();
    let csv = MountRules::new().scope(&["*.csv".to_owned()]).unwrap();
    let mounts = vec![project, inner("@docs", "in/docs", draft), inner("@data", "in/data", csv)];
    let workspace = Workspace::new(mounts).unwrap();
    assert_eq!(shown(scratch.path(), &workspace), ["a", "d", "in/docs/open"].map(str::to_owned).into());

    #[derive(Debug)]
    struct Nothing;
    impl PathGrant for Nothing {
        fn covers(&self, _location: &Path) -> bool {
            false
        }
    }
    let refused = |rules: MountRules, grant: Option<&dyn PathGrant>| {
        let project = mount("@project", scratch.path(), MountAccess::ReadWrite, rules);
        let refused = Workspace::new(vec![project]).unwrap().git_pathspecs("@project", grant).unwrap_err();
        toolgate_types::Failure::from(refused).code
    };
    assert_eq!(refused(MountRules::new(), Some(&Nothing)), ErrorCode::OutOfScope);
    let braces = "{a,b}".repeat(9);
    assert_eq!(refused(MountRules::new().deny(&[braces]).unwrap(), None), ErrorCode::OutOfScope);
    assert_eq!(
        refused(MountRules::new().scope(&["[[:alpha:]]*".to_owned()]).unwrap(), None),
        ErrorCode::OutOfScope
    );
}
