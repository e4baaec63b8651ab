//! Capabilities of models whose server does not state them.
//!
//! The names are those that the vendors' own clients list, the figures are the vendors'. Where a vendor limits input and output separately, the
//! window is the input part, so that no request is planned that the server rejects. The operator's configuration takes precedence over this table. So
//! does a server's own statement, except that `AnthropicProvider` only queries the server about models that are not in the table.

use crate::capabilities::Capabilities;

/// A family of models: all whose name begins so, unless a longer entry matches as well.
struct ModelFamily {
    /// The common prefix of the names.
    name: &'static str,
    /// The context window in tokens.
    context_window: u64,
    /// The maximum output of one step in tokens.
    max_output_tokens: u64,
    /// Whether it supports tool calls.
    supports_tools: bool,
}

const fn family(name: &'static str, context_window: u64, max_output_tokens: u64) -> ModelFamily {
    ModelFamily { name, context_window, max_output_tokens, supports_tools: true }
}

const fn without_tools(name: &'static str, context_window: u64, max_output_tokens: u64) -> ModelFamily {
    ModelFamily { name, context_window, max_output_tokens, supports_tools: false }
}

#[rustfmt::skip]
const FAMILIES: &[ModelFamily] = &[
    // Anthropic. The first line is for models newer than this table.
    family("claude",                  200_000,  32_000),
    family("claude-3-5",              200_000,   8_192),
    family("claude-3-7-sonnet",       200_000,  64_000),
    family("claude-3-haiku",          200_000,   4_096),
    family("claude-3-opus",           200_000,   4_096),
    family("claude-fable-5",        1_000_000, 128_000),
    family("claude-haiku-4-5",        200_000,  64_000),
    family("claude-haiku-5-5",      1_000_000, 128_000),
    family("claude-opus-4",           200_000,  32_000),
    family("claude-opus-4-5",         200_000,  64_000),
    family("claude-opus-4-6",       1_000_000, 128_000),
    family("claude-opus-4-7",       1_000_000, 128_000),
    family("claude-opus-4-8",       1_000_000, 128_000),
    family("claude-opus-5",         1_000_000, 128_000),
    family("claude-sonnet-4",         200_000,  64_000),
    family("claude-sonnet-4-6",     1_000_000,  64_000),
    family("claude-sonnet-5",       1_000_000, 128_000),

    // OpenAI.
    without_tools("chatgpt-4o-latest", 128_000, 16_384),
    family("codex-mini",              200_000, 100_000),
    family("gpt-3.5-turbo",            16_385,   4_096),
    family("gpt-4",                     8_192,   4_096),
    family("gpt-4-0125-preview",      128_000,   4_096),
    family("gpt-4-1106-preview",      128_000,   4_096),
    family("gpt-4-32k",                32_768,   4_096),
    family("gpt-4-turbo",             128_000,   4_096),
    family("gpt-4.1",               1_047_576,  32_768),
    family("gpt-4o",                  128_000,  16_384),
    without_tools("gpt-4o-mini-search-preview", 128_000, 16_384),
    without_tools("gpt-4o-search-preview", 128_000, 16_384),
    family("gpt-5",                   272_000, 128_000),
    without_tools("gpt-5-chat",       128_000,  16_384),
    without_tools("gpt-5.1-chat",     128_000,  16_384),
    family("gpt-5.2-chat",            128_000,  16_384),
    family("gpt-5.3-chat",            128_000,  16_384),
    family("gpt-5.4",                 922_000, 128_000),
    family("gpt-5.4-mini",            272_000, 128_000),
    family("gpt-5.4-nano",            272_000, 128_000),
    family("gpt-5.5",                 922_000, 128_000),
    family("gpt-5.6",                 922_000, 128_000),
    family("gpt-6",                   922_000, 128_000),
    family("gpt-oss",                 131_072,  32_768),
    family("o1",                      200_000, 100_000),
    without_tools("o1-mini",          128_000,  65_536),
    without_tools("o1-preview",       128_000,  32_768),
    family("o3",                      200_000, 100_000),
    family("o4-mini",                 200_000, 100_000),

    // Other vendors' models over Chat Completions whose servers do not state capabilities.
    family("deepseek-chat",           131_072,   8_192),
    family("deepseek-reasoner",       131_072,  65_536),
    family("deepseek-v4",           1_000_000,   8_192),
    family("devstral",                128_000, 128_000),
    family("gemini",                1_048_576,   8_192),
    family("gemini-2.5",            1_048_576,  65_535),
    family("gemini-3",              1_048_576,  65_535),
    family("grok-3",                  131_072, 131_072),
    family("grok-4",                  256_000, 256_000),
    family("grok-code-fast",          256_000, 256_000),
    family("kimi-k2",                 131_072, 131_072),
    family("magistral",                40_000,  40_000),
    family("mistral-large",           128_000, 128_000),
    family("mistral-medium",          131_072, 131_072),
    family("mistral-small",           131_072, 131_072),
];

