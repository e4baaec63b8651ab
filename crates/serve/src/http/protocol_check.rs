//! The headers of the protocol, compared with the body: a middlebox routes by them without reading it.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{ErrorData, ProtocolVersion, RequestMetaObject};

use crate::mcp::request::{McpRequest, STATELESS};

/// The header with the protocol version.
pub(super) const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// A value that is no header as it stands is sent in base64 between these (SEP-2243).
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Which of the two protocols a message uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Session,
    Stateless,
}

/// Why a message is refused by its headers.
#[derive(Debug, PartialEq)]
pub(super) enum HeaderError {
    /// The header names an unknown version.
    UnknownVersion(String),
    /// A JSON-RPC error for the request.
    Response(ErrorData),
}

fn mismatch(message: impl Into<String>) -> HeaderError {
    HeaderError::Response(ErrorData::header_mismatch(message.into(), None))
}

/// The version that the header names.
fn version_header(headers: &HeaderMap) -> Result<Option<&str>, HeaderError> {
    let Some(version) = headers.get(PROTOCOL_VERSION_HEADER) else { return Ok(None) };
    match version.to_str() {
        Ok(version) => Ok(Some(version)),
        Err(_) => Err(HeaderError::UnknownVersion(String::from_utf8_lossy(version.as_bytes()).into_owned())),
    }
}

fn is_known(version: &str) -> bool {
    ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version)
}

/// Whether the header names the stateless protocol.
pub(super) fn names_stateless(headers: &HeaderMap) -> bool {
    headers
        .get(PROTOCOL_VERSION_HEADER)
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= STATELESS.as_str())
}

/// Checks the version of what names none itself: a request without a body (GET, DELETE), a notification, a response.
pub(super) fn check_headers(headers: &HeaderMap) -> Result<Protocol, HeaderError> {
    match version_header(headers)? {
        Some(version) if !is_known(version) => Err(HeaderError::UnknownVersion(version.to_owned())),
        Some(version) if version >= STATELESS.as_str() => Ok(Protocol::Stateless),
        _ => Ok(Protocol::Session),
    }
}

/// Checks the version of a request, in its header and its `_meta`.
pub(super) fn check_request(
    headers: &HeaderMap,
    request: &McpRequest,
    meta: &RequestMetaObject,
) -> Result<Protocol, HeaderError> {
    let header = version_header(headers)?;
    let own = meta.protocol_version();
    if let (Some(version), None) = (header, &own)
        && !is_known(version)
        && !matches!(request, McpRequest::Initialize(_))
    {
        return Err(HeaderError::UnknownVersion(version.to_owned()));
    }
    if let McpRequest::Initialize(params) = request {
        let wanted = params.protocol_version.as_str();
        return match header {
            Some(header) if header != wanted => Err(HeaderError::Response(ErrorData::invalid_request(
                format!(
                    "Invalid Request: MCP-Protocol-Version header ({header}) does not match initialize params.protocolVersion ({wanted})"
                ),
                None,
            ))),
            _ => Ok(Protocol::Session),
        };
    }
    let missing = meta.missing_required_keys(STATELESS);
    match (own, header) {
        (None, header) => {
            let is_stateless = header.is_some_and(|header| header >= STATELESS.as_str());
            if is_stateless || matches!(request, McpRequest::Discover) {
                let message = format!(
                    "Invalid params: request _meta is missing or has malformed required fields: {}",
                    missing.join(", ")
                );
                return Err(HeaderError::Response(ErrorData::invalid_params(message, None)));
            }
            Ok(Protocol::Session)
        }
        (Some(_), None) => {
            Err(mismatch("request _meta protocolVersion requires MCP-Protocol-Version header"))
        }
        (Some(own), Some(header)) if own.as_str() != header => Err(mismatch(format!(
            "MCP-Protocol-Version header ({header}) does not match request _meta protocolVersion ({own})"
        ))),
        (Some(own), Some(_)) => {
            let is_session = own.as_str() < STATELESS.as_str() && !missing.is_empty();
            Ok(if is_session { Protocol::Session } else { Protocol::Stateless })
        }
    }
}

