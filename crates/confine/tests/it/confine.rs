//! The overlays of a command, against tables, a plain model, and a tree that changes concurrently.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use proptest::prelude::*;
use tempfile::TempDir;
use toolgate_confine::{ConfineRequest, confine};
use toolgate_types::{Deadline, ErrorCode, MountOverlay};
use toolgate_workspace::{MountAccess, MountRules, PathGrant, Workspace, WorkspaceError};

use crate::tree_text::{cases, escaped, make, mount, shown, workspace};

pub(crate) const WRITABLE: ConfineRequest<'static> = ConfineRequest { alias: "@project", writable: true };
const READ_ONLY: ConfineRequest<'static> = ConfineRequest { alias: "@project", writable: false };

fn written(cover: &MountOverlay) -> String {
    let path = shown(cover.path());
    match cover {
        MountOverlay::Mask { directory: true, .. } => format!("hide/ {path}"),
        MountOverlay::Mask { directory: false, .. } => format!("hide {path}"),
        MountOverlay::ReadOnly { .. } => format!("freeze {path}"),
        MountOverlay::PinDirectory { .. } => format!("pin {path}"),
        MountOverlay::Substitute { content, .. } => format!("replace {path} = {}", escaped(content)),
    }
}

fn covers(
    workspace: &Workspace,
    wanted: ConfineRequest<'_>,
    grant: Option<&dyn PathGrant>,
) -> Result<Vec<String>, WorkspaceError> {
    let confined = confine(workspace, &[wanted], grant, &Deadline::never())?;
    Ok(confined[0].overlays().iter().map(written).collect())
}

fn tree(lines: &[&str]) -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    lines.iter().for_each(|line| make(scratch.path(), line));
    scratch
}

#[test]
fn covers_are_as_the_table_says() {
    let cases = cases(include_str!("../data/covers.txt"));
    assert!(cases.len() > 15);
    for (name, lines, expected) in cases {
        let scratch = tree(&lines);
        let found = covers(&workspace(scratch.path()), WRITABLE, None).unwrap();
        assert_eq!(found, expected, "{name}");
        for cover in
            confine(&workspace(scratch.path()), &[WRITABLE], None, &Deadline::never()).unwrap()[0].overlays()
        {
            let kind = fs::symlink_metadata(scratch.path().join(cover.path())).unwrap().file_type();
            match cover {
                MountOverlay::Mask { directory, .. } => assert_eq!(kind.is_dir(), *directory, "{name}"),
                MountOverlay::PinDirectory { .. } => assert!(kind.is_dir(), "{name}"),
                MountOverlay::Substitute { .. } => assert!(kind.is_file(), "{name}"),
                MountOverlay::ReadOnly { .. } => assert!(kind.is_dir() || kind.is_file(), "{name}"),
            }
        }
        // In a read-only mount nothing needs a read-only overlay or a pin.
        let unchanged = covers(&workspace(scratch.path()), READ_ONLY, None).unwrap();
        let without: Vec<&str> = expected
            .into_iter()
            .filter(|line| line.starts_with("hide") || line.starts_with("replace"))
            .collect();
        assert_eq!(unchanged, without, "{name}, read-only");
    }
}

#[test]
fn the_operator_and_the_gate_have_their_say() {
    let scratch = tree(&[
        "secrets/a",
        "docs/plan.secret",
        "var/state/audit/x",
        "var/state2/x",
        "rules.md",
        ".git/config",
        ".git/hooks/x",
    ]);
    let deny = ["secrets/".to_owned(), "*.secret".to_owned(), ".git".to_owned()];
    let rules = MountRules::new().deny(&deny).unwrap().protect(&["rules.md"]).unwrap();
    let project = mount("@project", scratch.path(), MountAccess::ReadWrite, rules)
        .hide_gate_files(&[scratch.path().join("var/state")]);
    let workspace = Workspace::new(vec![project]).unwrap();
    let expected = [
        "hide/ .git",
        "pin docs",
        "hide docs/plan.secret",
        "freeze rules.md",
        "hide/ secrets",
        "pin var",
        "hide/ var/state",
    ];
    assert_eq!(covers(&workspace, WRITABLE, None).unwrap(), expected);
}

