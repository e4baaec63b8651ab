//! A model's capabilities in a server's model list.
//!
//! The list format is OpenAI's and contains only names; each server adds its own fields.

use serde_json::Value;

use crate::capabilities::StatedCapabilities;

/// Where servers state the context window: OpenRouter and Together, vLLM, Groq, Mistral, llama.cpp, Anthropic.
const CONTEXT_WINDOW: &[&str] = &[
    "/context_length",
    "/max_model_len",
    "/context_window",
    "/max_context_length",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
    "/max_input_tokens",
];

/// Where servers state the maximum output: OpenRouter, Groq, Anthropic.
const MAX_OUTPUT_TOKENS: &[&str] =
    &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_tokens"];

/// A model's capabilities in a list; `None` if it is not listed.
pub(super) fn find_model(answer: &Value, model: &str) -> Option<StatedCapabilities> {
    let listed = entries(answer)?;
    let named =
        |name: &str| listed.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(name));
    // OpenRouter accepts variants after a colon (`:nitro`), and lists some of them as models (`:free`).
    named(model).or_else(|| named(model.split_once(':')?.0)).map(said)
}

/// Every model of a list, with its stated capabilities.
pub(crate) fn listed(answer: &Value) -> Vec<(String, StatedCapabilities)> {
    let one = |entry: &Value| Some((entry.get("id")?.as_str()?.to_owned(), said(entry)));
    entries(answer).unwrap_or_default().iter().filter_map(one).collect()
}

fn entries(answer: &Value) -> Option<&[Value]> {
    answer.get("data").unwrap_or(answer).as_array().map(Vec::as_slice)
}

fn said(entry: &Value) -> StatedCapabilities {
    let number = |pointers: &[&str]| pointers.iter().find_map(|pointer| entry.pointer(pointer)?.as_u64());
    let parameters = entry.get("supported_parameters").and_then(Value::as_array);
    let by_parameter = parameters.map(|parameters| parameters.iter().any(|parameter| parameter == "tools"));
    let by_capability = || entry.pointer("/capabilities/function_calling").and_then(Value::as_bool);
    let modalities = entry.pointer("/architecture/input_modalities").and_then(Value::as_array);
    let by_modality = modalities.map(|modalities| modalities.iter().any(|modality| modality == "image"));
    let by_vision = || entry.pointer("/capabilities/vision").and_then(Value::as_bool);
    StatedCapabilities {
        supports_tools: by_parameter.or_else(by_capability),
        supports_images: by_modality.or_else(by_vision),
        context_window: number(CONTEXT_WINDOW).filter(|tokens| *tokens > 0),
        max_output_tokens: number(MAX_OUTPUT_TOKENS).filter(|tokens| *tokens > 0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_servers_list_is_read() {
        let openrouter = json!({"data": [
            {"id": "a/b", "context_length": 1000, "supported_parameters": ["tools", "reasoning"], "top_provider": {"max_completion_tokens": 50}},
            {"id": "a/b:free", "context_length": 500, "supported_parameters": ["temperature"], "top_provider": {"max_completion_tokens": null}},
        ]});
        let vllm =
            json!({"object": "list", "data": [{"id": "a/b", "object": "model", "max_model_len": 4096}]});
        let mistral = json!({"data": [{"id": "a/b", "max_context_length": 32768, "capabilities": {"function_calling": false}}]});
        let groq = json!({"data": [{"id": "a/b", "context_window": 131_072, "max_completion_tokens": 8192}]});
        let llama = json!({"data": [{"id": "a/b", "meta": {"n_ctx_train": 8192}}]});
        let together = json!([{"id": "a/b", "context_length": 0}]);
        let all = |tools, window, output| {
            Some(StatedCapabilities {
                supports_tools: tools,
                supports_images: None,
                context_window: window,
                max_output_tokens: output,
            })
        };
        for (answer, model, expected) in [
            (&openrouter, "a/b", all(Some(true), Some(1000), Some(50))),
            (&openrouter, "a/b:free", all(Some(false), Some(500), None)),
            (&openrouter, "a/b:nitro", all(Some(true), Some(1000), Some(50))),
            (&openrouter, "a/c", None),
            (&vllm, "a/b", all(None, Some(4096), None)),
            (&mistral, "a/b", all(Some(false), Some(32768), None)),
            (&groq, "a/b", all(None, Some(131_072), Some(8192))),
            (&llama, "a/b", all(None, Some(8192), None)),
            (&together, "a/b", all(None, None, None)),
            (&json!({"data": "no"}), "a/b", None),
            (&json!(null), "a/b", None),
        ] {
            assert_eq!(find_model(answer, model), expected, "{model} in {answer}");
        }
    }
}
