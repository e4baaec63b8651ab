//! Names of container images: `[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]`, as engines take them. No option of an engine is one.

/// The name, and the tag or digest with the character before it.
pub(super) fn split_image(text: &str) -> (&str, &str) {
    let digest = text.find('@');
    let before_digest = digest.and_then(|at| text.get(..at)).unwrap_or(text);
    // A colon before the last slash belongs to the port.
    let last = before_digest.rfind('/').map_or(0, |at| at + 1);
    let tag = before_digest.get(last..).and_then(|name| name.find(':')).map(|at| last + at);
    match tag.or(digest) {
        Some(at) => text.split_at_checked(at).unwrap_or((text, "")),
        None => (text, ""),
    }
}

/// Lower-case words of a path, after a host.
pub(super) fn is_image_name(name: &str) -> bool {
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
        _ => ("", name),
    };
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    let word = |word: &str| is_word(word) && word.bytes().all(allowed);
    is_host(host) && path.split('/').all(word)
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    host.is_empty()
        || (is_word(name)
            && name.bytes().all(allowed)
            && !port.is_empty()
            && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Begins and ends with a letter or a digit, and has no `..`.
fn is_word(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphanumeric())
        && word.ends_with(|last: char| last.is_ascii_alphanumeric())
        && !word.contains("..")
}

/// Nothing, `:TAG`, `@sha256:DIGEST`, or both.
pub(super) fn is_image_version(version: &str) -> bool {
    let (tag, digest) = match version.split_once('@') {
        Some((tag, digest)) => (tag, Some(digest)),
        None => (version, None),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_tag = |tag: &str| {
        tag.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
            && tag.bytes().all(allowed)
    };
    let is_digest = |digest: &str| {
        digest.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    (tag.is_empty() || tag.strip_prefix(':').is_some_and(is_tag)) && digest.is_none_or(is_digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_tag() {
        let digest = format!("@sha256:{}", "0a".repeat(32));
        for (text, expected) in [
            ("a", ("a", "")),
            ("h:5000/a", ("h:5000/a", "")),
            ("h:5000/a:1", ("h:5000/a", ":1")),
            (&format!("a{digest}"), ("a", digest.as_str())),
            (&format!("a:1{digest}"), ("a", &*format!(":1{digest}"))),
        ] {
            assert_eq!(split_image(text), expected, "{text}");
            assert!(is_image_name(expected.0) && is_image_version(expected.1), "{text}");
        }
        for bad in [":", "@", ":a@", "@sha256:", ":a:b", ":a b"] {
            assert!(!is_image_version(bad), "{bad}");
        }
    }
}
