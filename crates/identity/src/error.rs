//! Why a token was refused, a key not accepted or a token not made.
//!
//! Refusals are for the operator: short stable words and nothing of the token, not even its key id. A model
//! is told that the caller could not be verified and no more, so that guessing teaches it nothing.

use std::fmt;
use std::time::Duration;

use toolgate_types::{ErrorCode, Failure};

use crate::Algorithm;

/// A claim by what it means; an issuer may call it otherwise.
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
    /// What the subject was granted.
    Permissions,
    /// The agent it calls for.
    Agent,
    /// How much it is asked.
    Trust,
}

impl Claim {
    /// The registered name, or ours where there is none.
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

/// Why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than any token may be; nothing of it was parsed.
    #[error("the token is longer than a token may be")]
    TooLarge,
    /// Not three canonical parts of strict JSON.
    #[error("the token is not well formed")]
    Malformed,
    /// The header demands something that is not supported, such as a critical extension.
    #[error("the token's header asks for an extension that is not supported")]
    UnsupportedHeader,
    /// The header says that this is something other than an access token.
    #[error("the token's `typ` is neither `JWT` nor `at+jwt`")]
    WrongType,
    /// The algorithm is not allowed, or not for this key.
    #[error("the token is signed with an algorithm that is not allowed for its issuer and key")]
    WrongAlgorithm,
    /// The header names no key.
    #[error("the token's header has no `kid`, and there is not exactly one key configured for its issuer")]
    MissingKeyId,
    /// No such issuer is configured.
    #[error("the token is from an issuer that is not configured")]
    WrongIssuer,
    /// The issuer has no such key.
    #[error("the token names a key that its issuer does not have")]
    UnknownKey,
    /// The issuer's keys could not be fetched.
    #[error("the issuer's keys are not at hand: {cause}")]
    KeysUnavailable {
        /// Why not.
        cause: FetchError,
    },
    /// The signature is not by that key.
    #[error("the token's signature does not fit")]
    BadSignature,
    /// A claim that must be there is not.
    #[error("the token has no `{claim}` claim")]
    MissingClaim {
        /// Which.
        claim: Claim,
    },
    /// A claim is of the wrong type, empty, over-long or holds what cannot be printed.
    #[error("the token's `{claim}` claim is not of the form that it must have")]
    BadClaim {
        /// Which.
        claim: Claim,
    },
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// It says that it was made later than now.
    #[error("the token says that it was issued in the future")]
    IssuedInFuture,
    /// It lives longer than the configuration allows.
    #[error("the token is valid for longer than its issuer is allowed")]
    LivesTooLong,
    /// It was made for somebody else.
    #[error("the token is for another audience")]
    WrongAudience,
    /// The clock cannot be used, so nothing that depends on time can be proved.
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

    /// The stable code: always the same, so that an answer does not say what was wrong.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::Unauthenticated
    }

    /// What the caller is told, with the reason kept for the operator.
    #[must_use]
    pub fn to_failure(&self) -> Failure {
        Failure::new(self.code(), "the caller could not be verified")
            .operator_note(format!("{}: {self}", self.reason()))
    }
}

