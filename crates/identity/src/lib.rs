//! Who a caller is, proved by a token.
//!
//! A token is a string that anybody can send, so everything in it is doubted: its size before it is parsed,
//! its header before a key is chosen, its signature before a claim is believed. Which issuers, audiences,
//! algorithms and keys count is configuration; a token can pick among them and never add to them. Whatever
//! cannot be proved is refused, and the refusal holds no part of the token.
//!
//! This crate knows no tools and no permissions' meaning, reads no files and no environment: key material
//! comes in as bytes, the time and the network as values. It reaches for the network only to fetch the keys
//! of an issuer whose address the operator wrote down, and never because of an address in a token.
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::{Duration, SystemTime};
//! # use toolgate_identity::*;
//! let secret = generate_secret()?;
//! let token = mint(&MintOptions {
//!     secret: &secret,
//!     key_id: "local",
//!     issuer: "toolgate",
//!     audience: "toolgate",
//!     subject: "alice",
//!     permissions: ["git:read".to_owned()].into(),
//!     agent: None,
//!     trust: None,
//!     now: SystemTime::now(),
//!     lifetime: Duration::from_secs(3600),
//! })?;
//!
//! let issuer = Issuer {
//!     issuer: "toolgate".into(),
//!     audiences: vec!["toolgate".into()],
//!     algorithms: vec![Algorithm::Hs256],
//!     keys: vec![KeySource::Secret { key_id: "local".into(), secret }],
//!     ..Issuer::default()
//! };
//! let verifier = Verifier::new(VerifierOptions::new(
//!     vec![issuer],
//!     Arc::new(SystemTime::now),
//!     Arc::new(HttpFetch::new()),
//! ))?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let identity = verifier.verify(&token).await?;
//! assert_eq!(identity.subject, "alice");
//! # Ok::<(), TokenError>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod algorithm;
mod options;
mod identity;
mod name_rules;
mod strict_json;
mod token;
mod claims;
mod key;
mod pem;
mod key_set;
mod fetch;
mod remote_key_set;
mod issuer_keys;
mod verifier;
mod mint;

pub use algorithm::Algorithm;
pub use error::{Claim, FetchError, KeyProblem, MintError, SetupError, TokenError};
pub use fetch::{FetchFuture, FetchKeys, HttpKeyFetcher, MAX_KEY_SET_BYTES};
pub use identity::Identity;
pub use key_set::MAX_KEYS;
pub use mint::{MAX_MINTED_LIFETIME, MintOptions, generate_secret, mint};
pub use options::{
    CacheOptions, ClaimNames, Clock, Issuer, KeySource, MAX_LEEWAY, OperatorNotice, SharedSecret,
    VerifierOptions,
};
pub use remote_key_set::{FetchedKeys, StaleKeys};
pub use verifier::Verifier;
