//! Models as rows of text.

use toolgate_conversation::models::ProviderModels;
use toolgate_llm::{Capabilities, ListedModel};

use crate::terminal::escape_line;

/// One line per model, at most this many, or one that says why there are none.
pub(crate) fn rows(provider: &ProviderModels, most: usize) -> Vec<String> {
    let models = match &provider.models {
        Ok(models) if models.is_empty() => return vec![format!("{}: no models", provider.name)],
        Ok(models) => models,
        Err(failed) => {
            return vec![escape_line(&format!("{}: {}", provider.name, failed.with_help()))];
        }
    };
    let row = |model: &ListedModel| {
        let (tools, window) = (tools_label(model.capabilities), window_label(model.capabilities));
        escape_line(&format!("{:<44} {tools:<8} {window}", format!("{}/{}", provider.name, model.name)))
    };
    let mut rows: Vec<String> = models.iter().take(most).map(row).collect();
    if let Some(more @ 1..) = models.len().checked_sub(most) {
        rows.push(format!("{more} more: `toolgate models {}` lists them", provider.name));
    }
    rows
}

/// Whether a model can call tools.
pub(crate) fn tools_label(capabilities: Capabilities) -> &'static str {
    if capabilities.supports_tools { "tools" } else { "no tools" }
}

/// The context window of a model.
pub(crate) fn window_label(capabilities: Capabilities) -> String {
    capabilities.context_window.map_or("unknown".to_owned(), |tokens| format!("{tokens} tokens"))
}
