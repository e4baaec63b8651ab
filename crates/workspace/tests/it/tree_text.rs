//! Trees written as text, and workspaces over them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use toolgate_workspace::{Mount, MountAccess, MountRules, Workspace};

pub(crate) fn mount(alias: &str, root: &Path, access: MountAccess, rules: MountRules) -> Mount {
    Mount::new(alias, File::open(root).unwrap(), root, access, rules).unwrap()
}

pub(crate) fn workspace(root: &Path) -> Workspace {
    Workspace::new(vec![mount("@project", root, MountAccess::ReadWrite, MountRules::new())]).unwrap()
}

/// Makes one entry: `x`, `x/`, `x = text`, `x -> y` or `x |`.
pub(crate) fn make(root: &Path, line: &str) {
    let place = |text: &str| {
        let path = root.join(OsString::from_vec(bytes(text)));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    if let Some((path, target)) = line.split_once(" -> ") {
        symlink(target, place(path)).unwrap();
    } else if let Some((path, content)) = line.split_once(" = ") {
        fs::write(place(path), bytes(content)).unwrap();
    } else if let Some(path) = line.strip_suffix(" |") {
        rustix::fs::mknodat(rustix::fs::CWD, place(path), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
    } else if let Some(path) = line.strip_suffix('/') {
        fs::create_dir_all(place(path)).unwrap();
    } else {
        fs::write(place(line), "").unwrap();
    }
}

/// Text with `\xNN`, `\n` and `\t`.
fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes()[0] {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'x' => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            other => panic!("\\{} means nothing", char::from(other)),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// The same the other way round.
pub(crate) fn shown(path: &Path) -> String {
    escaped(path.as_os_str().as_bytes())
}

pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\n', "\\n").replace('\t', "\\t"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// The cases of a data file: name, lines before `---`, lines after it.
pub(crate) fn cases(text: &str) -> Vec<(&str, Vec<&str>, Vec<&str>)> {
    text.split("\n## ")
        .skip(1)
        .map(|case| {
            let (name, rest) = case.split_once('\n').unwrap();
            let (given, expected) = rest.split_once("---").unwrap();
            (name, lines(given), lines(expected))
        })
        .collect()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}
