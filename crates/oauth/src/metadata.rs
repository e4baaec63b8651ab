//! The two documents that say where to log in: of the MCP server (RFC 9728) and of its authorization server (RFC 8414, OpenID Connect Discovery).

use reqwest::Url;
use serde::Deserialize;

use crate::address_policy::AddressPolicy;
use crate::challenge::usable_scopes;
use crate::endpoint::{browser_endpoint, endpoint, same_origin};
use crate::error::{LoginError, quoted};

const RESOURCE_METADATA: &str = "protected resource metadata";
const SERVER_METADATA: &str = "authorization server metadata";

/// Protected resource metadata, as it is written.
#[derive(Debug, Deserialize)]
struct ResourceDocument {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    bearer_methods_supported: Option<Vec<String>>,
}

/// What an MCP server says about its logins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtectedResource {
    /// The resource indicator (RFC 8707): the audience of its tokens.
    pub(crate) resource: String,
    /// The issuers of its tokens, by its preference.
    pub(crate) issuers: Vec<String>,
    pub(crate) scopes: Vec<String>,
}

impl ProtectedResource {
    /// Reads the metadata of this MCP server. Metadata of another resource is refused: with it, a server could have tokens for another one made out, and
    /// be sent them.
    pub(crate) fn parse(document: &[u8], server: &Url) -> Result<Self, LoginError> {
        let refused = |reason: String| LoginError::metadata(RESOURCE_METADATA, reason);
        let document: ResourceDocument = serde_json::from_slice(document)
            .map_err(|_| refused("it is not a document of this kind".to_owned()))?;
        let resource = document.resource.unwrap_or_default();
        if !is_resource_of(&resource, server) {
            return Err(refused(format!("it is for `{}`, not for `{server}`", quoted(&resource))));
        }
        if document.authorization_servers.is_empty() {
            return Err(refused("it names no authorization server".to_owned()));
        }
        if document
            .bearer_methods_supported
            .is_some_and(|methods| !methods.iter().any(|known| known == "header"))
        {
            return Err(refused("it takes tokens in addresses or forms, which is not done".to_owned()));
        }
        let scopes = usable_scopes(document.scopes_supported);
        Ok(Self { resource, issuers: document.authorization_servers, scopes })
    }
}

/// Whether a resource identifier is that of a server: its URL, or one above it in the same origin.
fn is_resource_of(resource: &str, server: &Url) -> bool {
    let Ok(url) = Url::parse(resource) else { return false };
    if !same_origin(&url, server) || url.fragment().is_some() || !url.username().is_empty() {
        return false;
    }
    let above = url.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && url.query().is_none_or(|query| server.query() == Some(query))
}

/// Authorization server metadata, as it is written.
#[derive(Debug, Deserialize)]
struct ServerDocument {
    issuer: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    response_types_supported: Option<Vec<String>>,
    grant_types_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// An authorization server that can be used.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Url,
    pub(crate) token_endpoint: Url,
    pub(crate) registration_endpoint: Option<Url>,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) scopes: Vec<String>,
    pub(crate) auth_methods: Option<Vec<String>>,
    /// Whether each of its responses names it (RFC 9207).
    pub(crate) names_itself: bool,
}

impl AuthorizationServer {
    /// Reads the metadata that was found for an issuer, and refuses what would weaken the login.
    pub(crate) fn parse(document: &[u8], issuer: &str, policy: &AddressPolicy) -> Result<Self, LoginError> {
        let refused = |reason: String| LoginError::metadata(SERVER_METADATA, reason);
        let document: ServerDocument = serde_json::from_slice(document)
            .map_err(|_| refused("it is not a document of this kind".to_owned()))?;
        let named = document.issuer.unwrap_or_default();
        // RFC 8414, section 3.3: otherwise one server could stand in for another (mix-up).
        if without_root_slash(&named) != without_root_slash(issuer) {
            return Err(refused(format!("it is of `{}`, not of `{}`", quoted(&named), quoted(issuer))));
        }
        let lacks = |list: &Option<Vec<String>>, what: &str| {
            list.as_ref().is_some_and(|list| !list.iter().any(|known| known == what))
        };
        if lacks(&document.response_types_supported, "code")
            || lacks(&document.grant_types_supported, "authorization_code")
        {
            return Err(refused("it offers no authorization code".to_owned()));
        }
        // OAuth 2.1 and MCP: a client refuses a server whose metadata does not offer S256.
        if !document
            .code_challenge_methods_supported
            .is_some_and(|known| known.iter().any(|name| name == "S256"))
        {
            return Err(LoginError::Downgrade { issuer: quoted(issuer) });
        }
        let required = |what: &'static str, url: Option<String>| {
            url.ok_or_else(|| LoginError::metadata(SERVER_METADATA, format!("it has no {what}")))
        };
        let optional =
            |what: &'static str, url: Option<String>| url.map(|url| endpoint(what, &url, policy)).transpose();
        let authorization = required("authorization endpoint", document.authorization_endpoint)?;
        let token = required("token endpoint", document.token_endpoint)?;
        Ok(Self {
            authorization_endpoint: browser_endpoint("authorization endpoint", &authorization, policy)?,
            token_endpoint: endpoint("token endpoint", &token, policy)?,
            registration_endpoint: optional("registration endpoint", document.registration_endpoint)?,
            revocation_endpoint: optional("revocation endpoint", document.revocation_endpoint)?,
            scopes: usable_scopes(document.scopes_supported),
            auth_methods: document.token_endpoint_auth_methods_supported,
            names_itself: document.authorization_response_iss_parameter_supported,
            issuer: named,
        })
    }
}

