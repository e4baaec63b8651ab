//! Parses `/api/show`, and chooses the context size to request.

use serde_json::Value;

use crate::capabilities::{Capabilities, StatedCapabilities};

/// The default context size. Ollama's own default may be 4,096 tokens, which a few files fill; the full trained context may need more memory than the
/// machine has.
const DEFAULT_CONTEXT_TOKENS: u64 = 32_768;

/// A model's capabilities, and its request parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelInfo {
    pub(super) capabilities: Capabilities,
    /// The context size to request; `None` to leave it to the server.
    pub(super) num_ctx: Option<u64>,
    pub(super) can_think: bool,
}

/// Parses an answer.
pub(super) fn read(answer: &Value, stated: StatedCapabilities) -> ModelInfo {
    let can = |wanted: &str| {
        let listed = answer.get("capabilities").and_then(Value::as_array);
        listed.map(|listed| listed.iter().any(|capability| capability == wanted))
    };
    // Older servers list no capabilities. They look at the template themselves.
    let template = answer.get("template").and_then(Value::as_str).unwrap_or_default();
    let supports_tools = can("tools").unwrap_or_else(|| template.contains(".Tools"));
    let trained = trained_context(answer);
    let is_remote = answer.get("remote_host").and_then(Value::as_str).is_some_and(|host| !host.is_empty());
    let num_ctx = match (stated.context_window, is_remote) {
        (Some(tokens), _) => Some(tokens),
        (None, true) => None,
        (None, false) => {
            let wanted = configured_context(answer).unwrap_or(DEFAULT_CONTEXT_TOKENS);
            Some(wanted.min(trained.unwrap_or(wanted)))
        }
    };
    let supports_images = can("vision").unwrap_or(false);
    let context_window = num_ctx.or(trained);
    let found = Capabilities { supports_tools, supports_images, context_window, max_output_tokens: None };
    ModelInfo { capabilities: stated.apply_over(found), num_ctx, can_think: can("thinking").unwrap_or(false) }
}

/// The model's trained context size.
fn trained_context(answer: &Value) -> Option<u64> {
    let info = answer.get("model_info")?.as_object()?;
    let architecture = info.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let own = info.get(&format!("{architecture}.context_length"));
    let any = || info.iter().find(|(key, _)| key.ends_with(".context_length")).map(|(_, value)| value);
    own.or_else(any)?.as_u64().filter(|tokens| *tokens > 0)
}

/// The `num_ctx` of the model's parameters, in lines such as `num_ctx 65536`.
fn configured_context(answer: &Value) -> Option<u64> {
    let mut lines = answer.get("parameters")?.as_str()?.lines().rev();
    let value = lines.find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    value.filter(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_context_is_what_was_set_then_what_is_usual_and_never_more_than_trained() {
        let info = |tokens: u64| json!({"general.architecture": "qwen3", "qwen3.context_length": tokens, "clip.context_length": 77});
        let stated = StatedCapabilities { context_window: Some(65_536), ..StatedCapabilities::default() };
        for (answer, stated, num_ctx, window) in [
            (json!({"model_info": info(131_072)}), StatedCapabilities::default(), Some(32_768), Some(32_768)),
            (json!({"model_info": info(8_192)}), StatedCapabilities::default(), Some(8_192), Some(8_192)),
            (json!({"model_info": info(131_072)}), stated, Some(65_536), Some(65_536)),
            (
                json!({"model_info": info(131_072), "parameters": "stop \"x\"\nnum_ctx                        100000"}),
                StatedCapabilities::default(),
                Some(100_000),
                Some(100_000),
            ),
            (
                json!({"model_info": info(262_144), "remote_host": "https://ollama.com"}),
                StatedCapabilities::default(),
                None,
                Some(262_144),
            ),
            (
                json!({"model_info": {"llama.context_length": 4_096}}),
                StatedCapabilities::default(),
                Some(4_096),
                Some(4_096),
            ),
            (
                json!({"parameters": "num_ctx many"}),
                StatedCapabilities::default(),
                Some(32_768),
                Some(32_768),
            ),
            (json!({}), StatedCapabilities::default(), Some(32_768), Some(32_768)),
            (json!(null), StatedCapabilities::default(), Some(32_768), Some(32_768)),
        ] {
            let shown = read(&answer, stated);
            assert_eq!((shown.num_ctx, shown.capabilities.context_window), (num_ctx, window), "{answer}");
        }
    }

    #[test]
    fn tools_and_thinking_are_what_the_server_lists() {
        let stated = StatedCapabilities { supports_tools: Some(false), ..StatedCapabilities::default() };
        for (answer, stated, tools, thinking) in [
            (
                json!({"capabilities": ["completion", "tools", "thinking"]}),
                StatedCapabilities::default(),
                true,
                true,
            ),
            (
                json!({"capabilities": ["completion"], "template": "{{ .Tools }}"}),
                StatedCapabilities::default(),
                false,
                false,
            ),
            (json!({"template": "{{ if .Tools }}…"}), StatedCapabilities::default(), true, false),
            (json!({"template": "{{ .Prompt }}"}), StatedCapabilities::default(), false, false),
            (json!({"capabilities": ["tools"]}), stated, false, false),
        ] {
            let shown = read(&answer, stated);
            assert_eq!((shown.capabilities.supports_tools, shown.can_think), (tools, thinking), "{answer}");
        }
    }
}
