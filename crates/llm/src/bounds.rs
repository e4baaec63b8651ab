//! How much of one step is taken. Whoever says more is cut off, and the step has failed.

/// The bytes of one step, everything counted.
pub const MAX_STEP_BYTES: usize = 32 << 20;

/// The arguments of one call.
pub const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// The calls of one step.
pub const MAX_CALLS: usize = 1_000;

/// What a server says of itself: a failure, or what a model can do.
pub(crate) const MAX_ANSWER_BYTES: usize = 4 << 20;
