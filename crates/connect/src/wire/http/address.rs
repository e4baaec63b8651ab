//! The URL of a server, and the headers of every request.

use std::net::IpAddr;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};
use toolgate_manifest::is_reserved_header;

use super::{CONNECT_TIMEOUT, redacted_error};
use crate::error::ConnectError;
use crate::settings::HttpSettings;

/// Checks a URL; returns whether it is plain HTTP to the loopback interface. Secrets go to other
/// machines only over TLS.
pub(super) fn check_address(address: &str, secrets: bool) -> Result<bool, ConnectError> {
    let refused = |reason: &str| Err(ConnectError::Http { reason: reason.to_owned() });
    let Ok(url) = Url::parse(address) else { return refused("the address is not one") };
    if !url.username().is_empty() || url.password().is_some() {
        return refused("the address has a password in it; use a header");
    }
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(false),
        "http" if loopback => Ok(true),
        "http" if !secrets => Ok(false),
        "http" => refused("headers and tokens go to other machines only over https"),
        _ => refused("the address is neither https nor http"),
    }
}

/// Builds the HTTP client. Loads the system's certificates, so it runs on a blocking thread.
pub(super) async fn client(loopback: bool) -> Result<Client, ConnectError> {
    let build = move || {
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT);
        // Plain HTTP to loopback needs no certificates, and some machines have none.
        if loopback { builder.tls_certs_only([]).build() } else { builder.build() }
    };
    let built = tokio::task::spawn_blocking(build).await;
    built
        .map_err(|_| ConnectError::Http { reason: "the client could not be made".to_owned() })?
        .map_err(|error| ConnectError::Http { reason: redacted_error(&error) })
}

/// The configured headers, marked as sensitive so that they are never printed.
pub(super) fn headers(settings: &HttpSettings) -> Result<HeaderMap, ConnectError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        let refused = |what: &str| ConnectError::Http {
            reason: format!("the header `{}` {what}", name.escape_debug()),
        };
        let known = HeaderName::try_from(name.as_str()).map_err(|_| refused("is not one"))?;
        if is_reserved_header(known.as_str()) {
            return Err(refused("belongs to the protocol"));
        }
        let mut value =
            HeaderValue::try_from(value.expose()).map_err(|_| refused("has a value that cannot be sent"))?;
        value.set_sensitive(true);
        headers.append(known, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SecretString;

    #[test]
    fn secrets_leave_this_machine_only_over_tls() {
        for (address, secrets, fine) in [
            ("https://tracker.example/mcp", true, true),
            ("http://127.0.0.1:8080/mcp", true, true),
            ("http://[::1]:8080/mcp", true, true),
            ("http://localhost/mcp", true, true),
            ("http://tracker.example/mcp", false, true),
            ("http://tracker.example/mcp", true, false),
            ("http://127.0.0.1.example/mcp", true, false),
            ("https://user:word@tracker.example/mcp", false, false),
            ("ftp://tracker.example", false, false),
            ("tracker.example", false, false),
        ] {
            assert_eq!(check_address(address, secrets).is_ok(), fine, "{address}");
        }
    }

    #[test]
    fn headers_of_the_protocol_are_not_set_by_hand() {
        let named = |name: &str| HttpSettings {
            url: "https://tracker.example/mcp".to_owned(),
            headers: vec![(name.to_owned(), SecretString::new("x".to_owned()))],
            oauth: None,
            login: None,
        };
        for name in ["Host", "Mcp-Session-Id", "mcp-method", "TE", "Upgrade", "not one"] {
            assert!(headers(&named(name)).is_err(), "{name}");
        }
        assert_eq!(headers(&named("X-Api-Key")).unwrap().len(), 1);
    }
}
