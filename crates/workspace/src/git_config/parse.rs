//! The syntax of git configurations, exactly as git parses it; what git would reject is rejected.

use std::iter::Peekable;
use std::rc::Rc;
use std::slice::Iter;

use super::MAX_CONFIG_BYTES;

/// The longest accepted section name.
const MAX_SECTION_BYTES: usize = 1024;

/// The most accepted settings.
const MAX_SETTINGS: usize = 10_000;

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The section, and the subsection after a dot; shared by all settings below one header.
    pub(super) header: Rc<[u8]>,
    /// In lower case.
    pub(super) key: Vec<u8>,
    /// A key without a value means true.
    pub(super) value: Option<Vec<u8>>,
}

impl Setting {
    /// In lower case.
    pub(super) fn section(&self) -> &[u8] {
        self.header.split(|byte| *byte == b'.').next().unwrap_or_default()
    }

    pub(super) fn subsection(&self) -> Option<&[u8]> {
        self.header.get(self.section().len() + 1..)
    }

    /// The whole setting as a unique text.
    pub(super) fn written(&self) -> Vec<u8> {
        let value = self.value.as_deref();
        // Neither the header nor the key can contain a line feed.
        let mark: &[u8] = if value.is_some() { b"=" } else { b"" };
        [&*self.header, self.key.as_slice(), mark, value.unwrap_or_default()].join(&b'\n')
    }
}

/// All settings in their order; `None` when git would reject the file.
pub(super) fn parse(original: &[u8]) -> Option<Vec<Setting>> {
    // A NUL ends the text for git, but not for this parser.
    if original.len() > MAX_CONFIG_BYTES || original.contains(&0) {
        return None;
    }
    let text = original.strip_prefix(b"\xef\xbb\xbf").unwrap_or(original);
    let mut reader = GitConfigParser { bytes: text.iter().peekable() };
    let mut settings = Vec::new();
    let mut place: Option<Rc<[u8]>> = None;
    while let Some(byte) = reader.next_or_end() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => {
                place =
                    Some(reader.header()?.into()).filter(|place: &Rc<[u8]>| place.len() <= MAX_SECTION_BYTES)
            }
            byte if is_space(byte) => {}
            _ if settings.len() == MAX_SETTINGS => return None,
            // A setting before the first section, or below a section name that is too long, makes the file invalid.
            byte if byte.is_ascii_alphabetic() => settings.push(reader.setting(place.clone()?, byte)?),
            _ => return None,
        }
    }
    Some(settings)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

struct GitConfigParser<'a> {
    bytes: Peekable<Iter<'a, u8>>,
}

impl GitConfigParser<'_> {
    /// `None` at the end. A carriage return before a line feed is dropped.
    fn next_or_end(&mut self) -> Option<u8> {
        match self.bytes.next()? {
            b'\r' => Some(if self.bytes.next_if(|next| **next == b'\n').is_some() { b'\n' } else { b'\r' }),
            byte => Some(*byte),
        }
    }

    /// The end of the file counts as the end of a line.
    fn next(&mut self) -> u8 {
        self.next_or_end().unwrap_or(b'\n')
    }

    fn skip_line(&mut self) {
        while self.next() != b'\n' {}
    }

    /// After `[`: `section]`, `section.subsection]` or `section "subsection"]`.
    fn header(&mut self) -> Option<Vec<u8>> {
        let mut place = Vec::new();
        loop {
            match self.next_or_end()? {
                b']' => return Some(place),
                byte if is_space(byte) => return self.quoted_subsection(place, byte),
                byte if is_key(byte) || byte == b'.' => place.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
    }

    fn quoted_subsection(&mut self, mut place: Vec<u8>, mut byte: u8) -> Option<Vec<u8>> {
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next();
        }
        if byte != b'"' {
            return None;
        }
        place.push(b'.');
        loop {
            match self.next() {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return None,
                    escaped => place.push(escaped),
                },
                byte => place.push(byte),
            }
        }
        (self.next() == b']').then_some(place)
    }

    fn setting(&mut self, place: Rc<[u8]>, first: u8) -> Option<Setting> {
        let mut key = vec![first.to_ascii_lowercase()];
        let mut byte = self.next();
        while is_key(byte) {
            key.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next();
        }
        let value = match byte {
            b'\n' => None,
            b'=' => Some(self.value()?),
            _ => return None,
        };
        Some(Setting { header: place, key, value })
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let mut quoted = false;
        // Where white space began that may turn out to be trailing.
        let mut trimmed: Option<usize> = None;
        loop {
            match self.next() {
                b'\n' if quoted => return None,
                b'\n' => break,
                byte if is_space(byte) && !quoted => {
                    trimmed.get_or_insert(value.len());
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => quoted = !quoted,
                b'\\' => match self.next() {
                    b'\n' => {}
                    byte => value.push(unescaped(byte)?),
                },
                byte => value.push(byte),
            }
            trimmed = None;
        }
        value.truncate(trimmed.unwrap_or(value.len()));
        Some(value)
    }
}

fn unescaped(byte: u8) -> Option<u8> {
    match byte {
        b't' => Some(b'\t'),
        b'b' => Some(8),
        b'n' => Some(b'\n'),
        b'\\' | b'"' => Some(byte),
        _ => None,
    }
}
