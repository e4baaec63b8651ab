//! OpenAI Responses.

mod check;
mod write;

use super::chat::{KeyRequirement, authorize, error};
use super::{ServedWire, WireRoute};

pub(super) const WIRE: ServedWire = ServedWire {
    name: "openai",
    base_path: "/v1",
    call_prefix: "call",
    stream_type: "text/event-stream; charset=utf-8",
    error_status: 500,
    // The vendor's model list belongs to its other wire.
    route: |method, path, _| match (method.as_str(), path) {
        ("POST", "/v1/responses") => Some(WireRoute::Step),
        _ => None,
    },
    authorize: |headers, required| authorize(headers, required, KeyRequirement::Always),
    read: |script, _, body| check::request(script, body),
    stream: |_, reply, exchange| write::stream(reply, exchange),
    full_response: |_, reply, exchange| Ok(write::full_response(reply, exchange)),
    error,
};
