//! Errors: rejected tokens, invalid keys and failed minting.
//!
//! Reasons for a rejection are for the operator: short stable words without any part of the token, not even
//! its key id. The caller learns only that it could not be verified, so that guessing teaches it nothing.

use std::fmt;
use std::time::Duration;

use toolgate_types::{ErrorCode, Failure};

use crate::Algorithm;

/// A claim by its meaning; an issuer may use another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// `exp`
    Expires,
    /// `nbf`
    NotBefore,
    /// `iat`
    IssuedAt,
    /// `iss`
    Issuer,
    /// `aud`
    Audience,
    /// `sub`
    Subject,
    /// `jti`
    TokenId,
    /// The granted permissions.
    Permissions,
    /// The agent that the caller acts for.
    Agent,
    /// The trust level.
    Trust,
}

impl Claim {
    /// The registered name, or this project's if there is none.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expires => "exp",
            Self::NotBefore => "nbf",
            Self::IssuedAt => "iat",
            Self::Issuer => "iss",
            Self::Audience => "aud",
            Self::Subject => "sub",
            Self::TokenId => "jti",
            Self::Permissions => "permissions",
            Self::Agent => "agent",
            Self::Trust => "trust",
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why a token was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Above the maximum length; nothing of it was parsed.
    #[error("the token is longer than a token may be")]
    TooLarge,
    /// Not three canonical parts of strict JSON.
    #[error("the token is not well formed")]
    Malformed,
    /// The header requires something that is not supported, such as a critical extension.
    #[error("the token's header asks for an extension that is not supported")]
    UnsupportedHeader,
    /// `typ` is not that of an access token.
    #[error("the token's `typ` is neither `JWT` nor `at+jwt`")]
    WrongType,
    /// The algorithm is not allowed, or not for this key.
    #[error("the token is signed with an algorithm that is not allowed for its issuer and key")]
    WrongAlgorithm,
    /// The header has no `kid`.
    #[error("the token's header has no `kid`, and there is not exactly one key configured for its issuer")]
    MissingKeyId,
    /// The issuer is not configured.
    #[error("the token is from an issuer that is not configured")]
    WrongIssuer,
    /// The issuer has no such key.
    #[error("the token names a key that its issuer does not have")]
    UnknownKey,
    /// The issuer's keys could not be fetched.
    #[error("the issuer's keys are not at hand: {cause}")]
    KeysUnavailable {
        /// The reason.
        cause: FetchError,
    },
    /// The signature does not verify.
    #[error("the token's signature does not fit")]
    BadSignature,
    /// A required claim is missing.
    #[error("the token has no `{claim}` claim")]
    MissingClaim {
        /// The claim.
        claim: Claim,
    },
    /// A claim has the wrong type, is empty, too long or not printable.
    #[error("the token's `{claim}` claim is not of the form that it must have")]
    BadClaim {
        /// The claim.
        claim: Claim,
    },
    /// `exp` is in the past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iat` is in the future.
    #[error("the token says that it was issued in the future")]
    IssuedInFuture,
    /// Its lifetime exceeds the configured maximum.
    #[error("the token is valid for longer than its issuer is allowed")]
    LivesTooLong,
    /// It is for another audience.
    #[error("the token is for another audience")]
    WrongAudience,
    /// The system clock is before 1970, so times cannot be checked.
    #[error("the clock stands before 1970")]
    ClockUnusable,
}

