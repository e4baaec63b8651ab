//! The YAML format of a script, before validation.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{Finish, Memory, Reasoning, ScriptUsage, When};
use crate::wires::Wire;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScript {
    #[serde(default)]
    pub(super) model: RawModel,
    #[serde(default)]
    pub(super) memory: Memory,
    pub(super) steps: Spanned<Vec<Spanned<RawStep>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawModel {
    pub(super) name: Option<String>,
    pub(super) wire: Option<Wire>,
    pub(super) tools: Option<bool>,
    pub(super) thinking: Option<bool>,
    pub(super) context_window: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) reasoning: Reasoning,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) when: Option<Spanned<When>>,
    pub(super) think: Option<String>,
    pub(super) say: Option<String>,
    pub(super) calls: Option<Vec<Spanned<RawCall>>>,
    pub(super) fault: Option<Spanned<RawFault>>,
    pub(super) r#do: Option<Vec<Spanned<RawAct>>>,
    #[serde(default)]
    pub(super) repeat: bool,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<Spanned<ScriptUsage>>,
    pub(super) chunk: Option<Spanned<usize>>,
    pub(super) slow: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawAct {
    Say(String),
    Think(String),
    ThinkHidden(String),
    Call(RawCall),
    Pause(String),
    Fault(RawFault),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    pub(super) tool: String,
    pub(super) arguments: Option<Value>,
    pub(super) arguments_text: Option<String>,
    pub(super) id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FaultWord {
    Reset,
    Truncate,
    Idle,
    Garbage,
    UnknownEvent,
    Comment,
    DuplicateIndex,
    MissingIndex,
    Status,
    ErrorInStream,
}

/// A fault: a word alone, or a mapping.
pub(super) struct RawFault(pub(super) FaultKeys);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultKeys {
    pub(super) kind: Option<FaultWord>,
    pub(super) times: Option<u32>,
    pub(super) after_bytes: Option<usize>,
    pub(super) status: Option<u16>,
    pub(super) message: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) code: Option<String>,
    pub(super) retry_after: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) should_retry: Option<bool>,
}

impl<'de> Deserialize<'de> for RawFault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FaultVisitor)
    }
}

struct FaultVisitor;

impl<'de> Visitor<'de> for FaultVisitor {
    type Value = RawFault;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a fault such as `reset`, or a mapping such as `{status: 429, retry_after: 1s}`")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Self::Value, E> {
        let kind = Some(FaultWord::deserialize(StrDeserializer::new(word))?);
        Ok(RawFault(FaultKeys { kind, ..FaultKeys::default() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        FaultKeys::deserialize(MapAccessDeserializer::new(map)).map(RawFault)
    }
}
