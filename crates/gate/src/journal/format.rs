//! The version of the journal's format. A journal of another version is left as it is: nothing in it is read, put back, swept or added to.

use std::io;

use cap_std::fs::Dir;

const NAME: &str = "format";
const CURRENT: &str = "toolgate journal 1\n";

/// Refuses a journal of another version. One that does not say is new, or as old as the first version.
pub(super) fn check(directory: &Dir) -> io::Result<()> {
    match directory.read_to_string(NAME) {
        Ok(found) if found == CURRENT => Ok(()),
        Ok(found) => Err(unknown(&found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory.write(NAME, CURRENT),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(unknown("")),
        Err(error) => Err(error),
    }
}

fn unknown(found: &str) -> io::Error {
    let version = found.trim().strip_prefix("toolgate journal ").filter(|version| version.len() <= 10);
    let found = match version.and_then(|version| version.parse::<u32>().ok()) {
        Some(version) => format!("is of version {version}, and this toolgate knows version 1"),
        None => format!("has a damaged `{NAME}` file"),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("the undo journal {found}; nothing in it was touched"))
}
