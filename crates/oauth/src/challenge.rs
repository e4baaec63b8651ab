//! The `WWW-Authenticate` header of a server that wants a token (RFC 6750, RFC 9728).

use http_auth::parse_challenges;

/// Maximum length of a header that is read.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// Maximum number of scopes.
const MAX_SCOPES: usize = 64;

/// What a `Bearer` challenge says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// Where the protected resource metadata is.
    pub resource_metadata: Option<String>,
    /// The scopes that are needed.
    pub scopes: Vec<String>,
    /// The error code.
    pub error: Option<String>,
}

impl BearerChallenge {
    /// The `Bearer` challenge among the headers of a response.
    #[must_use]
    pub fn find<'h>(headers: impl IntoIterator<Item = &'h str>) -> Option<Self> {
        headers.into_iter().filter(|header| header.len() <= MAX_HEADER_BYTES).find_map(Self::parse)
    }

    fn parse(header: &str) -> Option<Self> {
        let challenges = parse_challenges(header).ok()?;
        let bearer = challenges.iter().find(|known| known.scheme.eq_ignore_ascii_case("bearer"))?;
        let parameter = |name: &str| {
            let mut found = bearer.params.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            // A parameter that is there twice has no value.
            let value = found.next().map(|(_, value)| value.to_unescaped());
            value.filter(|_| found.next().is_none())
        };
        Some(Self {
            resource_metadata: parameter("resource_metadata"),
            scopes: parameter("scope").map(|scopes| split_scopes(&scopes)).unwrap_or_default(),
            error: parameter("error"),
        })
    }

    /// Whether the token is good, and has too few scopes.
    #[must_use]
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// The valid ones of space-separated scopes (RFC 6749, section 3.3), each once.
pub(crate) fn split_scopes(text: &str) -> Vec<String> {
    usable_scopes(text.split(' ').map(str::to_owned))
}

/// The valid ones of these scopes, each once.
pub(crate) fn usable_scopes(scopes: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut usable: Vec<String> = Vec::new();
    for scope in scopes {
        if is_scope(&scope) && !usable.contains(&scope) && usable.len() < MAX_SCOPES {
            usable.push(scope);
        }
    }
    usable
}

fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| (0x21..=0x7e).contains(&byte) && !matches!(byte, b'"' | b'\\');
    (1..=200).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        let header = r#"Basic realm="a, b", Bearer error="insufficient_scope", scope="read:a write:b", resource_metadata="https://a.example/x?y=1,2""#;
        let found = BearerChallenge::find([header]).unwrap();
        assert_eq!(found.scopes, ["read:a", "write:b"]);
        assert_eq!(found.resource_metadata.as_deref(), Some("https://a.example/x?y=1,2"));
        assert!(found.is_insufficient_scope());
        assert_eq!(BearerChallenge::find([r#"Bearer realm="x""#]), Some(BearerChallenge::default()));
        for other in ["", "Basic realm=\"x\"", "nonsense \u{7f}", &"Bearer ".repeat(5000)] {
            assert_eq!(BearerChallenge::find([other]), None);
        }
    }

    #[test]
    fn a_parameter_that_is_there_twice_has_no_value() {
        let header = r#"Bearer resource_metadata="https://a.example", resource_metadata="https://b.example""#;
        assert_eq!(BearerChallenge::find([header]).and_then(|found| found.resource_metadata), None);
    }

    #[test]
    fn scopes_that_are_none_are_left_out() {
        assert_eq!(split_scopes("a  b \"c\" a é"), ["a", "b"]);
        assert_eq!(split_scopes(&"x ".repeat(500)), ["x"]);
    }
}
