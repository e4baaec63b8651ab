//! The addresses of files, and what can be told by a name.

use rmcp::model::Resource;

/// What the address of every file begins with.
pub(crate) const FILES: &str = "toolgate://files/";

/// No path that the system knows makes a longer cursor.
const LONGEST_CURSOR: usize = 16 * 1024;

/// A file of a mount, by its path in it.
pub(crate) fn file_resource(alias: &str, path: &str, bytes: u64) -> Resource {
    let resource = Resource::new(address(alias, path), path).with_size(bytes);
    match kind_of(path) {
        Some(kind) => resource.with_mime_type(kind),
        None => resource,
    }
}

fn address(alias: &str, path: &str) -> String {
    format!("{FILES}{}/{}", bare(alias), encoded(path))
}

/// Where a list of files goes on: after this file of the mount with this alias.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) alias: String,
    pub(crate) after: String,
}

impl Cursor {
    /// The cursor that clients carry is the address of that file. One that could not have been handed out is none.
    pub(crate) fn read(cursor: &str, aliases: &[String]) -> Option<Self> {
        let (alias, after) = path_of(cursor)?.split_once('/').map(|(a, p)| (a.to_owned(), p.to_owned()))?;
        let is_plain = after.split('/').all(|name| !matches!(name, "" | "." | ".."));
        (is_plain && aliases.contains(&alias) && cursor.len() <= LONGEST_CURSOR)
            .then_some(Self { alias, after })
    }

    pub(crate) fn write(&self) -> String {
        address(&self.alias, &self.after)
    }
}

pub(crate) fn bare(alias: &str) -> &str {
    alias.strip_prefix('@').unwrap_or(alias)
}

/// The path that an address stands for, with its alias.
pub(crate) fn path_of(uri: &str) -> Option<String> {
    let (alias, path) = uri.strip_prefix(FILES)?.split_once('/')?;
    Some(format!("@{}/{}", decoded(alias)?, decoded(path)?))
}

/// Whatever has a meaning in an address is written as its bytes.
fn encoded(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The reverse; nothing where it is not text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit(rest.next()?)? << 4 | digit(rest.next()?)?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// What a file is, told by the end of its name. Nobody looks into it for that.
pub(crate) fn kind_of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => ending.to_ascii_lowercase(),
        _ => return NAMES.contains(&name).then_some("text/plain"),
    };
    KINDS.iter().find(|(_, endings)| endings.contains(&ending.as_str())).map(|(kind, _)| *kind)
}

/// Names without an ending that everybody knows.
const NAMES: &[&str] = &[
    "Makefile",
    "Dockerfile",
    "LICENSE",
    "README",
    "CHANGELOG",
    "NOTICE",
    "AUTHORS",
    ".gitignore",
    ".editorconfig",
];

/// What endings stand for. What is missing here is told without its kind.
const KINDS: &[(&str, &[&str])] = &[
    (
        "text/plain",
        &[
            "txt",
            "text",
            "log",
            "rs",
            "py",
            "rb",
            "go",
            "c",
            "h",
            "cc",
            "cpp",
            "hpp",
            "java",
            "kt",
            "swift",
            "sh",
            "bash",
            "zsh",
            "ts",
            "tsx",
            "jsx",
            "vue",
            "sql",
            "ini",
            "cfg",
            "conf",
            "lock",
            "diff",
            "patch",
            "proto",
            "lua",
            "pl",
            "php",
            "scala",
            "hs",
            "ml",
            "ex",
            "exs",
            "clj",
            "cs",
            "r",
            "jl",
            "dart",
            "zig",
            "nix",
            "gradle",
            "cmake",
            "tf",
            "env",
            "properties",
            "snap",
        ],
    ),
    ("text/markdown", &["md", "markdown"]),
    ("text/html", &["html", "htm"]),
    ("text/css", &["css"]),
    ("text/csv", &["csv"]),
    ("text/tab-separated-values", &["tsv"]),
    ("text/javascript", &["js", "mjs", "cjs"]),
    ("application/json", &["json"]),
    ("application/jsonl", &["jsonl", "ndjson"]),
    ("application/yaml", &["yaml", "yml"]),
    ("application/toml", &["toml"]),
    ("application/xml", &["xml", "xsd"]),
    ("image/svg+xml", &["svg"]),
    ("image/png", &["png"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/gif", &["gif"]),
    ("image/webp", &["webp"]),
    ("image/avif", &["avif"]),
    ("image/bmp", &["bmp"]),
    ("image/vnd.microsoft.icon", &["ico"]),
    ("audio/mpeg", &["mp3"]),
    ("audio/wav", &["wav"]),
    ("audio/ogg", &["ogg"]),
    ("video/mp4", &["mp4"]),
    ("video/webm", &["webm"]),
    ("font/woff2", &["woff2"]),
    ("font/woff", &["woff"]),
    ("font/ttf", &["ttf"]),
    ("application/pdf", &["pdf"]),
    ("application/zip", &["zip"]),
    ("application/gzip", &["gz", "tgz"]),
    ("application/wasm", &["wasm"]),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_has_an_address(path in "[^\0]{1,40}") {
            let resource = file_resource("@project", &path, 7);
            let plain = resource.uri.strip_prefix(FILES).unwrap();
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
        let cursor = |alias: &str, after: &str| Cursor { alias: alias.to_owned(), after: after.to_owned() };
        for handed_out in [cursor("@project", "a/b c.txt"), cursor("@docs", "ü/%"), cursor("@docs", "..x")] {
            assert_eq!(Cursor::read(&handed_out.write(), &aliases).as_ref(), Some(&handed_out));
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
            &format!("toolgate://files/project/{}", "x".repeat(LONGEST_CURSOR)),
        ] {
            assert_eq!(Cursor::read(garbage, &aliases), None, "{garbage}");
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
            assert_eq!(kind_of(path), kind, "{path}");
        }
    }
}
