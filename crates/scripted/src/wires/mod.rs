//! The wires: one directory and one line of the list for each.
//!
//! Everything that depends on a wire (its routes, its checks, its answers) is in its [`ServedWire`]; no code outside its directory asks which wire it is.
//! Nothing here is shared with the adapters.

mod anthropic;
mod responses;
mod chat;
mod ollama;

use axum::http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::Value;

use crate::exchange::Exchange;
use crate::playback::Tape;
use crate::reply::ScriptedReply;
use crate::request_rejection::RequestRejection;
use crate::script::Script;

/// Declares the wires, by the directory of each.
macro_rules! wires {
    ($($wire:ident: $directory:ident,)*) => {
        /// A model API. Scripts have its name in kebab-case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Wire {
            $(#[doc = concat!("The wire of `wires/", stringify!($directory), "`.")] $wire,)*
        }

        impl Wire {
            /// Every wire. A request belongs to the first whose routes it matches.
            pub const ALL: &'static [Self] = &[$(Self::$wire,)*];

            pub(crate) fn spec(self) -> &'static ServedWire {
                match self { $(Self::$wire => &$directory::WIRE,)* }
            }
        }
    };
}

wires! {
    Anthropic: anthropic,
    Openai: responses,
    OpenaiChat: chat,
    Ollama: ollama,
}

/// What differs between wires.
pub(crate) struct ServedWire {
    /// Its name in configurations and scripts.
    pub(crate) name: &'static str,
    /// The path that clients of this wire expect in a base URL.
    pub(crate) base_path: &'static str,
    /// The prefix of call ids.
    pub(crate) call_prefix: &'static str,
    /// The content type of a stream.
    pub(crate) stream_type: &'static str,
    /// The status of an error in an answer that is not streamed.
    pub(crate) error_status: u16,
    /// The purpose of a request; `None` if it is not one of this wire.
    pub(crate) route: fn(&Method, &str, &HeaderMap) -> Option<WireRoute>,
    /// Checks the key of a request against the one that is required, if one is.
    pub(crate) authorize: fn(&HeaderMap, Option<&str>) -> Result<(), RequestRejection>,
    /// Parses and validates the request of a step.
    pub(crate) read: fn(&Script, &HeaderMap, &Value) -> Result<Exchange, RequestRejection>,
    /// A streamed answer.
    pub(crate) stream: fn(&Script, &ScriptedReply, &Exchange) -> Tape,
    /// An answer that is not streamed.
    pub(crate) full_response: fn(&Script, &ScriptedReply, &Exchange) -> Result<Value, RequestRejection>,
    /// The body of an error.
    pub(crate) error: fn(&RequestRejection) -> Value,
}

/// The purpose of a request.
pub(crate) enum WireRoute {
    /// A step of a conversation.
    Step,
    /// A question about the server or its models.
    Query(fn(&Script, &Value) -> Result<Value, RequestRejection>),
}

impl Wire {
    /// Its name in configurations and scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.spec().name
    }

    /// The wire of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|wire| wire.as_str() == name)
    }
}

/// The body of an error for a request of no wire, in the most common format.
pub(crate) fn error_of_no_wire(refusal: &RequestRejection) -> Value {
    chat::error(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_lists_have_the_same_names() {
        for &wire in Wire::ALL {
            let read: Wire = serde_json::from_str(&format!("\"{}\"", wire.as_str())).unwrap();
            assert_eq!((read, Wire::named(wire.as_str())), (wire, Some(wire)));
        }
    }
}
