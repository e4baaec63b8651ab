//! The wires: one directory and one line of the list for each.
//!
//! Everything that depends on a wire (its name, its framing, its decoder, its vendors) is in its [`WireSpec`]; no code outside its directory asks
//! which wire it is.

mod vendor;
mod anthropic;
mod responses;
mod chat;
mod ollama;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::Method;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::vendor::{BaseUrlFormat, Listing, ModelVendor};
use crate::capabilities::{Capabilities, StatedCapabilities};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::known_models;
use crate::listed::ListedModel;
use crate::message_collector::MessageCollector;
use crate::provider::{ModelName, Provider};
use crate::step_decoder::Decode;
use crate::transport::Transport;

/// Declares the wires, by the directory of each.
macro_rules! wires {
    ($($wire:ident: $directory:ident,)*) => {
        /// The API over which a model is reached.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Wire {
            $(#[doc = concat!("The wire of `wires/", stringify!($directory), "`.")] $wire,)*
        }

        impl Wire {
            /// Every wire, in the order of lists and preferences.
            pub const ALL: &'static [Self] = &[$(Self::$wire,)*];

            /// The name of each in configurations, conversations and recordings.
            pub const NAMES: &'static [&'static str] = &[$($directory::WIRE.name,)*];

            pub(crate) fn spec(self) -> &'static WireSpec {
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
pub(crate) struct WireSpec {
    /// Its name in configurations, conversations and recordings.
    pub(crate) name: &'static str,
    /// How a key is sent.
    pub(crate) key: KeyHeader,
    /// The headers of every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// How a stream is divided.
    pub(crate) framing: Framing,
    /// The state machine of a step.
    pub(crate) decoder: fn(MessageCollector) -> Box<dyn Decode>,
    /// A model at an endpoint.
    pub(crate) provider: fn(Endpoint, ModelName) -> Arc<dyn Provider>,
    /// The models of a server, in its own order.
    pub(crate) list_models: fn(&Endpoint) -> ModelQuery<'_, ListedModel>,
    /// The names of the models on a server of this user, newest first; `None` for APIs whose servers do not say.
    pub(crate) installed_models: Option<fn(&Endpoint) -> ModelQuery<'_, String>>,
    /// The servers that need no declaration; the first defined the wire.
    pub(crate) vendors: &'static [ModelVendor],
}

/// A list that a server is asked for.
pub(crate) type ModelQuery<'e, T> = Pin<Box<dyn Future<Output = Result<Vec<T>, ProviderError>> + Send + 'e>>;

/// How a key is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyHeader {
    /// `authorization: Bearer …`
    Bearer,
    /// `x-api-key: …`
    ApiKey,
}

/// How a stream is divided into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events. `application/json` is one whole answer.
    ServerSentEvents,
    /// Lines of JSON, which may be declared as `application/json`.
    JsonLines,
}

impl Wire {
    /// Its name in configurations, conversations and recordings.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The wire of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|wire| wire.name() == name)
    }

    /// The servers that need no declaration; the first defined the wire.
    #[must_use]
    pub fn vendors(self) -> &'static [ModelVendor] {
        self.spec().vendors
    }

    /// The models installed on a server of this user, newest first; `None` for APIs whose servers do not say.
    ///
    /// # Errors
    /// The server cannot be reached, or rejects the request.
    pub async fn installed_models(self, endpoint: &Endpoint) -> Option<Result<Vec<String>, ProviderError>> {
        Some((self.spec().installed_models?)(endpoint).await)
    }
}

impl Serialize for Wire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, Self::NAMES))
    }
}

/// The model list of a server whose answer has the format of OpenAI's, with the capabilities that each entry states.
pub(crate) fn list_models<'e>(
    endpoint: &'e Endpoint,
    wire: Wire,
    path: &'static str,
    query: Option<&'static str>,
) -> ModelQuery<'e, ListedModel> {
    Box::pin(async move {
        let transport = Transport::new(endpoint.clone(), wire);
        let answer = transport.ask_for(Method::GET, path, query, None).await?;
        let entries = chat::listed(&answer).into_iter();
        let capabilities =
            |name: &str, said: StatedCapabilities| listed_capabilities(name, said, endpoint.stated);
        Ok(entries
            .map(|(name, said)| ListedModel { capabilities: capabilities(&name, said), name })
            .collect())
    })
}

fn listed_capabilities(name: &str, said: StatedCapabilities, stated: StatedCapabilities) -> Capabilities {
    // Nearly all of the vendors' own models support tool calls, and compatible servers accept requests with tools for whatever they serve.
    let otherwise = Capabilities {
        supports_tools: true,
        supports_images: false,
        context_window: None,
        max_output_tokens: None,
    };
    stated.apply_over(said.apply_over(known_models::known_capabilities(name).unwrap_or(otherwise)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_wire_and_each_vendor_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Wire::NAMES.iter().collect();
        assert_eq!(names.len(), Wire::ALL.len());
        for &wire in Wire::ALL {
            assert_eq!(Wire::named(wire.name()), Some(wire));
            let written = serde_json::to_string(&wire).unwrap();
            assert_eq!(serde_json::from_str::<Wire>(&written).unwrap(), wire, "{written}");
        }
        let vendors: Vec<_> =
            Wire::ALL.iter().flat_map(|wire| wire.vendors()).map(|known| known.name).collect();
        assert_eq!(vendors.iter().collect::<BTreeSet<_>>().len(), vendors.len(), "{vendors:?}");
        assert!(Wire::ALL.iter().all(|wire| !wire.vendors().is_empty()));
        assert!(serde_json::from_str::<Wire>("\"telex\"").is_err());
    }

    #[test]
    fn suggested_models_are_known_and_call_tools() {
        let vendors = Wire::ALL.iter().flat_map(|wire| wire.vendors());
        // A router chooses the model itself.
        let suggested =
            vendors.filter_map(|vendor| vendor.suggested_model).filter(|name| !name.contains('/'));
        let suggested: Vec<_> = suggested.collect();
        assert!(suggested.len() >= 2, "{suggested:?}");
        for name in suggested {
            assert!(known_models::known_capabilities(name).unwrap().supports_tools, "{name}");
        }
    }
}
