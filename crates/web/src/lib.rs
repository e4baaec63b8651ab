//! The web page, embedded in the binary: each file with its media type, entity tag, caching rule and compressed forms.
//!
//! `cargo xtask run` and `cargo xtask test` build the page (`web/`, React and TypeScript) before they build the binary. `cargo build` alone needs no
//! Node: without a built page, [`find`] returns nothing, and the server shows [`NOT_BUILT`].
//!
//! The page is the person's side of approvals, so what it may load and run is part of the gate: [`SECURITY_HEADERS`] stand beside the files that they
//! were written for. A test in a real browser fails if the page violates them.
//!
//! What this crate refuses to know: HTTP (it returns bytes and header values), sessions, the API, and the disk: everything was embedded at build time.

/// The answer for `/` where the binary was built without the page.
pub const NOT_BUILT: &str =
    "the page is not part of this build: `cargo xtask run` builds it, which needs npm and Node 20 or later\n";

/// Headers of every response with a file of the page.
///
/// - Scripts, styles, pictures and connections are those of this origin alone; nothing is inline, and nothing can be framed.
/// - `require-trusted-types-for` makes the browser refuse text as HTML or script. The one policy, `toolgate-worker`, passes the path of the page's own
///   service worker and nothing else.
/// - No `Referer` leaves: an address may contain the id of a session.
pub const SECURITY_HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types toolgate-worker",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
];

/// The file at `/`.
const INDEX: &str = "index.html";

/// The directory of files whose names contain a digest of their content.
const HASHED: &str = "assets/";

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// An embedded file.
#[derive(Debug)]
pub struct Asset {
    path: &'static str,
    etag: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    brotli: &'static [u8],
}

/// A file in one content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedBody {
    /// The value of `Content-Encoding`, if the file is compressed.
    pub encoding: Option<&'static str>,
    /// The bytes.
    pub bytes: &'static [u8],
}

/// Whether this build contains the page.
#[must_use]
pub fn is_built() -> bool {
    find("/").is_some()
}

/// The file for the path of a request, such as `/` or `/assets/index-BdX3.js`. The path is only compared with a list, never opened.
#[must_use]
pub fn find(path: &str) -> Option<&'static Asset> {
    let path = path.strip_prefix('/')?;
    let path = if path.is_empty() { INDEX } else { path };
    let index = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(index)
}

impl Asset {
    /// The value of `Content-Type`.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "png" => "image/png",
            "webmanifest" => "application/manifest+json",
            _ => "application/octet-stream",
        }
    }

    /// The value of `ETag`: a strong tag of the uncompressed content.
    #[must_use]
    pub fn etag(&self) -> &'static str {
        self.etag
    }

    /// The value of `Cache-Control`. A name with a digest never gets other content; the rest is revalidated by its tag.
    #[must_use]
    pub fn cache_control(&self) -> &'static str {
        if self.path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" }
    }

    /// Whether `If-None-Match` names this content, so that 304 is the answer.
    #[must_use]
    pub fn is_fresh(&self, if_none_match: &str) -> bool {
        let tags = if_none_match.split(',').map(str::trim);
        tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == "*" || tag == self.etag)
    }

    /// The smallest form that `Accept-Encoding` allows. Send `Vary: Accept-Encoding` with it.
    #[must_use]
    pub fn body(&self, accept_encoding: &str) -> EncodedBody {
        if accepts(accept_encoding, "br") {
            EncodedBody { encoding: Some("br"), bytes: self.brotli }
        } else if accepts(accept_encoding, "gzip") {
            EncodedBody { encoding: Some("gzip"), bytes: self.gzip }
        } else {
            EncodedBody { encoding: None, bytes: self.plain }
        }
    }
}

/// Whether the header names the coding, and not with the weight 0. A wildcard counts as silence: the uncompressed form is always acceptable.
fn accepts(header: &str, coding: &str) -> bool {
    header.split(',').any(|item| {
        let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
        let weight = parameters.trim().strip_prefix("q=").map(str::trim);
        let is_refused = weight.is_some_and(|weight| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        name.trim().eq_ignore_ascii_case(coding) && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Asset =
        Asset { path: "index.html", etag: "\"abc\"", plain: b"plain", gzip: b"gz", brotli: b"br" };

    #[test]
    fn the_smallest_accepted_coding_is_chosen() {
        for (header, expected) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("BR", Some("br")),
            ("gzip;q=0.5, br;q=0", Some("gzip")),
            ("br;q=0.0, gzip; q=0", None),
            ("x-br, gzipped", None),
            ("identity", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(FILE.body(header).encoding, expected, "{header}");
        }
        assert_eq!(FILE.body("br").bytes, b"br");
        assert_eq!(FILE.body("").bytes, b"plain");
    }

    #[test]
    fn only_hashed_names_are_cached_without_asking() {
        assert_eq!(FILE.cache_control(), "no-cache");
        let hashed = Asset { path: "assets/index-BdX3.js", ..FILE };
        assert!(hashed.cache_control().contains("immutable"));
        let named = Asset { path: "assets.js", ..FILE };
        assert_eq!(named.cache_control(), "no-cache");
    }

    #[test]
    fn an_entity_tag_is_compared_weakly() {
        for (header, expected) in [
            ("\"abc\"", true),
            ("W/\"abc\"", true),
            ("\"x\", \"abc\"", true),
            ("*", true),
            ("\"ab\"", false),
            ("abc", false),
        ] {
            assert_eq!(FILE.is_fresh(header), expected, "{header}");
        }
    }

    #[test]
    fn paths_are_compared_with_the_list_only() {
        for path in ["", "index.html", "/../Cargo.toml", "/files.txt", "/assets/", "//", "/index.html/"] {
            assert!(find(path).is_none(), "{path}");
        }
        assert_eq!(find("/").is_some(), is_built());
        assert_eq!(find("/index.html").is_some(), is_built());
    }

    #[test]
    fn every_file_has_a_media_type_and_shrinks() {
        for file in FILES {
            assert_ne!(file.content_type(), "application/octet-stream", "{}", file.path);
            assert!(file.brotli.len() < file.plain.len(), "{}", file.path);
            assert!(file.etag.starts_with('"') && file.etag.ends_with('"'), "{}", file.etag);
        }
    }

    /// The budget of everything that a browser could load, with every chunk.
    #[test]
    fn the_whole_page_is_smaller_than_its_budget() {
        let bytes: usize = FILES.iter().map(|file| file.brotli.len()).sum();
        assert!(bytes < 250_000, "{bytes} bytes");
    }

    #[test]
    fn the_policy_allows_nothing_inline_and_nothing_from_elsewhere() {
        let (_, policy) =
            SECURITY_HEADERS.iter().find(|(name, _)| *name == "content-security-policy").unwrap();
        for source in ["unsafe", "http:", "https:", "data:", "blob:", "*"] {
            assert!(!policy.contains(source), "{source}");
        }
        assert!(policy.starts_with("default-src 'none'"));
    }
}
