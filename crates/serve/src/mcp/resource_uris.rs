//! File URIs, and MIME types by file name.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::Resource;

/// The prefix of every file URI.
pub(crate) const FILE_URI_PREFIX: &str = "toolgate://files/";

/// Maximum length of a cursor. A path of `PATH_MAX` bytes, percent-encoded, stays below it.
const MAX_CURSOR_BYTES: usize = 16 * 1024;

/// The resource for a file of a mount.
pub(crate) fn file_resource(alias: &str, path: &str, bytes: u64) -> Resource {
    let resource = Resource::new(file_uri(alias, path), path).with_size(bytes);
    match mime_type_of(path) {
        Some(kind) => resource.with_mime_type(kind),
        None => resource,
    }
}

fn file_uri(alias: &str, path: &str) -> String {
    format!("{FILE_URI_PREFIX}{}/{}", strip_at(alias), encoded(path))
}

/// The position in a file listing: after this file of the mount with this alias.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileCursor {
    pub(crate) alias: String,
    pub(crate) after: String,
}

impl FileCursor {
    /// Parses a cursor, which is the URI of the last listed file. Returns `None` for a cursor that could not have been issued.
    pub(crate) fn read(cursor: &str, aliases: &[String]) -> Option<Self> {
        let (alias, after) = path_of(cursor)?.split_once('/').map(|(a, p)| (a.to_owned(), p.to_owned()))?;
        let is_plain = after.split('/').all(|name| !matches!(name, "" | "." | ".."));
        (is_plain && aliases.contains(&alias) && cursor.len() <= MAX_CURSOR_BYTES)
            .then_some(Self { alias, after })
    }

    pub(crate) fn write(&self) -> String {
        file_uri(&self.alias, &self.after)
    }
}

pub(crate) fn strip_at(alias: &str) -> &str {
    alias.strip_prefix('@').unwrap_or(alias)
}

/// The path of a file URI, with its alias.
pub(crate) fn path_of(uri: &str) -> Option<String> {
    let (alias, path) = uri.strip_prefix(FILE_URI_PREFIX)?.split_once('/')?;
    Some(format!("@{}/{}", decoded(alias)?, decoded(path)?))
}

/// Everything but the unreserved characters of RFC 3986 is percent-encoded, and the slash is kept as the separator.
const RESERVED_BYTES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

fn encoded(path: &str) -> String {
    utf8_percent_encode(path, RESERVED_BYTES).to_string()
}

/// Percent-decodes; `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let begins_byte = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    // The decoder would pass an invalid `%` escape through; here it is an error.
    let is_whole = text.split('%').skip(1).all(begins_byte);
    let decoded = percent_decode_str(text).decode_utf8().ok().filter(|_| is_whole);
    decoded.map(Cow::into_owned)
}

/// The MIME type by file extension, without reading the file.
pub(crate) fn mime_type_of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => ending.to_ascii_lowercase(),
        _ => return is_among(name, TEXT_FILE_NAMES).then_some("text/plain"),
    };
    MIME_TYPES.iter().find(|(_, endings)| is_among(&ending, endings)).map(|(kind, _)| *kind)
}

fn is_among(word: &str, words: &str) -> bool {
    words.split_ascii_whitespace().any(|one| one == word)
}

/// Well-known text files without an extension.
const TEXT_FILE_NAMES: &str =
    "Makefile Dockerfile LICENSE README CHANGELOG NOTICE AUTHORS .gitignore .editorconfig";

