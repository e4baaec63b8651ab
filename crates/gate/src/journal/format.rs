//! The journal's format version. A journal of another version is left untouched: nothing in it is read, restored, swept or added.

use std::io::{self, Write as _};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use toolgate_types::CallId;

const NAME: &str = "format";
const CURRENT: &str = "toolgate journal 1\n";

/// Refuses a journal of another version. A journal without a version is new or of version 1; its version file is created.
pub(super) fn check_version(directory: &Dir) -> io::Result<()> {
    if look(directory)? { Ok(()) } else { create(directory) }
}

/// Whether the version file names this version; an error if it names another.
pub(super) fn look(directory: &Dir) -> io::Result<bool> {
    match directory.read_to_string(NAME) {
        Ok(found) if found == CURRENT => Ok(true),
        Ok(found) => Err(unknown(&found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(unknown("")),
        Err(error) => Err(error),
    }
}

/// Creates the version file atomically (`fdatasync`, then `rename`), so that it never exists without its content, not even after a power cut: a
/// journal with an invalid version is refused. Two gates that start at the same time each rename a temporary file of their own.
fn create(directory: &Dir) -> io::Result<()> {
    let unfinished = format!("{NAME}.{}", CallId::fresh());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = directory.open_with(&unfinished, &options)?;
    file.write_all(CURRENT.as_bytes())?;
    file.sync_data()?;
    directory.rename(&unfinished, directory, NAME)
}

fn unknown(found: &str) -> io::Error {
    let version = found.trim().strip_prefix("toolgate journal ").filter(|version| version.len() <= 10);
    let found = match version.and_then(|version| version.parse::<u32>().ok()) {
        Some(version) => format!("is of version {version}, and this toolgate knows version 1"),
        None => format!("has a damaged `{NAME}` file"),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("the undo journal {found}; nothing in it was touched"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn gates_that_start_together_agree_on_the_version() {
        for _ in 0..50 {
            let scratch = tempfile::tempdir().unwrap();
            let directory = Dir::open_ambient_dir(scratch.path(), ambient_authority()).unwrap();
            std::thread::scope(|scope| {
                let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| check_version(&directory))).collect();
                starts.into_iter().for_each(|start| start.join().unwrap().unwrap());
            });
            assert_eq!(directory.entries().unwrap().count(), 1, "nothing unfinished is left");
        }
    }
}