impl TokenError {
    /// The stable word for logs and audit records.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::UnsupportedHeader => "unsupported_header",
            Self::WrongType => "wrong_type",
            Self::WrongAlgorithm => "wrong_algorithm",
            Self::MissingKeyId => "missing_key_id",
            Self::WrongIssuer => "wrong_issuer",
            Self::UnknownKey => "unknown_key",
            Self::KeysUnavailable { .. } => "keys_unavailable",
            Self::BadSignature => "bad_signature",
            Self::MissingClaim { .. } => "missing_claim",
            Self::BadClaim { .. } => "bad_claim",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::IssuedInFuture => "issued_in_future",
            Self::LivesTooLong => "lives_too_long",
            Self::WrongAudience => "wrong_audience",
            Self::ClockUnusable => "clock_unusable",
        }
    }

    /// The error code: always the same, so that a response does not reveal what was wrong.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::Unauthenticated
    }

    /// The failure for the caller, with the reason for the operator only.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        Failure::new(self.code(), "the caller could not be verified")
            .operator_note(format!("{}: {self}", self.reason()))
    }
}

/// Why an issuer's keys could not be fetched. The URL is in the configuration; the server's response is not
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The HTTPS client could not be built, usually because there are no system CA certificates.
    #[error("no https client could be made; are CA certificates installed?")]
    NoClient,
    /// The URL is neither https, nor http to loopback.
    #[error("the address is neither https nor on this machine")]
    InsecureAddress,
    /// The server could not be reached, or the connection broke.
    #[error("the server could not be reached")]
    Unreachable,
    /// The fetch timed out.
    #[error("the server took too long")]
    TimedOut,
    /// The server redirected, which is not followed.
    #[error("the server redirects, which is not followed")]
    Redirected,
    /// The status is not 200.
    #[error("the server answered with status `{status}`")]
    Status {
        /// The status.
        status: u16,
    },
    /// The response exceeds the maximum size of a key set.
    #[error("the key set is larger than a key set may be")]
    TooLarge,
    /// The response is not a key set.
    #[error("the answer is not a key set")]
    NotAKeySet,
    /// The fetch was aborted, or there is no tokio runtime.
    #[error("the fetch was not carried out")]
    Aborted,
}

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// The secret is short enough to be guessed.
    #[error("the secret has `{bytes}` bytes, fewer than 32")]
    ShortSecret {
        /// Its length.
        bytes: usize,
    },
    /// A public key in place of a secret: anyone who knows it could sign.
    #[error("the secret is a PEM file, and keys that others hold are no secret")]
    PublicSecret,
    /// The RSA key is too short to be secure or too long to verify with.
    #[error("the RSA key has `{bits}` bits, which is not between 2048 and 8192")]
    RsaSize {
        /// Its length.
        bits: usize,
    },
    /// The RSA public exponent is insecure or unsupported.
    #[error("the RSA key's public exponent is not an odd number between 3 and 2^32")]
    RsaExponent,
    /// Unsupported curve or point format.
    #[error("the key is not an uncompressed point on P-256 or P-384")]
    WrongCurve,
    /// A private key, which must not be configured here.
    #[error("this is a private key, and only the public half is needed")]
    Private,
    /// A certificate, which is more than a key and expires.
    #[error("this is a certificate, and a public key is needed")]
    Certificate,
    /// Not a supported key.
    #[error("this is not one RSA, EC or Ed25519 public key")]
    NotAKey,
    /// Another key of the issuer has the same id.
    #[error("another key of this issuer has the same id")]
    SameId,
    /// The id is empty, too long or not printable.
    #[error("the key id is empty, longer than 256 bytes or not printable")]
    BadId,
    /// No allowed algorithm works with it.
    #[error("none of the algorithms allowed for this issuer works with this key")]
    Unused,
}