/// Checks the headers that repeat the method and the name of what it is about (SEP-2243), which the stateless protocol demands.
pub(super) fn check_routing(
    headers: &HeaderMap,
    method: &str,
    name: Option<&str>,
    is_initialize: bool,
) -> Result<(), HeaderError> {
    if !names_stateless(headers) {
        return Ok(());
    }
    match single(headers, &METHOD_HEADER)? {
        // Clients know the version only after the handshake.
        None if is_initialize => return Ok(()),
        None => return Err(mismatch("missing required Mcp-Method header")),
        Some(value) if value != method => {
            return Err(mismatch(format!(
                "Mcp-Method header `{value}` does not match body method `{method}`"
            )));
        }
        Some(_) if is_initialize => return Ok(()),
        Some(_) => {}
    }
    let Some(name) = name else { return Ok(()) };
    let Some(value) = single(headers, &NAME_HEADER)? else {
        return Err(mismatch(format!("missing required Mcp-Name header for `{method}`")));
    };
    let value = decoded(&value).ok_or_else(|| mismatch("Mcp-Name header is not valid Base64"))?;
    match value == name {
        true => Ok(()),
        false => Err(mismatch(format!("Mcp-Name header `{value}` does not match body value `{name}`"))),
    }
}

/// The only value of a header. Of several, a middlebox might route by another.
fn single(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, HeaderError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("duplicate {name} header")));
    }
    Ok(Some(String::from_utf8_lossy(value.as_bytes()).into_owned()))
}

fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix(ENCODED.0).and_then(|rest| rest.strip_suffix(ENCODED.1)) {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn headers(named: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in named {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    fn request(method: &str, version: Option<&str>) -> (McpRequest, RequestMetaObject) {
        let mut params = json!({"name": "n"});
        if let Some(version) = version {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            });
        }
        McpRequest::read(method, Some(&to_raw_value(&params).unwrap()))
    }

    #[test]
    fn the_version_decides_which_protocol_applies() {
        let session = Some(Protocol::Session);
        let stateless = Some(Protocol::Stateless);
        for (method, own, header, expected) in [
            ("tools/call", None, None, session),
            ("tools/call", None, Some("2025-11-25"), session),
            ("tools/call", None, Some("2026-07-28"), None),
            ("tools/call", None, Some("1999-01-01"), None),
            ("tools/call", Some("2026-07-28"), Some("2026-07-28"), stateless),
            ("tools/call", Some("2026-07-28"), None, None),
            ("tools/call", Some("2026-07-28"), Some("2025-11-25"), None),
            ("tools/call", Some("2999-01-01"), Some("2999-01-01"), stateless),
            ("server/discover", None, None, None),
            ("server/discover", Some("2026-07-28"), Some("2026-07-28"), stateless),
        ] {
            let named: Vec<_> = header.iter().map(|header| (PROTOCOL_VERSION_HEADER, *header)).collect();
            let (request, meta) = request(method, own);
            let checked = check_request(&headers(&named), &request, &meta);
            assert_eq!(checked.as_ref().ok().copied(), expected, "{method} {own:?} {header:?}: {checked:?}");
        }
    }

    #[test]
    fn a_header_that_routes_elsewhere_is_refused() {
        let version = (PROTOCOL_VERSION_HEADER, "2026-07-28");
        let call = ("mcp-method", "tools/call");
        let encoded = format!("=?base64?{}?=", BASE64_STANDARD.encode("ü"));
        for (named, name, is_initialize, is_good) in [
            (vec![], Some("n"), false, true),
            (vec![version, call, ("mcp-name", "n")], Some("n"), false, true),
            (vec![version, call, ("mcp-name", &*encoded)], Some("ü"), false, true),
            (vec![version, call, ("mcp-name", "=?base64?*?=")], Some("n"), false, false),
            (vec![version, call, ("mcp-name", "m")], Some("n"), false, false),
            (vec![version, call, ("mcp-name", "n"), ("mcp-name", "n")], Some("n"), false, false),
            (vec![version, call], Some("n"), false, false),
            (vec![version, call], None, false, true),
            (vec![version], None, false, false),
            (vec![version], None, true, true),
            (vec![version, ("mcp-method", "tools/list")], None, true, false),
            (vec![version, call, ("mcp-method", "tools/list")], None, false, false),
        ] {
            let checked = check_routing(&headers(&named), "tools/call", name, is_initialize);
            assert_eq!(checked.is_ok(), is_good, "{named:?} {name:?}: {checked:?}");
        }
    }
}
