//! Parses a token without trusting any of it.
//!
//! Only the compact form with three parts, canonical base64url without padding, and unambiguous JSON. Keys
//! and URLs of keys in the header (`jwk`, `jku`, `x5c`, `x5u`, …) are ignored: a token that brings its own
//! key proves nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::error::TokenError;
use crate::name_rules::is_name;
use crate::{Algorithm, strict_json};

/// A parsed token.
pub(crate) struct ParsedToken<'a> {
    /// The signed text: the header and the claims.
    pub(crate) message: &'a str,
    /// The signature in canonical base64url.
    pub(crate) signature: &'a str,
    pub(crate) algorithm: Algorithm,
    /// The `kid`, if there is one.
    pub(crate) key_id: Option<String>,
    pub(crate) claims: Map<String, Value>,
}

/// Header parameters that change the meaning of the rest.
const UNSUPPORTED: [&str; 4] = ["crit", "b64", "zip", "enc"];

impl<'a> ParsedToken<'a> {
    /// Parses a token.
    pub(crate) fn parse(token: &'a str, max_bytes: usize) -> Result<Self, TokenError> {
        if token.len() > max_bytes {
            return Err(TokenError::TooLarge);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(TokenError::Malformed)?;
        let header = part(header)?;
        let claims = part(claims)?;
        decode(signature)?;
        refuse_extensions(&header)?;
        check_type(&header)?;
        Ok(Self { message, signature, algorithm: algorithm(&header)?, key_id: key_id(header)?, claims })
    }
}

fn part(text: &str) -> Result<Map<String, Value>, TokenError> {
    strict_json::parse_object(&decode(text)?).ok_or(TokenError::Malformed)
}

/// Rejects padding, white space, the other alphabet and non-zero trailing bits, so that a token has only one
/// encoding.
fn decode(text: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed)
}

fn refuse_extensions(header: &Map<String, Value>) -> Result<(), TokenError> {
    if UNSUPPORTED.iter().any(|name| header.contains_key(*name)) {
        return Err(TokenError::UnsupportedHeader);
    }
    Ok(())
}

fn check_type(header: &Map<String, Value>) -> Result<(), TokenError> {
    let Some(value) = header.get("typ") else { return Ok(()) };
    let full = value.as_str().ok_or(TokenError::WrongType)?.to_ascii_lowercase();
    match full.strip_prefix("application/").unwrap_or(&full) {
        "jwt" | "at+jwt" => Ok(()),
        _ => Err(TokenError::WrongType),
    }
}

fn algorithm(header: &Map<String, Value>) -> Result<Algorithm, TokenError> {
    let name = header.get("alg").and_then(Value::as_str).ok_or(TokenError::Malformed)?;
    name.parse().map_err(|_| TokenError::WrongAlgorithm)
}

fn key_id(mut header: Map<String, Value>) -> Result<Option<String>, TokenError> {
    match header.remove("kid") {
        None => Ok(None),
        Some(Value::String(key_id)) if is_name(&key_id) => Ok(Some(key_id)),
        Some(_) => Err(TokenError::Malformed),
    }
}
