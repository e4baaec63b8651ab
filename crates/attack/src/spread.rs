//! Moments that cover a span evenly, in an order that looks random and is always the same.

/// The `index`-th point of a sequence that fills 0..1 evenly, however far it is taken: the golden ratio's multiples.
#[must_use]
pub fn spread(index: u64) -> f64 {
    (index as f64 * 0.618_033_988_749_894_9).fract()
}