/// A model's capabilities by its name, with or without a vendor prefix: `gpt-5.4`, `openai/gpt-5.4-2026-03-05`, `anthropic/claude-sonnet-4.5`.
pub(crate) fn known_capabilities(model: &str) -> Option<Capabilities> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let family =
        FAMILIES.iter().filter(|family| is_of(name, family.name)).max_by_key(|family| family.name.len())?;
    Some(Capabilities {
        supports_tools: family.supports_tools,
        supports_images: takes_images(name),
        context_window: Some(family.context_window),
        max_output_tokens: Some(family.max_output_tokens),
    })
}

/// Families whose models take images, and those among them that do not. The longest that matches counts.
const IMAGE_FAMILIES: &[(&str, bool)] = &[
    ("claude", true),
    ("chatgpt-4o-latest", true),
    ("gpt-4-turbo", true),
    ("gpt-4.1", true),
    ("gpt-4o", true),
    ("gpt-4o-mini-search-preview", false),
    ("gpt-4o-search-preview", false),
    ("gpt-5", true),
    ("gpt-6", true),
    ("o1", true),
    ("o1-mini", false),
    ("o1-preview", false),
    ("o3", true),
    ("o3-mini", false),
    ("o4-mini", true),
    ("gemini", true),
    ("grok-4", true),
    ("mistral-medium", true),
    ("mistral-small", true),
];

fn takes_images(name: &str) -> bool {
    let families = IMAGE_FAMILIES.iter().filter(|(family, _)| is_of(name, family));
    families.max_by_key(|(family, _)| family.len()).is_some_and(|(_, takes)| *takes)
}

/// Whether a name begins with a family's name, up to a word boundary. Vendors and resellers differ in dots, dashes and capitals.
fn is_of(name: &str, family: &str) -> bool {
    let mut rest = name.bytes();
    let begins =
        family.bytes().all(|letter| rest.next().is_some_and(|other| normalize(other) == normalize(letter)));
    begins && rest.next().is_none_or(|next| !next.is_ascii_alphanumeric())
}

fn normalize(letter: u8) -> u8 {
    if letter == b'.' { b'-' } else { letter.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(model: &str) -> Option<(u64, u64, bool)> {
        let found = known_capabilities(model)?;
        Some((found.context_window?, found.max_output_tokens?, found.supports_tools))
    }

    #[test]
    fn the_longest_family_that_fits_counts() {
        let cases = [
            ("claude-sonnet-4-5", Some((200_000, 64_000, true))),
            ("claude-sonnet-4-5-20250929", Some((200_000, 64_000, true))),
            ("anthropic/claude-sonnet-4.5", Some((200_000, 64_000, true))),
            ("anthropic/claude-opus-4.6:beta", Some((1_000_000, 128_000, true))),
            ("claude-sonnet-5-5", Some((1_000_000, 128_000, true))),
            ("claude-mythos-preview", Some((200_000, 32_000, true))),
            ("gpt-4", Some((8_192, 4_096, true))),
            ("gpt-4-0613", Some((8_192, 4_096, true))),
            ("gpt-4-1106-preview", Some((128_000, 4_096, true))),
            ("gpt-4.1-mini-2025-04-14", Some((1_047_576, 32_768, true))),
            ("GPT-4o-mini", Some((128_000, 16_384, true))),
            ("openai/gpt-5-chat-latest", Some((128_000, 16_384, false))),
            ("gpt-5.4-mini", Some((272_000, 128_000, true))),
            ("gpt-5.9-of-tomorrow", Some((272_000, 128_000, true))),
            ("gpt-6.1-sol", Some((922_000, 128_000, true))),
            ("o1-mini-2024-09-12", Some((128_000, 65_536, false))),
            ("o3-pro", Some((200_000, 100_000, true))),
            ("gpt-40", None),
            ("o33", None),
            ("llama3.2:3b", None),
            ("", None),
            ("/", None),
        ];
        for (model, expected) in cases {
            assert_eq!(numbers(model), expected, "{model}");
        }
    }

    #[test]
    fn models_that_take_images_are_known_by_their_families() {
        for (model, expected) in [
            ("claude-sonnet-4-5", true),
            ("anthropic/claude-opus-4.6", true),
            ("gpt-4", false),
            ("gpt-4o-mini", true),
            ("o3-mini", false),
            ("o3-pro", true),
            ("gpt-oss-120b", false),
            ("deepseek-chat", false),
        ] {
            assert_eq!(known_capabilities(model).unwrap().supports_images, expected, "{model}");
        }
    }

    #[test]
    fn no_family_stands_twice_and_none_says_more_than_it_sees() {
        for (place, family) in FAMILIES.iter().enumerate() {
            let others = FAMILIES.iter().skip(place + 1);
            assert!(others.clone().all(|other| other.name != family.name), "{}", family.name);
            assert!(family.max_output_tokens <= family.context_window, "{}", family.name);
        }
    }
}
