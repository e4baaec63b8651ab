//! Logins at hosted MCP servers: OAuth 2.1 with the browser of a person, and the tokens at rest.
//!
//! A [`LoginPlan`] is what discovery found (RFC 9728, RFC 8414): the authorization server of one MCP server and the scopes to ask for. It is shown
//! before anything is asked for. A [`PendingLogin`] waits for one response at a loopback address; its state, its PKCE verifier (S256) and the issuer
//! (RFC 9207) bind the response to this login. The result is a [`StoredToken`], which a [`TokenStore`] keeps encrypted for one [`TokenBinding`]: a
//! configuration, a server, its URL and a caller. A [`TokenSource`] hands it out for requests to that URL alone, and refreshes it.
//!
//! What a server says about where to log in is untrusted: addresses are classified before they are dialled, documents are bounded in size, time and
//! redirects, and each must name the place it came from.
//!
//! What this crate refuses to know: MCP, configuration files, terminals, and browsers (a caller opens the URL). No error, log line or `Debug` output
//! has a token, a code, a verifier or a client secret in it.

mod error;
mod address_policy;
mod endpoint;
mod metadata_client;
mod challenge;
mod metadata;
mod discovery;
mod token_endpoint;
mod registration;
mod authorization_response;
mod callback;
mod login;
mod stored_token;
mod token_store;
mod token_source;

pub use challenge::BearerChallenge;
pub use error::LoginError;
pub use login::{LoginOptions, LoginPlan, PendingLogin, plan_login};
pub use stored_token::StoredToken;
pub use token_endpoint::revoke;
pub use token_source::{LoginNeed, TokenFailure, TokenSource};
pub use token_store::{TokenBinding, TokenStore, TokenStoreError};
