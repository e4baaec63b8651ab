//! Parsing HTTP responses.

use reqwest::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, StreamableHttpError, StreamableHttpPostResponse,
};

use super::sse::events;
use super::{HttpRequestError, HttpTransportError, redacted_error};
use crate::wire::CloseReason;
use crate::wire::large_messages::{LargeMessage, MAX_UNCHECKED_BYTES, classify, too_complex_error};

/// Maximum body of an error response.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Reads a body, up to a limit.
pub(super) async fn read_body(mut response: Response, most: usize) -> Result<Vec<u8>, HttpTransportError> {
    let mut bytes = Vec::new();
    while let Some(piece) =
        response.chunk().await.map_err(|error| HttpTransportError::Request(redacted_error(&error)))?
    {
        if bytes.len() + piece.len() > most {
            return Err(HttpTransportError::TooLong);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Parses the response to a POST.
pub(super) async fn read_post(
    response: Response,
    message: &ClientJsonRpcMessage,
    had_session: bool,
    most: usize,
    ending: &CloseReason,
) -> Result<StreamableHttpPostResponse, HttpRequestError> {
    let status = response.status();
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && had_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    if !status.is_success() {
        return read_refusal(response, message, had_session).await;
    }
    let session =
        response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    match content_type(&response).as_str() {
        "text/event-stream" => Ok(StreamableHttpPostResponse::Sse(events(response, most, ending), session)),
        "application/json" => {
            let bytes = read_body(response, most).await?;
            match parse_message(&bytes) {
                Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
                None if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                    Ok(StreamableHttpPostResponse::Accepted)
                }
                None => {
                    Err(StreamableHttpError::UnexpectedServerResponse("the answer is not a message".into()))
                }
            }
        }
        _ if !matches!(message, ClientJsonRpcMessage::Request(_)) => Ok(StreamableHttpPostResponse::Accepted),
        _ => {
            Err(StreamableHttpError::UnexpectedServerResponse("the answer is neither JSON nor events".into()))
        }
    }
}

/// Parses a message; `None` if it is invalid, or large and no response.
fn parse_message(bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
    if bytes.len() > MAX_UNCHECKED_BYTES {
        match classify(bytes) {
            LargeMessage::Response(_) => {}
            LargeMessage::TooComplex(id) => return Some(too_complex_error(id)),
            LargeMessage::Unsolicited | LargeMessage::Invalid => return None,
        }
    }
    serde_json::from_slice(bytes).ok()
}

/// The media type without parameters.
pub(super) fn content_type(response: &Response) -> String {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// An error response may contain a JSON-RPC error; a server of the session protocol rejects `server/discover` in some other form.
async fn read_refusal(
    response: Response,
    message: &ClientJsonRpcMessage,
    had_session: bool,
) -> Result<StreamableHttpPostResponse, HttpRequestError> {
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(unauthorized(&response));
    }
    if status == StatusCode::TOO_MANY_REQUESTS
        || content_type(&response) != "application/json" && status.is_server_error()
    {
        return Err(HttpStatusError::new(status.as_u16(), None).into());
    }
    let bytes = read_body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
    let error = match serde_json::from_slice(&bytes) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !had_session
        && status.is_client_error()
    {
        let error = error.map_or_else(
            || ErrorData::invalid_request(format!("HTTP status {}", status.as_u16()), None),
            |error| error.error,
        );
        return Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, Some(request.id.clone())),
            None,
        ));
    }
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None)),
        None => Err(HttpStatusError::new(status.as_u16(), None).into()),
    }
}

/// The server rejected the gate's credentials.
pub(super) fn unauthorized(response: &Response) -> HttpRequestError {
    let challenge =
        response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let challenge: String = challenge.chars().take(200).collect();
    StreamableHttpError::AuthRequired(AuthRequiredError::new(format!(
        "status {}: {challenge}",
        response.status().as_u16()
    )))
}
