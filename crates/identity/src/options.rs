//! The configuration of token verification.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::Algorithm;
use crate::fetch::FetchKeys;

/// The clock, injected by the binary.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// A larger clock skew must be fixed, not tolerated.
pub const MAX_LEEWAY: Duration = Duration::from_secs(60);

/// The options of a [`Verifier`](crate::Verifier).
#[derive(Clone)]
pub struct VerifierOptions {
    /// The accepted issuers.
    pub issuers: Vec<Issuer>,
    /// The clock.
    pub clock: Clock,
    /// Fetches key sets.
    pub fetch: Arc<dyn FetchKeys>,
    /// How often they are fetched, and how long they are valid.
    pub cache: CacheOptions,
    /// Longer tokens are rejected before they are parsed.
    pub max_token_bytes: usize,
    /// Called with a message for the operator when a key set cannot be fetched, and when it can again.
    pub notify: OperatorNotice,
}

/// Receives messages for the operator.
pub type OperatorNotice = Arc<dyn Fn(&str) + Send + Sync>;

impl VerifierOptions {
    /// The defaults: tokens of at most 8 KiB.
    #[must_use]
    pub fn new(issuers: Vec<Issuer>, clock: Clock, fetch: Arc<dyn FetchKeys>) -> Self {
        let notify: OperatorNotice = Arc::new(|_| {});
        Self { issuers, clock, fetch, cache: CacheOptions::default(), max_token_bytes: 8192, notify }
    }
}

impl fmt::Debug for VerifierOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("VerifierOptions")
            .field("issuers", &self.issuers)
            .field("cache", &self.cache)
            .field("max_token_bytes", &self.max_token_bytes)
            .finish_non_exhaustive()
    }
}

/// An issuer of tokens and what its tokens may claim.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The exact `iss` of its tokens.
    pub issuer: String,
    /// A token must have one of these audiences.
    pub audiences: Vec<String>,
    /// A token must be signed with one of these.
    pub algorithms: Vec<Algorithm>,
    /// The sources of its keys. A configured key takes precedence over a fetched one with the same id.
    pub keys: Vec<KeySource>,
    /// The allowed clock skew; at most [`MAX_LEEWAY`].
    pub leeway: Duration,
    /// Tokens with a longer lifetime are rejected.
    pub max_lifetime: Duration,
    /// The names of its claims.
    pub claims: ClaimNames,
}

/// Issuer, audience, algorithm and key have no usable default; 30 s leeway, a lifetime of at most a day.
impl Default for Issuer {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audiences: Vec::new(),
            algorithms: Vec::new(),
            keys: Vec::new(),
            leeway: Duration::from_secs(30),
            max_lifetime: Duration::from_secs(24 * 3600),
            claims: ClaimNames::default(),
        }
    }
}

/// The source of keys.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A shared secret; HS256 only.
    Secret {
        /// The `kid` of tokens signed with it.
        key_id: String,
        /// At least 32 bytes.
        secret: SharedSecret,
    },
    /// A public key.
    Pem {
        /// The `kid` of tokens signed with it.
        key_id: String,
        /// One PEM block, `PUBLIC KEY` or `RSA PUBLIC KEY`.
        pem: Vec<u8>,
    },
    /// A key set in the configuration.
    KeySet {
        /// The JSON.
        json: Vec<u8>,
    },
    /// A key set that the issuer publishes.
    KeySetAddress {
        /// https, or http to loopback.
        url: String,
    },
}

/// The names of claims. The registered claims are never renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// An array of strings, or a space-separated string like `scope`.
    pub permissions: String,
    /// The agent that the caller acts for; `None` reads no claim.
    pub agent: Option<String>,
    /// The trust level; `None` reads no claim, so that an issuer cannot switch off approvals unless it is allowed to.
    pub trust: Option<String>,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self { permissions: "permissions".to_owned(), agent: Some("agent".to_owned()), trust: None }
    }
}

impl ClaimNames {
    /// The names that [`mint`](crate::mint) writes, trust included.
    #[must_use]
    pub fn minted() -> Self {
        Self { trust: Some("trust".to_owned()), ..Self::default() }
    }
}

/// How often key sets are fetched, and how long they are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// An older key set is fetched again before it is used.
    pub max_age: Duration,
    /// How much longer the old keys stay valid if fetching fails: for this long a revoked key may still work.
    pub max_stale: Duration,
    /// Minimum time between two fetches of one key set, whatever tokens request; never less than a second.
    pub min_interval: Duration,
    /// Timeout of one fetch.
    pub timeout: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(600),
            max_stale: Duration::from_secs(24 * 3600),
            min_interval: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
        }
    }
}

/// A shared secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret(Vec<u8>);

impl SharedSecret {
    /// The bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for SharedSecret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedSecret(…)")
    }
}
