//! Where a path leads, against a plain model that walks names one by one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use toolgate_types::{Deadline, ErrorCode, Limits};
use toolgate_workspace::{
    Mount, MountAccess, MountRules, PathStyle, ReadRequest, Workspace, WorkspaceError, WorkspaceView,
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The node at a place of the model.
#[derive(Clone, Debug)]
enum Node {
    Folder,
    File,
    Link(Target),
}

/// The target of a symlink.
#[derive(Clone, Debug)]
enum Target {
    /// So many directories up, then these names.
    Relative(usize, Vec<&'static str>),
    /// From the root of the mount.
    AbsoluteInside(Vec<&'static str>),
    /// Somewhere else on the host.
    AbsoluteOutside,
}

type Model = BTreeMap<Vec<String>, Node>;

fn names(most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..=most)
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        2 => Just(Node::Folder),
        2 => Just(Node::File),
        3 => (0usize..3, names(2)).prop_map(|(up, names)| Node::Link(Target::Relative(up, names))),
        1 => names(2).prop_map(|names| Node::Link(Target::AbsoluteInside(names))),
        1 => Just(Node::Link(Target::AbsoluteOutside)),
    ]
}

/// A tree of up to three levels in which every parent is a directory.
fn model() -> impl Strategy<Value = Model> {
    prop::collection::vec((names(3), node()), 1..12).prop_map(|entries| {
        let mut model = Model::new();
        for (place, node) in entries {
            let place: Vec<String> = place.into_iter().map(str::to_owned).collect();
            let free = !model.keys().any(|other| {
                other.starts_with(&place)
                    || (place.starts_with(other) && !matches!(model[other], Node::Folder))
            });
            if free {
                for depth in 1..place.len() {
                    model.entry(place[..depth].to_vec()).or_insert(Node::Folder);
                }
                model.insert(place, node);
            }
        }
        model
    })
}

fn build(model: &Model, root: &Path, outside: &Path) {
    for (place, node) in model {
        let path = place.iter().fold(root.to_path_buf(), |path, name| path.join(name));
        match node {
            Node::Folder => fs::create_dir(&path).unwrap(),
            Node::File => fs::write(&path, place.join("/")).unwrap(),
            Node::Link(Target::Relative(up, names)) => {
                let target: PathBuf = std::iter::repeat_n("..", *up).chain(names.iter().copied()).collect();
                symlink(target, &path).unwrap();
            }
            Node::Link(Target::AbsoluteInside(names)) => {
                symlink(names.iter().fold(root.to_path_buf(), |path, name| path.join(name)), &path).unwrap()
            }
            Node::Link(Target::AbsoluteOutside) => symlink(outside, &path).unwrap(),
        }
    }
}

/// The reference walk: one name at a time, symlinks resolved in place.
fn expected(model: &Model, asked: &[&str]) -> Result<Vec<String>, ErrorCode> {
    let mut names: Vec<String> = Vec::new();
    for name in asked {
        if *name == ".." {
            names.pop().ok_or(ErrorCode::OutsideWorkspace)?;
        } else {
            names.push((*name).to_owned());
        }
    }
    let mut pending: Vec<(String, bool)> = names.into_iter().rev().map(|name| (name, false)).collect();
    let mut at: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some((name, by_link)) = pending.pop() {
        if !at.is_empty() && !matches!(model.get(&at), Some(Node::Folder)) {
            return Err(ErrorCode::NotADirectory);
        }
        if name == ".." {
            at.pop().ok_or(ErrorCode::SymlinkOutsideWorkspace)?;
            continue;
        }
        at.push(name);
        let (up, target) = match model.get(&at) {
            None if by_link => return Err(ErrorCode::SymlinkOutsideWorkspace),
            None => return Err(ErrorCode::NotFound),
            Some(Node::Folder | Node::File) => continue,
            Some(Node::Link(Target::AbsoluteOutside)) => return Err(ErrorCode::SymlinkOutsideWorkspace),
            Some(Node::Link(Target::AbsoluteInside(target))) => {
                at.clear();
                at.push(String::new());
                (0, target)
            }
            Some(Node::Link(Target::Relative(up, target))) => (*up, target),
        };
        links += 1;
        if links > 40 {
            return Err(ErrorCode::SymlinkLoop);
        }
        at.pop();
        pending.extend(target.iter().rev().map(|name| ((*name).to_owned(), true)));
        pending.extend(std::iter::repeat_n(("..".to_owned(), true), up));
    }
    match model.get(&at) {
        Some(Node::File) => Ok(at),
        _ => Err(ErrorCode::NotAFile),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn a_path_leads_where_the_plain_walk_says(
        model in model(),
        asked in prop::collection::vec(prop::collection::vec(prop_oneof![8 => prop::sample::select(&NAMES[..]), 1 => Just("..")], 1..5), 1..20),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().canonicalize().unwrap();
        let (root, outside) = (folder.join("w"), folder.join("w_outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), "outside").unwrap();
        build(&model, &root, &outside);
        let mount = Mount::new("@project", File::open(&root).unwrap(), &root, MountAccess::ReadWrite, MountRules::new()).unwrap();
        let workspace = Workspace::new(vec![mount.as_default()]).unwrap();
        let stop = Deadline::never();
        let view = WorkspaceView { workspace: &workspace, style: PathStyle::Free, limits: &LIMITS, grant: None, stop: &stop, unlocked: None };
        for asked in asked {
            let path = asked.join("/");
            let found = view.read(&path, &ReadRequest::default()).map(|read| read.path).map_err(|error: WorkspaceError| error.code());
            let expected = expected(&model, &asked).map(|place| place.join("/"));
            prop_assert_eq!(found, expected, "{} in {:?}", path, model);
        }
    }
}

pub(crate) const LIMITS: Limits = Limits {
    max_read_bytes: 1 << 20,
    max_resource_bytes: u64::MAX,
    max_write_bytes: 1 << 20,
    max_entries: 100,
    max_matches: 100,
    max_output_bytes: 1 << 20,
    timeout: Duration::from_secs(10),
};
