//! A piece of a stream that is understood as one.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;

use crate::error::ProviderError;
use crate::message_collector::malformed;
use crate::step_decoder::truncated;
use crate::vendor_error::sanitize_to;

/// How much is shown of an event's name.
const MAX_EVENT_NAME_CHARS: usize = 60;

/// What a wire's decoder is given: an event of a stream, or a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFrame<'f> {
    /// What the event is called; empty where it has no name.
    pub(crate) event: &'f str,
    /// What it holds, not read yet.
    pub(crate) data: &'f [u8],
    /// Whether its end was seen. One that is not whole stood at the end of the bytes, and may have been longer.
    pub(crate) is_complete: bool,
}

impl<'f> StreamFrame<'f> {
    /// What it says. The server's words are no part of the error: they may be anything.
    pub(crate) fn read<T: Deserialize<'f>>(&self) -> Result<T, ProviderError> {
        serde_json::from_slice(self.data).map_err(|error| {
            if !self.is_complete {
                return truncated();
            }
            let what = if error.is_data() { "does not have the shape it should" } else { "is not JSON" };
            let event = sanitize_to(self.event, MAX_EVENT_NAME_CHARS);
            malformed(if event.is_empty() {
                format!("a piece of the stream {what}")
            } else {
                format!("an event `{event}` of the stream {what}")
            })
        })
    }
}

/// The kind of a frame, where it says so itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Tag<'f> {
    /// What it calls itself.
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Option<Text<'f>>,
}

impl Tag<'_> {
    /// What it calls itself; empty where it does not.
    pub(crate) fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or_default()
    }
}

/// A text of a frame, not copied where it stands there as it is.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'f>(#[serde(borrow)] Cow<'f, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