/// MIME types by extension. Files with other extensions are listed without a type.
const MIME_TYPES: &[(&str, &str)] = &[
    (
        "text/plain",
        "txt text log rs py rb go c h cc cpp hpp java kt swift sh bash zsh ts tsx jsx vue sql ini \
         cfg conf lock diff patch proto lua pl php scala hs ml ex exs clj cs r jl dart zig nix \
         gradle cmake tf env properties snap",
    ),
    ("text/markdown", "md markdown"),
    ("text/html", "html htm"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/tab-separated-values", "tsv"),
    ("text/javascript", "js mjs cjs"),
    ("application/json", "json"),
    ("application/jsonl", "jsonl ndjson"),
    ("application/yaml", "yaml yml"),
    ("application/toml", "toml"),
    ("application/xml", "xml xsd"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpg jpeg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/vnd.microsoft.icon", "ico"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/ogg", "ogg"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("font/woff2", "woff2"),
    ("font/woff", "woff"),
    ("font/ttf", "ttf"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/gzip", "gz tgz"),
    ("application/wasm", "wasm"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_has_an_address(path in "[^\0]{1,40}") {
            let resource = file_resource("@project", &path, 7);
            let plain = resource.uri.strip_prefix(FILE_URI_PREFIX).unwrap();
            prop_assert!(plain.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(path_of(&resource.uri).unwrap(), format!("@project/{path}"));
        }
    }

    #[test]
    fn addresses_that_are_none_name_no_path() {
        for uri in [
            "",
            "file:///etc/passwd",
            "toolgate://files/",
            "toolgate://files/project",
            "toolgate://files/p/%zz",
            "toolgate://files/p/%f",
        ] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
        assert_eq!(path_of("toolgate://files/project/%ff"), None);
        assert_eq!(path_of("toolgate://files/project/../x").as_deref(), Some("@project/../x"));
    }

    #[test]
    fn only_what_may_have_been_handed_out_is_a_cursor() {
        let aliases = ["@project".to_owned(), "@docs".to_owned()];
        let cursor =
            |alias: &str, after: &str| FileCursor { alias: alias.to_owned(), after: after.to_owned() };
        for handed_out in [cursor("@project", "a/b c.txt"), cursor("@docs", "ü/%"), cursor("@docs", "..x")] {
            assert_eq!(FileCursor::read(&handed_out.write(), &aliases).as_ref(), Some(&handed_out));
        }
        for garbage in [
            "",
            "200",
            "x",
            "toolgate://files/",
            "toolgate://files/project",
            "toolgate://files/project/",
            "toolgate://files/elsewhere/a.txt",
            "toolgate://files/project/../a.txt",
            "toolgate://files/project//a.txt",
            "toolgate://files/project/./a.txt",
            "toolgate://files/project/%ff",
            "toolgate://outputs/0123",
            &format!("toolgate://files/project/{}", "x".repeat(MAX_CURSOR_BYTES)),
        ] {
            assert_eq!(FileCursor::read(garbage, &aliases), None, "{garbage}");
        }
    }

    #[test]
    fn kinds_are_told_by_names() {
        for (path, kind) in [
            ("a/notes.md", Some("text/markdown")),
            ("src/lib.rs", Some("text/plain")),
            ("A.PNG", Some("image/png")),
            ("deep/Makefile", Some("text/plain")),
            (".gitignore", Some("text/plain")),
            (".png", None),
            ("data.unknown", None),
            ("md", None),
            ("dir.md/x", None),
        ] {
            assert_eq!(mime_type_of(path), kind, "{path}");
        }
    }

    /// The same by hand, byte by byte.
    fn plainly_encoded(path: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let one = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        path.bytes().map(one).collect()
    }

    fn plainly_decoded(text: &str) -> Option<String> {
        let (mut bytes, mut rest) = (Vec::new(), text.bytes());
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(if byte == b'%' { (digit()? * 16 + digit()?) as u8 } else { byte });
        }
        String::from_utf8(bytes).ok()
    }

    proptest::proptest! {
        #[test]
        fn paths_are_written_and_read_as_by_hand(path in ".*", text in "([a-z/+]|%|%[0-9a-gA-G]{1,2}|%[cC]3%[aA]9|é){0,12}") {
            assert_eq!(encoded(&path), plainly_encoded(&path));
            assert_eq!(decoded(&encoded(&path)), Some(path));
            assert_eq!(decoded(&text), plainly_decoded(&text));
        }
    }
}
