//! OpenAI Responses.

mod check;
mod write;

pub(crate) use check::request as read;
pub(crate) use write::{full_response, stream};