#[test]
fn what_git_obeys_is_kept_where_its_configuration_may_not_be_seen() {
    let scratch = tree(&[
        ".git/HEAD",
        ".git/config = [core]\\n\\thooksPath = .husky\\n",
        ".husky/pre-commit.sh",
        "a.sh",
    ]);
    let denied = MountRules::new().deny(&[".git".to_owned()]).unwrap();
    let scoped = MountRules::new().scope(&["**/*.sh".to_owned()]).unwrap();
    for rules in [denied, scoped] {
        let project = mount("@project", scratch.path(), MountAccess::ReadWrite, rules);
        let workspace = Workspace::new(vec![project]).unwrap();
        assert_eq!(covers(&workspace, WRITABLE, None).unwrap(), ["hide/ .git", "freeze .husky"]);
    }
}

#[test]
fn mounts_inside_a_mount_have_their_say_too() {
    let scratch =
        tree(&["in/docs/a.md", "in/docs/.env", "in/docs/draft/x", "in/data/x.csv", "in/data/y.txt"]);
    let deny = MountRules::new().deny(&["draft/**".to_owned()]).unwrap();
    let scope = MountRules::new().scope(&["*.csv".to_owned()]).unwrap();
    let mounts = || {
        vec![
            mount("@project", scratch.path(), MountAccess::ReadWrite, MountRules::new()),
            mount("@docs", &scratch.path().join("in/docs"), MountAccess::ReadOnly, deny.clone()),
            mount("@data", &scratch.path().join("in/data"), MountAccess::ReadWrite, scope.clone()),
        ]
    };
    let workspace = Workspace::new(mounts()).unwrap();
    let expected = [
        "pin in",
        "pin in/data",
        "hide in/data/y.txt",
        "freeze in/docs",
        "hide in/docs/.env",
        "hide/ in/docs/draft",
    ];
    assert_eq!(covers(&workspace, WRITABLE, None).unwrap(), expected);
    let inner = ConfineRequest { alias: "@docs", writable: false };
    assert_eq!(covers(&workspace, inner, None).unwrap(), ["hide .env", "hide/ draft"]);
}

#[derive(Debug)]
struct Below(&'static str);

impl PathGrant for Below {
    fn covers(&self, location: &Path) -> bool {
        location.starts_with(self.0)
    }
}

#[test]
fn what_is_out_of_scope_is_hidden_in_as_few_pieces_as_can_be() {
    let scratch = tree(&[
        "README.md",
        "src/a.rs",
        "src/deep/b.rs",
        "src/deep/c.md",
        "docs/a.md",
        "docs/more/b.md",
        "docs/link -> ../src/a.rs",
        "empty/",
        ".git/config",
        ".git/HEAD",
    ]);
    let scope = MountRules::new().scope(&["**/*.rs".to_owned()]).unwrap();
    let project = mount("@project", scratch.path(), MountAccess::ReadWrite, scope);
    let workspace = Workspace::new(vec![project]).unwrap();
    let expected =
        ["hide/ .git", "hide README.md", "hide/ docs", "pin src", "pin src/deep", "hide src/deep/c.md"];
    assert_eq!(covers(&workspace, WRITABLE, None).unwrap(), expected);
    let expected = [
        "hide/ .git",
        "hide README.md",
        "hide/ docs",
        "pin src",
        "hide src/a.rs",
        "pin src/deep",
        "hide src/deep/c.md",
    ];
    assert_eq!(covers(&workspace, WRITABLE, Some(&Below("src/deep"))).unwrap(), expected);
}

#[test]
fn more_than_anybody_would_wait_for_is_refused_with_a_remedy() {
    let scratch = tempfile::tempdir().unwrap();
    for number in 0..10_000 {
        fs::write(scratch.path().join(format!("{number}.pem")), "").unwrap();
    }
    assert_eq!(covers(&workspace(scratch.path()), WRITABLE, None).unwrap().len(), 10_000);
    fs::write(scratch.path().join("more.pem"), "").unwrap();
    let error = covers(&workspace(scratch.path()), WRITABLE, None).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SandboxUnavailable);
    assert!(toolgate_types::Failure::from(error).help.unwrap().contains("mount a smaller one"));
}

