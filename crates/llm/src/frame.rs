//! One frame of a stream.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use toolgate_text::cleaned_line;

use crate::error::ProviderError;
use crate::message_collector::malformed;
use crate::step_decoder::truncated;

/// An event's name is cut to this length in messages.
const MAX_EVENT_NAME_CHARS: usize = 60;

/// The input of a wire's decoder: a server-sent event, or a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFrame<'f> {
    /// The event's name; empty if it has none.
    pub(crate) event: &'f str,
    /// The data, not yet parsed.
    pub(crate) data: &'f [u8],
    /// Whether its end was seen. An incomplete frame is the last of the stream, and may have been longer.
    pub(crate) is_complete: bool,
}

impl<'f> StreamFrame<'f> {
    /// Parses the data. The error does not quote it: the server's text may be anything.
    pub(crate) fn read<T: Deserialize<'f>>(&self) -> Result<T, ProviderError> {
        serde_json::from_slice(self.data).map_err(|error| {
            if !self.is_complete {
                return truncated();
            }
            let what = if error.is_data() { "does not have the shape it should" } else { "is not JSON" };
            let event = cleaned_line(self.event, MAX_EVENT_NAME_CHARS);
            malformed(if event.is_empty() {
                format!("a piece of the stream {what}")
            } else {
                format!("an event `{event}` of the stream {what}")
            })
        })
    }
}

/// The kind of a frame, from its own `type` field.
#[derive(Debug, Deserialize)]
pub(crate) struct Tag<'f> {
    /// The kind.
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Option<Text<'f>>,
}

impl Tag<'_> {
    /// The kind; empty if absent.
    pub(crate) fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or_default()
    }
}

/// A string of a frame, borrowed if it contains no escapes.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'f>(#[serde(borrow)] Cow<'f, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
