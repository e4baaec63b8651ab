//! The binary encoding of a baseline: length-prefixed, little-endian, paths as raw bytes.
//!
//! JSON cannot represent names that are not UTF-8, and a command chooses such names.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::hash::Hash;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// A value that can be encoded into a record and decoded.
pub(super) trait Codec: Sized {
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the value from the front of the input; `None` when it is incomplete.
    fn decode(input: &mut &[u8]) -> Option<Self>;
}

impl Codec for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (first, rest) = input.split_first()?;
        *input = rest;
        Some(*first)
    }
}

impl Codec for u64 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = input.split_first_chunk()?;
        *input = rest;
        Some(Self::from_le_bytes(*bytes))
    }
}

impl Codec for i64 {
    fn encode(&self, out: &mut Vec<u8>) {
        self.cast_unsigned().encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        u64::decode(input).map(u64::cast_signed)
    }
}

impl Codec for PathBuf {
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = self.as_os_str().as_bytes();
        (bytes.len() as u64).encode(out);
        out.extend_from_slice(bytes);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        Some(OsString::from_vec(Codec::decode(input)?).into())
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        Some((A::decode(input)?, B::decode(input)?))
    }
}

impl<T: Codec> Codec for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        u8::from(self.is_some()).encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        match u8::decode(input)? {
            0 => Some(None),
            1 => T::decode(input).map(Some),
            _ => None,
        }
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        decode_all(input)
    }
}

impl<T: Codec + Eq + Hash> Codec for HashSet<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        decode_all(input)
    }
}

impl<K: Codec + Eq + Hash, V: Codec> Codec for HashMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        decode_all(input)
    }
}

impl<K: Codec + Ord, V: Codec> Codec for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        decode_all(input)
    }
}

/// Preallocates nothing: a length that exceeds the input ends the loop at the first missing element.
fn decode_all<T: Codec, C: FromIterator<T>>(input: &mut &[u8]) -> Option<C> {
    let length = u64::decode(input)?;
    (0..length).map(|_| T::decode(input)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_no_part_of_it_is_enough() {
        type Sample = (HashMap<PathBuf, Option<i64>>, (HashSet<Vec<u8>>, Vec<(u64, PathBuf)>));
        let path = PathBuf::from(OsString::from_vec(b"a/\xff\n/.git".to_vec()));
        let sample: Sample = (
            HashMap::from([(path.clone(), Some(-3)), (PathBuf::new(), None)]),
            (HashSet::from([b"exec x".to_vec()]), vec![(u64::MAX, path)]),
        );
        let mut written = Vec::new();
        sample.encode(&mut written);
        let mut input = written.as_slice();
        assert_eq!(Sample::decode(&mut input), Some(sample));
        assert!(input.is_empty());
        for length in 0..written.len() {
            assert_eq!(Sample::decode(&mut &written[..length]), None, "{length}");
        }
    }
}