/// Why a verifier cannot be set up as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Without an issuer every token would be rejected.
    #[error("no issuer is configured")]
    NoIssuer,
    /// The same issuer twice.
    #[error("issuer `{issuer}` is configured twice")]
    SameIssuer {
        /// The issuer.
        issuer: String,
    },
    /// A name is empty, too long or not printable.
    #[error("the {what} `{}` is empty, longer than 256 bytes or not printable", text.escape_debug())]
    BadName {
        /// The kind of name.
        what: &'static str,
        /// The name.
        text: String,
    },
    /// A list that must not be empty is empty.
    #[error("issuer `{issuer}` has no {what}")]
    EmptyList {
        /// The issuer.
        issuer: String,
        /// The missing items.
        what: &'static str,
    },
    /// Leeway above the maximum.
    #[error("issuer `{issuer}` has a leeway of `{leeway:?}`, more than 60 seconds")]
    Leeway {
        /// The issuer.
        issuer: String,
        /// The leeway.
        leeway: Duration,
    },
    /// An algorithm without a configured key, and without a key set to fetch.
    #[error("issuer `{issuer}` allows `{algorithm}`, and none of its keys works with it")]
    NoKeyFor {
        /// The issuer.
        issuer: String,
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// A key cannot be used.
    #[error("key `{}` of issuer `{issuer}` cannot be used: {problem}", key_id.escape_debug())]
    Key {
        /// The issuer.
        issuer: String,
        /// The key.
        key_id: String,
        /// The problem.
        problem: KeyProblem,
    },
    /// A key set given as bytes is invalid, or has no usable key.
    #[error("the key set of issuer `{issuer}` holds no usable key, or is not a key set")]
    KeySet {
        /// The issuer.
        issuer: String,
    },
    /// The URL of a key set cannot be trusted.
    #[error("`{}` is not an address for the keys of issuer `{issuer}`", url.escape_debug())]
    Address {
        /// The issuer.
        issuer: String,
        /// The URL, with any password redacted.
        url: String,
    },
}

impl SetupError {
    /// What the operator can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoIssuer => "name at least one issuer with its audience, algorithms and keys",
            Self::SameIssuer { .. } => "put all keys of an issuer in one entry",
            Self::BadName { .. } => "write it exactly as it stands in the issuer's tokens",
            Self::EmptyList { .. } => "an issuer needs an audience, an algorithm and a key",
            Self::Leeway { .. } => "set the clocks right, and the leeway to 60 seconds or less",
            Self::NoKeyFor { .. } => "remove the algorithm, or add a key for it",
            Self::Key { problem, .. } => key_help(*problem),
            Self::KeySet { .. } => {
                "a key set is JSON of at most 256 KiB, `{\"keys\": […]}`, with public keys that have a `kid`"
            }
            Self::Address { .. } => {
                "use https, or http to this machine's loopback address, without a password or fragment"
            }
        }
    }
}

fn key_help(problem: KeyProblem) -> &'static str {
    match problem {
        KeyProblem::ShortSecret { .. } | KeyProblem::PublicSecret => "use at least 32 random bytes",
        KeyProblem::RsaSize { .. } | KeyProblem::RsaExponent => {
            "make a new RSA key of 3072 bits, or use Ed25519"
        }
        KeyProblem::Private => "take the public half: `openssl pkey -in KEY -pubout`",
        KeyProblem::Certificate => "take the key out of it: `openssl x509 -in CERTIFICATE -pubkey -noout`",
        KeyProblem::WrongCurve | KeyProblem::NotAKey => {
            "one PEM block `PUBLIC KEY` or `RSA PUBLIC KEY`, with RSA, P-256, P-384 or Ed25519"
        }
        KeyProblem::SameId | KeyProblem::BadId => "give every key a short id of its own",
        KeyProblem::Unused => "add the algorithm that the key is for, or remove the key",
    }
}

/// Why a token could not be minted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The secret is weak.
    #[error("{0}")]
    Secret(KeyProblem),
    /// Not between one second and 24 hours.
    #[error("a token may live for one second to 24 hours, not `{0:?}`")]
    Lifetime(Duration),
    /// A name that the verifier would reject.
    #[error("the {what} is empty, longer than 256 bytes or not printable")]
    BadName {
        /// The field.
        what: &'static str,
    },
    /// The operating system provided no random bytes, or the token could not be signed.
    #[error("the operating system gave no random bytes, or the token could not be signed")]
    NoCryptography,
    /// The system clock is before 1970.
    #[error("the clock stands before 1970")]
    ClockUnusable,
}