/// Why an issuer's keys could not be fetched. The address is in the configuration; what the server said is
/// not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// No HTTPS client could be made, most often for want of system CA certificates.
    #[error("no https client could be made; are CA certificates installed?")]
    NoClient,
    /// The address is not https, nor http to this machine.
    #[error("the address is neither https nor on this machine")]
    InsecureAddress,
    /// The server could not be reached, or the connection broke.
    #[error("the server could not be reached")]
    Unreachable,
    /// The server took too long.
    #[error("the server took too long")]
    TimedOut,
    /// The server sent us elsewhere, where we do not go.
    #[error("the server redirects, which is not followed")]
    Redirected,
    /// The server answered with something other than 200.
    #[error("the server answered with status `{status}`")]
    Status {
        /// Which.
        status: u16,
    },
    /// The answer is larger than a key set may be.
    #[error("the key set is larger than a key set may be")]
    TooLarge,
    /// The answer is not a key set.
    #[error("the answer is not a key set")]
    NotAKeySet,
    /// The fetch ended without an answer, or there is no runtime to fetch with.
    #[error("the fetch was not carried out")]
    Aborted,
}

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// A secret that could be guessed.
    #[error("the secret has `{bytes}` bytes, fewer than 32")]
    ShortSecret {
        /// How long it is.
        bytes: usize,
    },
    /// Something public in the place of a secret: whoever knows it could sign.
    #[error("the secret is a PEM file, and keys that others hold are no secret")]
    PublicSecret,
    /// An RSA key that is too short to trust or too long to verify with.
    #[error("the RSA key has `{bits}` bits, which is not between 2048 and 8192")]
    RsaSize {
        /// How long it is.
        bits: usize,
    },
    /// An RSA exponent with which signatures can be made up, or that cannot be computed with.
    #[error("the RSA key's public exponent is not an odd number between 3 and 2^32")]
    RsaExponent,
    /// An elliptic curve or point form that is not supported.
    #[error("the key is not an uncompressed point on P-256 or P-384")]
    WrongCurve,
    /// The private half, which has no business here.
    #[error("this is a private key, and only the public half is needed")]
    Private,
    /// A certificate, which says more than a key and expires.
    #[error("this is a certificate, and a public key is needed")]
    Certificate,
    /// No supported key at all.
    #[error("this is not one RSA, EC or Ed25519 public key")]
    NotAKey,
    /// Another key of the issuer has the same id.
    #[error("another key of this issuer has the same id")]
    SameId,
    /// The id is empty, over-long or holds what cannot be printed.
    #[error("the key id is empty, longer than 256 bytes or not printable")]
    BadId,
    /// No allowed algorithm works with it.
    #[error("none of the algorithms allowed for this issuer works with this key")]
    Unused,
}

/// Why a verifier cannot be set up as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Nobody could ever be verified.
    #[error("no issuer is configured")]
    NoIssuer,
    /// Two entries for one issuer.
    #[error("issuer `{issuer}` is configured twice")]
    SameIssuer {
        /// Which.
        issuer: String,
    },
    /// A name that must be printable and not empty is not.
    #[error("the {what} `{}` is empty, longer than 256 bytes or not printable", text.escape_debug())]
    BadName {
        /// What kind of name.
        what: &'static str,
        /// The name.
        text: String,
    },
    /// A list that may not be empty is.
    #[error("issuer `{issuer}` has no {what}")]
    EmptyList {
        /// Which issuer.
        issuer: String,
        /// What is lacking.
        what: &'static str,
    },
    /// More leeway than clocks need.
    #[error("issuer `{issuer}` has a leeway of `{leeway:?}`, more than 60 seconds")]
    Leeway {
        /// Which issuer.
        issuer: String,
        /// How much.
        leeway: Duration,
    },
    /// An algorithm for which no key is configured and none can be fetched.
    #[error("issuer `{issuer}` allows `{algorithm}`, and none of its keys works with it")]
    NoKeyFor {
        /// Which issuer.
        issuer: String,
        /// Which algorithm.
        algorithm: Algorithm,
    },
    /// A key cannot be used.
    #[error("key `{}` of issuer `{issuer}` cannot be used: {problem}", key_id.escape_debug())]
    Key {
        /// Which issuer.
        issuer: String,
        /// Which key.
        key_id: String,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// A key set given as bytes is not one, or holds no usable key.
    #[error("the key set of issuer `{issuer}` holds no usable key, or is not a key set")]
    KeySet {
        /// Which issuer.
        issuer: String,
    },
    /// The address of a key set cannot be trusted.
    #[error("`{}` is not an address for the keys of issuer `{issuer}`", url.escape_debug())]
    Address {
        /// Which issuer.
        issuer: String,
        /// The address, without what could be a password in it.
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

/// Why a token was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The secret could be guessed.
    #[error("{0}")]
    Secret(KeyProblem),
    /// Not between one second and 24 hours.
    #[error("a token may live for one second to 24 hours, not `{0:?}`")]
    Lifetime(Duration),
    /// Something that the verifier would refuse.
    #[error("the {what} is empty, longer than 256 bytes or not printable")]
    BadName {
        /// What it was for.
        what: &'static str,
    },
    /// The operating system gave no random bytes, or the token could not be signed.
    #[error("the operating system gave no random bytes, or the token could not be signed")]
    NoCryptography,
    /// The clock cannot be used.
    #[error("the clock stands before 1970")]
    ClockUnusable,
}