/// An issuer without a path is the same with and without the slash that URL parsers add.
fn without_root_slash(issuer: &str) -> &str {
    match issuer.strip_suffix('/') {
        Some(bare) if bare.matches('/').count() == 2 => bare,
        _ => issuer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolgate_egress::SystemDialer;

    use super::*;

    #[test]
    fn metadata_of_another_resource_is_refused() {
        let server = Url::parse("https://a.example/tenant/mcp").unwrap();
        for (resource, fine) in [
            ("https://a.example/tenant/mcp", true),
            ("https://a.example/tenant/", true),
            ("https://a.example", true),
            ("https://A.example/", true),
            ("https://a.example/ten", false),
            ("https://a.example/tenant/mcp/more", false),
            ("https://a.example/other", false),
            ("https://b.example/tenant/mcp", false),
            ("http://a.example/tenant/mcp", false),
            ("https://a.example:8443/tenant/mcp", false),
            ("https://a.example/tenant/mcp#x", false),
            ("https://a.example/tenant/mcp?x=1", false),
            ("", false),
        ] {
            let document = json!({"resource": resource, "authorization_servers": ["https://login.example"]});
            let parsed = ProtectedResource::parse(document.to_string().as_bytes(), &server);
            assert_eq!(parsed.is_ok(), fine, "{resource}");
        }
        let nowhere = json!({"resource": "https://a.example", "authorization_servers": []});
        assert!(ProtectedResource::parse(nowhere.to_string().as_bytes(), &server).is_err());
    }

    fn parse(change: impl FnOnce(&mut Value)) -> Result<AuthorizationServer, LoginError> {
        let mut document = json!({
            "issuer": "https://login.example", "authorization_endpoint": "https://login.example/authorize",
            "token_endpoint": "https://login.example/token", "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        change(&mut document);
        let policy =
            AddressPolicy::of_server(&Url::parse("https://192.0.2.1").unwrap(), Arc::new(SystemDialer));
        AuthorizationServer::parse(document.to_string().as_bytes(), "https://login.example/", &policy)
    }

    #[test]
    fn an_authorization_server_is_used_only_with_s256_and_its_own_name() {
        assert!(parse(|_| {}).is_ok());
        for methods in [json!(null), json!([]), json!(["plain"]), json!(["s256"])] {
            let refused = parse(|document| document["code_challenge_methods_supported"] = methods.clone());
            assert!(matches!(refused, Err(LoginError::Downgrade { .. })), "{methods}");
        }
        for issuer in ["https://other.example", "https://login.example/x", "http://login.example", ""] {
            assert!(parse(|document| document["issuer"] = json!(issuer)).is_err(), "{issuer}");
        }
        for (name, value) in [
            ("authorization_endpoint", json!("javascript:alert(1)")),
            ("authorization_endpoint", json!("https://login.example/$(id)")),
            ("authorization_endpoint", json!(null)),
            ("token_endpoint", json!("http://login.example/token")),
            ("token_endpoint", json!("https://10.0.0.1/token")),
            ("registration_endpoint", json!("https://127.0.0.1/register")),
            ("revocation_endpoint", json!("https://[fd00::1]/revoke")),
            ("response_types_supported", json!(["token"])),
            ("grant_types_supported", json!(["implicit"])),
        ] {
            assert!(parse(|document| document[name] = value.clone()).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn only_the_slash_of_a_root_is_ignored() {
        assert_eq!(without_root_slash("https://a.example/"), "https://a.example");
        assert_eq!(without_root_slash("https://a.example/b/"), "https://a.example/b/");
    }
}
