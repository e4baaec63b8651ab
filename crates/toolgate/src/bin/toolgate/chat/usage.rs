//! Tokens, context and cost, on one line.

use toolgate_conversation::models::token_cost;
use toolgate_llm::Usage;
use toolgate_manifest::TokenPrice;
use toolgate_text::whitespace_fold::group_digits;

use super::view::ContextUsage;

/// The usage of a turn or a conversation. The cost is there only if the configuration has a price.
pub(crate) fn usage_line(
    usage: Usage,
    context: Option<ContextUsage>,
    price: Option<&TokenPrice>,
    unicode: bool,
) -> String {
    let dot = if unicode { " · " } else { " - " };
    let Usage { input_tokens, output_tokens, cached_tokens } = usage;
    let cached = match cached_tokens {
        0 => String::new(),
        cached => format!(" ({} cached)", group_digits(cached)),
    };
    let tokens =
        format!("{} tokens in{cached}, {} out", group_digits(input_tokens), group_digits(output_tokens));
    let context = context.map(|context| match (context.fraction, context.window) {
        (Some(fraction), Some(window)) => {
            format!("{:.0}% of {} used", (fraction * 100.0).clamp(0.0, 100.0), group_digits(window))
        }
        _ => format!("{} in the context", group_digits(context.used)),
    });
    let cost = price.map(|price| format!("{:.4} {}", token_cost(usage, price), price.currency));
    std::iter::once(tokens).chain(context).chain(cost).collect::<Vec<_>>().join(dot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_one_line_and_no_price_is_invented() {
        let usage = Usage { input_tokens: 1_234_567, output_tokens: 89, cached_tokens: 1_000_000 };
        let context =
            ContextUsage { used: 20_000, window: Some(200_000), fraction: Some(0.1), warning: false };
        let price = TokenPrice { input: 3.0, output: 15.0, cached: Some(0.3), currency: "USD".to_owned() };
        assert_eq!(
            usage_line(usage, Some(context), Some(&price), true),
            "1,234,567 tokens in (1,000,000 cached), 89 out · 10% of 200,000 used · 1.0050 USD"
        );
        let unknown = ContextUsage { window: None, fraction: None, ..context };
        let few = Usage { input_tokens: 12, output_tokens: 3, cached_tokens: 0 };
        assert_eq!(
            usage_line(few, Some(unknown), None, false),
            "12 tokens in, 3 out - 20,000 in the context"
        );
        assert_eq!(usage_line(few, None, None, true), "12 tokens in, 3 out");
    }
}
