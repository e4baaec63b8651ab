//! Paths relative to a mount, as bytes: built in place, and compared in walk order.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path whose last component changes, without an allocation for each.
pub(crate) struct PathBuffer {
    bytes: Vec<u8>,
    parent: usize,
}

impl PathBuffer {
    /// A path beneath this directory.
    pub(crate) fn of(directory: &[u8]) -> Self {
        let mut place = Self { bytes: Vec::with_capacity(256), parent: 0 };
        place.enter(directory);
        place
    }

    /// Moves beneath another directory.
    pub(crate) fn enter(&mut self, directory: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(directory);
        if !directory.is_empty() {
            self.bytes.push(b'/');
        }
        self.parent = self.bytes.len();
    }

    /// Moves to a child.
    pub(crate) fn child(&mut self, name: &[u8]) -> &Path {
        self.bytes.truncate(self.parent);
        self.bytes.extend_from_slice(name);
        self.path()
    }

    /// The current path.
    pub(crate) fn path(&self) -> &Path {
        as_path(&self.bytes)
    }

    /// The current path as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes from the kernel as a path.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Bytes as an owned path.
pub(crate) fn into_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// The order in which a walk that sorts every directory meets paths: by component, not by byte.
///
/// `a/z` comes before `a.txt`, because the directory `a` comes before it.
pub(crate) fn walk_order(one: &[u8], other: &[u8]) -> Ordering {
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(rank).cmp(other.iter().map(rank))
}

/// A path that sorts in walk order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalkOrderKey(pub(crate) Vec<u8>);

impl Ord for WalkOrderKey {
    fn cmp(&self, other: &Self) -> Ordering {
        walk_order(&self.0, &other.0)
    }
}

impl PartialOrd for WalkOrderKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn children_replace_one_another() {
        let mut place = PathBuffer::of(b"a/b");
        assert_eq!(place.child(b"one"), Path::new("a/b/one"));
        assert_eq!(place.child(b"x"), Path::new("a/b/x"));
        place.enter(b"");
        assert_eq!(place.child(b"top"), Path::new("top"));
    }

    proptest! {
        #[test]
        fn walk_order_is_the_order_of_components(one in "[a!./]{0,8}", other in "[a!./]{0,8}") {
            let tidy = |text: &str| text.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            let (one, other) = (tidy(&one), tidy(&other));
            let by_component = one.split('/').cmp(other.split('/'));
            prop_assert_eq!(walk_order(one.as_bytes(), other.as_bytes()), by_component);
        }
    }
}
