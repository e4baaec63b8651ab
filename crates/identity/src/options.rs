//! What an operator decides about tokens.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::Algorithm;
use crate::fetch::FetchKeys;

/// The time, as a value that the binary hands in.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// More difference between clocks than this is a fault to mend, not to allow for.
pub const MAX_LEEWAY: Duration = Duration::from_secs(60);

/// How a [`Verifier`](crate::Verifier) decides.
#[derive(Clone)]
pub struct VerifierOptions {
    /// Whose tokens count.
    pub issuers: Vec<Issuer>,
    /// What time it is.
    pub clock: Clock,
    /// How key sets are fetched.
    pub fetch: Arc<dyn FetchKeys>,
    /// How often they are fetched, and how long they last.
    pub cache: CacheOptions,
    /// Longer tokens are refused before anything of them is parsed.
    pub max_token_bytes: usize,
    /// Told, in words for the operator, when a key set cannot be fetched and when it can again.
    pub notify: OperatorNotice,
}

/// Receives words for the operator.
pub type OperatorNotice = Arc<dyn Fn(&str) + Send + Sync>;

impl VerifierOptions {
    /// The usual bounds: tokens of at most 8 KiB.
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

/// One issuer of tokens and what its tokens may claim.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The `iss` of its tokens, to the letter.
    pub issuer: String,
    /// A token must be for one of these.
    pub audiences: Vec<String>,
    /// A token must be signed with one of these.
    pub algorithms: Vec<Algorithm>,
    /// Where its keys come from. Keys that the configuration holds come before fetched ones of the same id.
    pub keys: Vec<KeySource>,
    /// How far its clock and ours may differ; at most [`MAX_LEEWAY`].
    pub leeway: Duration,
    /// Tokens that are valid for longer are refused.
    pub max_lifetime: Duration,
    /// What its claims are called.
    pub claims: ClaimNames,
}

/// Without issuer, audience, algorithm and key, which have no default: 30 s leeway, tokens of at most a day.
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

/// Where keys come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// A secret that both sides know; HS256 only.
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
    /// A key set that the operator keeps.
    KeySet {
        /// The JSON.
        json: Vec<u8>,
    },
    /// A key set that the issuer publishes.
    KeySetAddress {
        /// https, or http to this machine.
        url: String,
    },
}

/// Which claims say what. The registered claims are never renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// An array of strings, or one string of words with a space between them, as `scope` is.
    pub permissions: String,
    /// The agent that the caller acts for; `None` reads no claim.
    pub agent: Option<String>,
    /// The trust level; `None` reads no claim, so that an issuer cannot switch questions off unless it was
    /// told it may.
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

/// How often key sets are fetched, and how long they last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// A key set older than this is fetched again before it is used.
    pub max_age: Duration,
    /// When fetching fails, the old keys count for this long beyond their age: so long a key works that its issuer has withdrawn.
    pub max_stale: Duration,
    /// At least this long between two fetches of one key set, whatever tokens ask for; never less than a
    /// second.
    pub min_interval: Duration,
    /// How long one fetch may take.
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

/// A shared secret. It does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret(Vec<u8>);

impl SharedSecret {
    /// The bytes, for whoever keeps them.
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
        formatter.write_str("Secret(…)")
    }
}
