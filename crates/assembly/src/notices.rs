//! Notices for the operator beside the results, as `tracing` events. The command line prints them on standard error; an embedding program subscribes
//! to the target.

/// The target of these events.
pub const TARGET: &str = "toolgate::notice";

/// A warning to the operator.
pub fn warn(message: &str) {
    tracing::warn!(target: TARGET, "{message}");
}

/// A detail for verbose output. The message is formatted only if a subscriber is enabled for it.
pub fn debug(message: impl FnOnce() -> String) {
    if tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        tracing::debug!(target: TARGET, "{}", message());
    }
}
