//! What tokens cost.

use toolgate_llm::Usage;
use toolgate_manifest::TokenPrice;

/// A price is per so many tokens.
const PRICE_UNIT: f64 = 1_000_000.0;

/// The cost of this usage, in the currency of the price.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a cost is shown with four digits")]
pub fn token_cost(usage: Usage, price: &TokenPrice) -> f64 {
    let fresh = usage.input_tokens.saturating_sub(usage.cached_tokens);
    let parts = [
        (fresh, price.input),
        (usage.cached_tokens, price.cached.unwrap_or(price.input)),
        (usage.output_tokens, price.output),
    ];
    parts.iter().map(|(tokens, price)| *tokens as f64 * price / PRICE_UNIT).sum()
}
