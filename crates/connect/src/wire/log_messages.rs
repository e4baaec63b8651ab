//! Log messages of servers, and the level that is asked for.
#![expect(deprecated, reason = "logging is deprecated by SEP-2577, and part of both protocols")]

use rmcp::model::{
    ClientRequest, GetMeta as _, LoggingLevel, LoggingMessageNotification, SetLevelRequest,
    SetLevelRequestParams,
};
use serde_json::Value;
use toolgate_gate::LogSeverity;

use crate::definition::truncate;

/// The level, the logger and at most so much of the text of a message.
pub(super) fn log_message(
    said: &LoggingMessageNotification,
    max_bytes: usize,
) -> (LogSeverity, Option<&str>, String) {
    let text = match &said.params.data {
        Value::String(text) => truncate(text, max_bytes),
        other => truncate(&other.to_string(), max_bytes),
    };
    let level = match said.params.level {
        LoggingLevel::Debug => LogSeverity::Debug,
        LoggingLevel::Info => LogSeverity::Info,
        LoggingLevel::Notice => LogSeverity::Notice,
        LoggingLevel::Warning => LogSeverity::Warning,
        LoggingLevel::Error => LogSeverity::Error,
        LoggingLevel::Critical => LogSeverity::Critical,
        LoggingLevel::Alert => LogSeverity::Alert,
        LoggingLevel::Emergency => LogSeverity::Emergency,
    };
    (level, said.params.logger.as_deref(), text)
}

/// Asks for log messages about this request (stateless protocol).
pub(crate) fn want_log_messages(request: &mut ClientRequest, level: LogSeverity) {
    request.get_meta_mut().set_log_level(logging_level(level));
}

/// Asks for log messages on the whole connection (session protocol).
pub(crate) fn set_level_request(level: LogSeverity) -> ClientRequest {
    ClientRequest::SetLevelRequest(SetLevelRequest::new(SetLevelRequestParams::new(logging_level(level))))
}

fn logging_level(level: LogSeverity) -> LoggingLevel {
    match level {
        LogSeverity::Debug => LoggingLevel::Debug,
        LogSeverity::Info => LoggingLevel::Info,
        LogSeverity::Notice => LoggingLevel::Notice,
        LogSeverity::Warning => LoggingLevel::Warning,
        LogSeverity::Error => LoggingLevel::Error,
        LogSeverity::Critical => LoggingLevel::Critical,
        LogSeverity::Alert => LoggingLevel::Alert,
        LogSeverity::Emergency => LoggingLevel::Emergency,
    }
}
