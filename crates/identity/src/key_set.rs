//! Key sets (JWKS, RFC 7517): the public keys of an issuer, by id.
//!
//! A key that cannot be used safely is ignored, as RFC 7517 recommends: secrets, private keys, encryption
//! keys, weak keys, unsupported curves, keys without an id. Nothing in a key set can widen what the
//! configuration allows.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::fetch::MAX_KEY_SET_BYTES;
use crate::key::{Curve, VerifyingKey};
use crate::name_rules::is_name;
use crate::{Algorithm, strict_json};

/// A set with more keys is rejected as a whole.
pub const MAX_KEYS: usize = 100;

/// Members that only secret and private keys have.
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Keys by id. One id may have several keys, such as one per algorithm.
#[derive(Debug, Default)]
pub(crate) struct KeySet(HashMap<String, Vec<VerifyingKey>>);

impl KeySet {
    /// The usable keys of a set; `None` if it is not a key set.
    pub(crate) fn parse(json: &[u8], allowed: &[Algorithm]) -> Option<Self> {
        if json.len() > MAX_KEY_SET_BYTES {
            return None;
        }
        let keys = match strict_json::parse_object(json)?.remove("keys")? {
            Value::Array(keys) if keys.len() <= MAX_KEYS => keys,
            _ => return None,
        };
        let mut set = Self::default();
        for (key_id, key) in keys.iter().filter_map(Value::as_object).filter_map(usable) {
            let key = key.restrict(|algorithm| allowed.contains(&algorithm));
            if !key.algorithms().is_empty() {
                set.insert(key_id, key);
            }
        }
        Some(set)
    }

    pub(crate) fn insert(&mut self, key_id: &str, key: VerifyingKey) {
        self.0.entry(key_id.to_owned()).or_default().push(key);
    }

    /// The keys with this id; `None` if there are none.
    pub(crate) fn get(&self, key_id: &str) -> Option<&[VerifyingKey]> {
        self.0.get(key_id).map(Vec::as_slice)
    }

    /// The only key, if there is exactly one.
    pub(crate) fn sole_key(&self) -> Option<&[VerifyingKey]> {
        let mut all = self.0.values();
        match (all.next(), all.next()) {
            (Some(keys), None) => Some(keys.as_slice()).filter(|keys| keys.len() == 1),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every key with its id.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = (String, Vec<VerifyingKey>)> {
        self.0.into_iter()
    }

    /// All algorithms of its keys.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.0.values().flatten().flat_map(VerifyingKey::algorithms).copied()
    }
}

fn usable(jwk: &Map<String, Value>) -> Option<(&str, VerifyingKey)> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let key_id = text("kid").filter(|key_id| is_name(key_id))?;
    if PRIVATE_MEMBERS.iter().any(|name| jwk.contains_key(*name)) || !is_for_signatures(jwk) {
        return None;
    }
    let key = match text("kty")? {
        "RSA" => VerifyingKey::rsa(&bytes(text("n")?)?, &bytes(text("e")?)?).ok()?,
        "EC" => point(text("crv")?, &bytes(text("x")?)?, &bytes(text("y")?)?)?,
        "OKP" if text("crv")? == "Ed25519" => VerifyingKey::ed25519(&bytes(text("x")?)?).ok()?,
        _ => return None,
    };
    match jwk.get("alg") {
        None => Some((key_id, key)),
        Some(name) => {
            let stated: Algorithm = name.as_str()?.parse().ok()?;
            Some((key_id, key.restrict(|algorithm| algorithm == stated)))
        }
    }
}

/// Whether `use` and `key_ops`, if present, allow verifying signatures.
fn is_for_signatures(jwk: &Map<String, Value>) -> bool {
    let used = jwk.get("use").is_none_or(|value| value == "sig");
    let operations = jwk.get("key_ops").is_none_or(|value| {
        value.as_array().is_some_and(|operations| operations.iter().any(|operation| operation == "verify"))
    });
    used && operations
}

