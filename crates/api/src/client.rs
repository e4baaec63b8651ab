//! The client of a request.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use toolgate_conversation::{Participant, Principal};
use toolgate_serve::{ApiClient, ClientKind, ClientOwner, Problem};
use toolgate_session::SessionOwner;

use crate::failure::ApiResult;
use crate::state::ApiState;

/// The authenticated client, as the conversations know it.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) principal: Principal,
    pub(crate) http: ApiClient,
}

/// What lets a caller with a token see the records of others.
pub(crate) const READ_AUDIT: &str = "audit:read";

impl Client {
    /// Whether it is the person that the gate belongs to.
    pub(crate) fn is_person(&self) -> bool {
        self.http.owner == ClientOwner::Person
    }

    /// Fails once its credential does not count any more: a token expires, and a reload can withdraw its key or its agent. Every request is
    /// authenticated anew; a stream that goes on asks here.
    pub(crate) async fn check_credential(&self, state: &ApiState) -> ApiResult<()> {
        let known = state.service.front().gate().identify(self.principal.credential.clone()).await;
        let lapsed =
            |_| Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "the token counts no more");
        known.map(|_| ()).map_err(lapsed)
    }

    /// Whether it may see the records and counters of all callers.
    pub(crate) fn sees_everyone(&self) -> bool {
        self.is_person() || self.http.caller.permissions.contains(READ_AUDIT)
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The HTTP server puts it there. Without one nothing is answered.
        let Some(http) = parts.extensions.get::<ApiClient>().cloned() else {
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "the caller is not known"));
        };
        let owner = match http.owner {
            ClientOwner::Person => SessionOwner::Person,
            ClientOwner::Caller(identity) => SessionOwner::Caller(identity),
        };
        let via = match http.kind {
            ClientKind::Browser => "web",
            ClientKind::Program => "api",
        };
        let participant = Participant { subject: http.caller.subject.clone(), client: None, via };
        let (credential, caller) = (http.credential.clone(), http.caller.clone());
        Ok(Self { principal: Principal { owner, credential, caller, participant }, http })
    }
}