#[test]
fn what_cannot_be_confined_is_an_error() {
    let scratch = tree(&["a/b/c"]);
    let read_only = mount("@docs", scratch.path(), MountAccess::ReadOnly, MountRules::new());
    let workspace = Workspace::new(vec![read_only]).unwrap();
    let code = |alias, writable| {
        covers(&workspace, ConfineRequest { alias, writable }, None).map_err(|error| error.code())
    };
    assert_eq!(code("@docs", true), Err(ErrorCode::ReadOnly));
    assert_eq!(code("@nowhere", false), Err(ErrorCode::UnknownAlias));
    let stopped = confine(
        &workspace,
        &[ConfineRequest { alias: "@docs", writable: false }],
        None,
        &Deadline::never().with_signal(|| true),
    );
    assert_eq!(stopped.unwrap_err().code(), ErrorCode::Cancelled);
}

#[test]
fn what_lies_too_deep_is_hidden_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 200).collect();
    fs::create_dir_all(scratch.path().join(&deep)).unwrap();
    fs::write(scratch.path().join(&deep).join(".env"), "").unwrap();
    let found = covers(&workspace(scratch.path()), WRITABLE, None).unwrap();
    let deepest: PathBuf = std::iter::repeat_n("d", 129).collect();
    assert_eq!(found.last().unwrap(), &format!("hide/ {}", deepest.display()));
    assert_eq!(found.len(), 129);
}

/// Moves a directory while the tree is being walked: out of the one of two directories that is still to be read, into the one that has just been
/// read.
#[derive(Debug)]
struct Mover {
    root: PathBuf,
    moved_to: Mutex<Option<&'static str>>,
}

impl PathGrant for Mover {
    fn covers(&self, location: &Path) -> bool {
        let ways = [("a", "b"), ("b", "a")];
        let way = ways.into_iter().find(|(read, _)| location == Path::new(read).join("watched"));
        let mut moved_to = self.moved_to.lock().unwrap();
        if let (Some((read, unread)), None) = (way, *moved_to) {
            fs::rename(self.root.join(unread).join("moved"), self.root.join(read).join("here")).unwrap();
            *moved_to = Some(read);
        }
        true
    }
}

#[test]
fn a_folder_that_is_moved_past_the_walk_is_covered_all_the_same() {
    let scratch = tree(&["a/watched", "b/watched", "a/moved/.env", "b/moved/.env"]);
    let workspace = workspace(scratch.path());
    let mover = Mover { root: scratch.path().to_path_buf(), moved_to: Mutex::new(None) };
    let found = covers(&workspace, WRITABLE, Some(&mover)).unwrap();
    let moved_to = mover.moved_to.into_inner().unwrap().unwrap();
    assert!(found.contains(&format!("hide {moved_to}/here/.env")), "{found:?}");
}

/// What a place is in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    Folder,
    File,
    Link,
}

const NAMES: [&str; 22] = [
    "a",
    "b",
    "src",
    ".git",
    ".GIT",
    "hooks",
    "Hooks",
    "config",
    "config.worktree",
    "HEAD",
    "objects",
    "refs",
    "commondir",
    "modules",
    "worktrees",
    ".env",
    ".ENV.local",
    ".env.example",
    "k.pem",
    "k.pem.bak",
    ".ssh",
    "credentials",
];

fn trees() -> impl Strategy<Value = BTreeMap<PathBuf, Node>> {
    let name = || prop::sample::select(&NAMES[..]);
    let place = prop::collection::vec(name(), 1..5);
    let node = prop_oneof![1 => Just(Node::Folder), 4 => Just(Node::File), 1 => Just(Node::Link)];
    prop::collection::vec((place, node), 1..30).prop_map(|entries| {
        let mut tree: BTreeMap<PathBuf, Node> = BTreeMap::new();
        for (names, node) in entries {
            let place: PathBuf = names.iter().collect();
            let is_free = !tree.keys().any(|other| other.starts_with(&place))
                && place
                    .ancestors()
                    .skip(1)
                    .all(|above| tree.get(above).is_none_or(|node| *node == Node::Folder));
            if is_free {
                let above = place.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
                above.for_each(|above| _ = tree.insert(above.to_path_buf(), Node::Folder));
                tree.insert(place, node);
            }
        }
        tree
    })
}

fn lower(place: &Path) -> String {
    place.file_name().unwrap_or_default().to_str().unwrap().to_lowercase()
}

