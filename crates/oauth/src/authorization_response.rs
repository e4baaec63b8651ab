//! The response to a login: the query of the request to the redirect URI (RFC 6749, section 4.1.2; RFC 9207).

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use reqwest::Url;

use crate::error::{LoginError, quoted};

/// Maximum length of a query.
pub(crate) const MAX_QUERY_BYTES: usize = 16 << 10;

/// A response with the state of its login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AuthorizationResponse {
    pub(crate) code: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) error: Option<String>,
}

impl fmt::Debug for AuthorizationResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AuthorizationResponse").field("error", &self.error).finish_non_exhaustive()
    }
}

impl AuthorizationResponse {
    /// Reads a query; `None` unless it has this state. Any page can make a browser request the redirect URI, but does not know the state.
    pub(crate) fn read(query: &str, state: &str) -> Option<Self> {
        if query.len() > MAX_QUERY_BYTES {
            return None;
        }
        let url = Url::parse(&format!("http://127.0.0.1/?{query}")).ok()?;
        let pairs: Vec<_> = url.query_pairs().collect();
        // A parameter that is there twice means different things to different parsers.
        let parameter = |name: &str| {
            let mut found =
                pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value.to_string());
            let first = found.next();
            if found.next().is_some() { Err(()) } else { Ok(first) }
        };
        let found = parameter("state").ok()??;
        verify_slices_are_equal(found.as_bytes(), state.as_bytes()).ok()?;
        let (code, issuer, error) =
            (parameter("code").ok()?, parameter("iss").ok()?, parameter("error").ok()?);
        Some(Self { code, issuer, error })
    }

    /// Reads a response that was copied from the address line of a browser.
    pub(crate) fn read_pasted(text: &str, redirect: &Url, state: &str) -> Result<Self, LoginError> {
        let refused = |reason| LoginError::Response { reason };
        let url = Url::parse(text.trim()).map_err(|_| refused("it is not a URL"))?;
        let mut bare = url.clone();
        bare.set_query(None);
        bare.set_fragment(None);
        if bare != *redirect {
            return Err(refused("it is another address"));
        }
        Self::read(url.query().unwrap_or_default(), state).ok_or_else(|| refused("it is of another login"))
    }

    /// The code, if the response is from the right authorization server (RFC 9207) and no refusal.
    pub(crate) fn into_code(self, issuer: &str, names_itself: bool) -> Result<String, LoginError> {
        let mix_up = |received: &str| {
            Err(LoginError::MixUp { expected: quoted(issuer), received: received.to_owned() })
        };
        match &self.issuer {
            Some(received) if received != issuer => return mix_up(&format!("`{}`", quoted(received))),
            None if names_itself => return mix_up("none"),
            _ => {}
        }
        match (self.error, self.code) {
            (Some(error), _) => Err(LoginError::Refused { reason: quoted(&error) }),
            (None, Some(code)) if !code.is_empty() => Ok(code),
            _ => Err(LoginError::Refused { reason: "the response has no code".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "the-state";

    #[test]
    fn a_response_without_the_state_is_none() {
        for query in [
            "",
            "code=x",
            "code=x&state=",
            "code=x&state=other",
            "code=x&state=the-stat",
            "code=x&state=the-state2",
        ] {
            assert_eq!(AuthorizationResponse::read(query, STATE), None, "{query}");
        }
        for twice in [
            "state=the-state&state=the-state&code=x",
            "state=the-state&code=x&code=y",
            "state=the-state&code=x&iss=a&iss=b",
        ] {
            assert_eq!(AuthorizationResponse::read(twice, STATE), None, "{twice}");
        }
        let fine = AuthorizationResponse::read("state=the%2Dstate&code=a+b%2B", STATE).unwrap();
        assert_eq!(fine.into_code("https://a.example", false).unwrap(), "a b+");
    }

    #[test]
    fn a_response_of_another_authorization_server_has_no_code() {
        let read =
            |query: &str| AuthorizationResponse::read(&format!("state={STATE}&{query}"), STATE).unwrap();
        let issuer = "https://a.example";
        assert!(read("code=x&iss=https://a.example").into_code(issuer, true).is_ok());
        assert!(read("code=x").into_code(issuer, false).is_ok());
        for query in [
            "code=x&iss=https://b.example",
            "code=x&iss=",
            "code=x&iss=https://a.example/",
            "error=x&iss=https://b.example",
        ] {
            let refused = read(query).into_code(issuer, false);
            assert!(matches!(refused, Err(LoginError::MixUp { .. })), "{query}");
        }
        assert!(matches!(read("code=x").into_code(issuer, true), Err(LoginError::MixUp { .. })));
        assert!(matches!(
            read("error=access_denied&code=x").into_code(issuer, false),
            Err(LoginError::Refused { .. })
        ));
    }

    #[test]
    fn a_pasted_address_must_be_the_redirect_uri() {
        let redirect = Url::parse("http://127.0.0.1:4711/callback").unwrap();
        let read = |text: &str| AuthorizationResponse::read_pasted(text, &redirect, STATE);
        assert!(read(" http://127.0.0.1:4711/callback?code=x&state=the-state\n").is_ok());
        for other in [
            "http://127.0.0.1:4712/callback?code=x&state=the-state",
            "http://127.0.0.1:4711/callback/x?code=x&state=the-state",
            "https://evil.example/callback?code=x&state=the-state",
            "http://127.0.0.1:4711/callback?code=x&state=other",
            "code=x&state=the-state",
        ] {
            assert!(matches!(read(other), Err(LoginError::Response { .. })), "{other}");
        }
    }
}
