//! Verifies who a caller is, by a token (JWT).
//!
//! A token is a string that any client can send, so nothing in it is trusted: its size is checked before it is parsed, its header before a
//! key is chosen, its signature before a claim is used. The accepted issuers, audiences, algorithms and keys are configuration; a token can
//! select among them but never add to them. Whatever cannot be verified is rejected, and the error contains no part of the token.
//!
//! This crate knows no tools and not what permissions mean, and reads no files and no environment: key material is passed in as bytes, the
//! clock and the network as values. It uses the network only to fetch an issuer's keys from a configured URL, never from a URL in a token.
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
//!     Arc::new(HttpKeyFetcher::new()),
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