/// The reference: every place of the tree is checked one by one, without a walk and without a shortcut.
fn expected(tree: &BTreeMap<PathBuf, Node>) -> Vec<String> {
    let has = |folder: &Path, name: &str, kinds: &[Node]| {
        let mut children = tree.iter().filter(|(place, _)| place.parent() == Some(folder));
        children.any(|(place, node)| lower(place) == name && kinds.contains(node))
    };
    let is_repository = |folder: &Path| {
        let (files, folders) = ([Node::File, Node::Link], [Node::Folder, Node::Link]);
        lower(folder) == ".git"
            || has(folder, "head", &files)
                && (has(folder, "commondir", &files)
                    || has(folder, "objects", &folders) && has(folder, "refs", &folders))
    };
    let names_above = |place: &Path| -> Vec<String> {
        place.iter().map(|name| name.to_str().unwrap().to_lowercase()).collect()
    };
    let is_secret = |place: &Path, is_folder: bool| {
        let names = names_above(place);
        let (last, above) = names.split_last().unwrap();
        let is_in_modules = above.windows(2).any(|pair| pair == [".git", "modules"]);
        let is_in_worktrees = above.windows(2).any(|pair| pair == [".git", "worktrees"]);
        let by_name = [".env", ".env.local", "k.pem", "k.pem.bak", ".ssh"].contains(&last.as_str())
            || !is_folder && last == "credentials";
        let is_config = ["config", "config.worktree"].contains(&last.as_str());
        by_name
            || is_in_modules && (is_config || last == "hooks")
            || is_in_worktrees && last == "config.worktree"
            || above.last().is_some_and(|folder| folder == ".git") && (is_config || last == "hooks")
    };
    let mut seals: BTreeMap<&Path, &str> = BTreeMap::new();
    for (place, node) in tree {
        let in_repository = is_repository(place.parent().unwrap());
        let name = lower(place);
        let seal = match node {
            Node::Link => None,
            Node::Folder if in_repository && name == "hooks" => Some("freeze"),
            Node::Folder if is_secret(place, true) => Some("hide/"),
            Node::Folder => None,
            Node::File if in_repository && (name == "hooks" || name == "commondir") => Some("freeze"),
            Node::File if in_repository && name.starts_with("config") => Some("replace"),
            Node::File if name == ".git" => Some("freeze"),
            Node::File if is_secret(place, false) => Some("hide"),
            Node::File => None,
        };
        let is_below = |kind: &str| {
            place.ancestors().skip(1).any(|above| seals.get(above).is_some_and(|seal| *seal == kind))
        };
        match seal {
            Some(_) if is_below("hide/") => {}
            Some("freeze") if is_below("freeze") => {}
            Some(seal) => _ = seals.insert(place, seal),
            None => {}
        }
    }
    let mut all: BTreeMap<&Path, &str> = seals.clone();
    let repositories = tree
        .iter()
        .filter(|(place, node)| **node == Node::Folder && is_repository(place))
        .map(|(place, _)| place.as_path());
    for place in seals.keys().copied().chain(repositories) {
        let closed = |place: &Path| seals.contains_key(place);
        for above in place.ancestors().filter(|above| !above.as_os_str().is_empty()) {
            if !above.ancestors().any(closed) {
                all.insert(above, "pin");
            }
        }
    }
    all.iter().map(|(place, kind)| format!("{kind} {}", place.display())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn covers_are_what_asking_about_every_place_gives(tree in trees(), asks_everything in any::<bool>()) {
        let scratch = tempfile::tempdir().unwrap();
        for (place, node) in &tree {
            let path = scratch.path().join(place);
            match node {
                Node::Folder => fs::create_dir_all(path).unwrap(),
                Node::File => fs::write(path, "").unwrap(),
                Node::Link => std::os::unix::fs::symlink("nowhere", path).unwrap(),
            }
        }
        // A glob that matches nothing makes the walk check every place, and must change nothing.
        let deny: Vec<String> = if asks_everything { vec!["no/such/place".to_owned()] } else { Vec::new() };
        let project = mount("@project", scratch.path(), MountAccess::ReadWrite, MountRules::new().deny(&deny).unwrap());
        let found = covers(&Workspace::new(vec![project]).unwrap(), WRITABLE, None).unwrap();
        let found: Vec<String> = found.iter().map(|line| line.split(" = ").next().unwrap().to_owned()).collect();
        prop_assert_eq!(found, expected(&tree));
    }
}
