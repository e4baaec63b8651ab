//! Deterministic moments that cover a span evenly, in an order that looks random.

/// The `index`-th point of a low-discrepancy sequence in 0..1: multiples of the golden ratio.
#[must_use]
pub fn spread(index: u64) -> f64 {
    (index as f64 * 0.618_033_988_749_894_9).fract()
}
