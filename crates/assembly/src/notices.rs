//! What the operator should know beside the results, as `tracing` events. The command line prints them on standard error; a program subscribes to the target.

/// The target of these events.
pub const TARGET: &str = "toolgate::notice";

/// A warning to the operator.
pub fn warn(message: &str) {
    tracing::warn!(target: TARGET, "{message}");
}

/// A detail for operators who ask for more. The message is formatted only where a subscriber wants it.
pub fn debug(message: impl FnOnce() -> String) {
    if tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        tracing::debug!(target: TARGET, "{}", message());
    }
}
