//! Checks every URL that a server names before it is used.

use reqwest::Url;

use crate::address_policy::{AddressPolicy, is_loopback};
use crate::error::LoginError;

/// Maximum length of a URL.
const MAX_URL_BYTES: usize = 2048;

/// Parses a URL to send requests to: `https`, or `http` on loopback, without credentials or a fragment, at an allowed address.
pub(crate) fn endpoint(what: &'static str, text: &str, policy: &AddressPolicy) -> Result<Url, LoginError> {
    let refused = |reason: &str| LoginError::address(what, text, reason);
    if text.len() > MAX_URL_BYTES {
        return Err(refused("it is too long"));
    }
    // The parser would remove tabs and newlines, and leading and trailing spaces.
    if text.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err(refused("it has spaces or control characters"));
    }
    let url = Url::parse(text).map_err(|_| refused("it is not a URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => return Err(refused("it is plain HTTP to another machine")),
        _ => return Err(refused("it is neither `https` nor `http`")),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refused("it has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it has a user name or a password"));
    }
    if url.fragment().is_some() {
        return Err(refused("it has a fragment"));
    }
    policy.check_host(&url).map_err(|reason| refused(&reason))?;
    Ok(url)
}

/// The same for the URL that is opened in a browser. Launchers of browsers are often shell scripts, and a URL of a server with `$(…)` in it was run by
/// one (CVE-2025-6514), so characters that mean something to a shell are refused, although they are valid in a URL.
pub(crate) fn browser_endpoint(
    what: &'static str,
    text: &str,
    policy: &AddressPolicy,
) -> Result<Url, LoginError> {
    let url = endpoint(what, text, policy)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?[]@=&+%,".contains(&byte);
    if !text.bytes().all(is_plain) || !url.as_str().bytes().all(is_plain) {
        return Err(LoginError::address(what, text, "it has characters that a shell could interpret"));
    }
    Ok(url)
}

/// Whether two URLs have the same origin.
pub(crate) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// The host and port, for messages.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolgate_egress::SystemDialer;

    use super::*;

    fn loopback() -> AddressPolicy {
        AddressPolicy::of_server(&Url::parse("http://127.0.0.1/mcp").unwrap(), Arc::new(SystemDialer))
    }

    #[test]
    fn endpoints_are_https_or_loopback_and_plain() {
        for (text, fine) in [
            ("https://login.example/token", true),
            ("https://login.example:8443/a/token?tenant=1", true),
            ("http://127.0.0.1:9/token", true),
            ("http://localhost:9/token", true),
            ("http://login.example/token", false),
            ("http://127.0.0.1.example/token", false),
            ("javascript:alert(1)", false),
            ("file:///etc/passwd", false),
            ("data:text/html,x", false),
            ("https://user:word@login.example/token", false),
            ("https://login.example/token#part", false),
            ("https://login.example/to\nken", false),
            (" https://login.example/token", false),
            ("https://169.254.169.254/token", false),
            ("login.example", false),
            ("", false),
        ] {
            assert_eq!(endpoint("address", text, &loopback()).is_ok(), fine, "{text:?}");
        }
    }

    #[test]
    fn what_a_browser_opens_means_nothing_to_a_shell() {
        for text in [
            "https://login.example/$(id)",
            "https://login.example/`id`",
            "https://login.example/a;id",
            "https://login.example/a|id",
            "https://login.example/?a=$(id)",
            "https://login.example/?a='id'",
            "https://login.example/?a=\"id\"",
            "https://login.example/?a=<id>",
            "https://login.example/a\\id",
            "https://login.example/a!id",
            "https://login.example/{a}",
            "https://login.example/~*",
            "https://$(id).example/",
        ] {
            assert!(browser_endpoint("address", text, &loopback()).is_err(), "{text:?}");
        }
        assert!(
            browser_endpoint("address", "https://login.example/a-b_c/authorize?t=1&u=%20", &loopback())
                .is_ok()
        );
    }
}