fn point(curve: &str, x: &[u8], y: &[u8]) -> Option<VerifyingKey> {
    let curve = match curve {
        "P-256" => Curve::P256,
        "P-384" => Curve::P384,
        _ => return None,
    };
    if x.len() != curve.coordinate_bytes() {
        return None;
    }
    VerifyingKey::point(curve, &[&[4], x, y].concat()).ok()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(keys: Value) -> Option<usize> {
        let json = serde_json::to_vec(&json!({"keys": keys})).unwrap();
        KeySet::parse(&json, Algorithm::ALL).map(|set| set.0.len())
    }

    #[test]
    fn keeps_only_keys_that_can_be_used_safely() {
        let x = URL_SAFE_NO_PAD.encode([7; 32]);
        let wide = URL_SAFE_NO_PAD.encode([7; 48]);
        let weak = URL_SAFE_NO_PAD.encode([0xff; 128]);
        let strong = URL_SAFE_NO_PAD.encode([0xff; 256]);
        for (kept, jwk) in [
            (1, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x})),
            (
                1,
                json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"use":"sig","alg":"EdDSA",
                    "key_ops":["verify"]}),
            ),
            (1, json!({"kty":"RSA","kid":"a","n":strong,"e":"AQAB","x5c":["junk"],"unknown":{}})),
            (1, json!({"kty":"EC","crv":"P-256","kid":"a","x":x,"y":x})),
            (0, json!({"kty":"OKP","crv":"Ed25519","x":x})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"","x":x})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":7,"x":x})),
            (0, json!({"kty":"OKP","crv":"Ed448","kid":"a","x":x})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":wide})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":format!("{x}=")})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"use":"enc"})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"key_ops":["sign"]})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"d":x})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"alg":"ES256"})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"alg":"HS256"})),
            (0, json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":x,"alg":null})),
            (0, json!({"kty":"oct","kid":"a","k":x})),
            (0, json!({"kty":"oct","kid":"a","k":x,"alg":"HS256"})),
            (0, json!({"kty":"RSA","kid":"a","n":weak,"e":"AQAB"})),
            (0, json!({"kty":"RSA","kid":"a","n":strong,"e":"AQ"})),
            (0, json!({"kty":"RSA","kid":"a","n":strong,"e":"AQAB","alg":"RSA-OAEP"})),
            (0, json!({"kty":"EC","crv":"P-256","kid":"a","x":wide,"y":wide})),
            (0, json!({"kty":"EC","crv":"P-384","kid":"a","x":x,"y":x})),
            (
                0,
                json!({"kty":"EC","crv":"P-256","kid":"a","x":URL_SAFE_NO_PAD.encode([7; 31]),
                "y":URL_SAFE_NO_PAD.encode([7; 33])}),
            ),
            (0, json!({"kty":"EC","crv":"secp256k1","kid":"a","x":x,"y":x})),
            (0, json!({"kty":"EC","crv":"P-521","kid":"a","x":wide,"y":wide})),
            (0, json!("not a key")),
        ] {
            assert_eq!(count(json!([jwk])), Some(kept), "{jwk}");
        }
    }

    #[test]
    fn a_set_has_bounds_and_one_form() {
        let key = json!({"kty":"OKP","crv":"Ed25519","kid":"a","x":URL_SAFE_NO_PAD.encode([7; 32])});
        assert_eq!(count(json!(vec![key.clone(); MAX_KEYS])), Some(1));
        assert_eq!(count(json!(vec![key.clone(); MAX_KEYS + 1])), None);
        assert_eq!(count(json!([])), Some(0));
        for keys in [json!({}), json!(null), json!("x")] {
            assert_eq!(count(keys), None);
        }
        for bad in
            ["", "[]", "{}", "<html>", r#"{"keys":[],"keys":[]}"#, r#"{"keys":[{"kid":"a","kid":"b"}]}"#]
        {
            assert!(KeySet::parse(bad.as_bytes(), Algorithm::ALL).is_none(), "{bad}");
        }
        let roomy = format!(r#"{{"keys":[]{}}}"#, " ".repeat(MAX_KEY_SET_BYTES));
        assert!(KeySet::parse(roomy.as_bytes(), Algorithm::ALL).is_none());
        let only_rsa = serde_json::to_vec(&json!({"keys": [key]})).unwrap();
        assert!(KeySet::parse(&only_rsa, &[Algorithm::Rs256]).unwrap().is_empty());
    }
}
