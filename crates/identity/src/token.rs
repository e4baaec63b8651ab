//! A token taken apart, with nothing of it believed yet.
//!
//! Only the compact form with three parts, canonical base64url without padding, and JSON that means one
//! thing. Keys and addresses of keys in the header (`jwk`, `jku`, `x5c`, `x5u`, …) are not looked at: a token
//! that brings its own key proves only that somebody can make keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::error::TokenError;
use crate::name_rules::is_name;
use crate::{Algorithm, strict_json};

/// What the token says, and what was signed.
pub(crate) struct ParsedToken<'a> {
    /// The header and the claims as they were signed.
    pub(crate) message: &'a str,
    /// The signature in base64url, known to be canonical.
    pub(crate) signature: &'a str,
    pub(crate) algorithm: Algorithm,
    /// The key that the token names, if it names one.
    pub(crate) key_id: Option<String>,
    pub(crate) claims: Map<String, Value>,
}

/// Header parameters that change what the rest means.
const UNSUPPORTED: [&str; 4] = ["crit", "b64", "zip", "enc"];

impl<'a> ParsedToken<'a> {
    /// Takes a token apart.
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

/// Refuses padding, whitespace, the other alphabet and left-over bits, so that one token has one spelling.
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
