//! Finds the authorization server of an MCP server.

use reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};

use crate::challenge::BearerChallenge;
use crate::endpoint::{authority, endpoint};
use crate::error::LoginError;
use crate::metadata::{AuthorizationServer, ProtectedResource};
use crate::metadata_client::MetadataClient;

const RESOURCE_METADATA: &str = "protected resource metadata";
const SERVER_METADATA: &str = "authorization server metadata";

/// A message that needs no session, so that a server which wants a token says so.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

/// What was found.
pub(crate) struct Discovered {
    pub(crate) resource: String,
    pub(crate) server: AuthorizationServer,
    /// The scopes that the MCP server asks for: those of its challenge, or else all that it knows.
    pub(crate) scopes: Vec<String>,
}

/// Finds where to log in at an MCP server; `issuer` if the operator names one.
pub(crate) async fn discover(
    client: &MetadataClient,
    server: &Url,
    issuer: Option<&str>,
) -> Result<Discovered, LoginError> {
    let challenge = challenge_of(client, server).await?;
    let named = challenge.as_ref().and_then(|challenge| challenge.resource_metadata.as_deref());
    let resource = match named {
        Some(address) => {
            let url = endpoint("address of the metadata", address, client.policy())?;
            let document = client.get(RESOURCE_METADATA, &url).await?;
            let missing = || LoginError::metadata(RESOURCE_METADATA, "it is not where the server says");
            Some(ProtectedResource::parse(&document.ok_or_else(missing)?, server)?)
        }
        None => well_known_resource(client, server).await?,
    };
    let Some(resource) = resource else { return legacy(client, server, issuer, challenge).await };
    let candidate = match issuer {
        None => resource.issuers.first(),
        Some(issuer) => resource.issuers.iter().find(|known| *known == issuer),
    };
    let candidate = candidate.ok_or_else(|| {
        LoginError::metadata(RESOURCE_METADATA, "it does not name the issuer of the configuration")
    })?;
    let found = authorization_server(client, candidate).await?;
    let server = found.ok_or_else(|| {
        LoginError::metadata(
            SERVER_METADATA,
            format!("there is none at `{}`", crate::error::quoted(candidate)),
        )
    })?;
    let asked = challenge.map(|challenge| challenge.scopes).filter(|scopes| !scopes.is_empty());
    Ok(Discovered { resource: resource.resource, server, scopes: asked.unwrap_or(resource.scopes) })
}

/// Servers before the revision of 2025-06-18 have no metadata of their own: they are at the origin of their authorization server. Nothing is assumed
/// where that has no metadata either.
async fn legacy(
    client: &MetadataClient,
    server: &Url,
    issuer: Option<&str>,
    challenge: Option<BearerChallenge>,
) -> Result<Discovered, LoginError> {
    let origin = server.origin().ascii_serialization();
    let candidate = issuer.unwrap_or(&origin);
    let nothing = || LoginError::NoMetadata { host: authority(server) };
    let found = authorization_server(client, candidate).await?.ok_or_else(nothing)?;
    let scopes = challenge.map(|challenge| challenge.scopes).unwrap_or_default();
    Ok(Discovered { resource: server.to_string(), server: found, scopes })
}

/// What the server answers without a token.
async fn challenge_of(client: &MetadataClient, server: &Url) -> Result<Option<BearerChallenge>, LoginError> {
    let response = client
        .head_of("MCP server", server, |client, url| {
            client
                .post(url)
                .header(ACCEPT, "application/json, text/event-stream")
                .header(CONTENT_TYPE, "application/json")
                .body(PROBE)
        })
        .await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(None);
    }
    let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
    Ok(BearerChallenge::find(headers.filter_map(|value| value.to_str().ok())))
}

/// RFC 9728, section 3.1: the well-known path goes before the path of the resource; then that of the whole origin.
async fn well_known_resource(
    client: &MetadataClient,
    server: &Url,
) -> Result<Option<ProtectedResource>, LoginError> {
    for url in well_known(server, "oauth-protected-resource", Form::Inserted, true) {
        if let Some(document) = client.get(RESOURCE_METADATA, &url).await? {
            return ProtectedResource::parse(&document, server).map(Some);
        }
    }
    Ok(None)
}

/// The metadata of an issuer: RFC 8414, then both forms of OpenID Connect Discovery.
async fn authorization_server(
    client: &MetadataClient,
    issuer: &str,
) -> Result<Option<AuthorizationServer>, LoginError> {
    let url = endpoint("authorization server", issuer, client.policy())?;
    if url.query().is_some() {
        return Err(LoginError::address("authorization server", issuer, "it has a query"));
    }
    let places = [
        ("oauth-authorization-server", Form::Inserted),
        ("openid-configuration", Form::Inserted),
        ("openid-configuration", Form::Appended),
    ];
    let mut tried: Vec<Url> = Vec::new();
    for (name, form) in places {
        for at in well_known(&url, name, form, false) {
            if tried.contains(&at) {
                continue;
            }
            if let Some(document) = client.get(SERVER_METADATA, &at).await? {
                return AuthorizationServer::parse(&document, issuer, client.policy()).map(Some);
            }
            tried.push(at);
        }
    }
    Ok(None)
}

/// Where the name of a well-known document stands in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Inserted,
    Appended,
}

fn well_known(of: &Url, name: &str, form: Form, and_root: bool) -> Vec<Url> {
    let path = of.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = of.clone();
        url.set_query(None);
        url.set_path(&path);
        url
    };
    let own = match form {
        Form::Inserted => at(format!("/.well-known/{name}{path}")),
        Form::Appended => at(format!("{path}/.well-known/{name}")),
    };
    let root = at(format!("/.well-known/{name}"));
    if and_root && root != own { vec![own, root] } else { vec![own] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_documents_are_looked_for_where_the_rfcs_say() {
        let urls = |of: &str, form, and_root| -> Vec<String> {
            let found = well_known(&Url::parse(of).unwrap(), "x", form, and_root);
            found.iter().map(Url::to_string).collect()
        };
        assert_eq!(urls("https://a.example/", Form::Inserted, true), ["https://a.example/.well-known/x"]);
        assert_eq!(
            urls("https://a.example/b/mcp?q=1", Form::Inserted, true),
            ["https://a.example/.well-known/x/b/mcp", "https://a.example/.well-known/x"]
        );
        assert_eq!(
            urls("https://a.example/b/", Form::Appended, false),
            ["https://a.example/b/.well-known/x"]
        );
    }
}
