//! Log messages of servers behind the gate, for clients that asked for them. The gate itself logs to its operator alone.
#![expect(deprecated, reason = "logging is deprecated by SEP-2577, and part of both protocols")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, SetLevelRequestParams};
use serde_json::Value;
use tokio::sync::Notify;
use toolgate_gate::{LogMessage, LogSeverity, LogSink};

use crate::mcp::McpHandler;
use crate::mcp::client_sink::ClientSink;
use crate::mcp::request::RequestContext;

/// The parameters of `logging/setLevel`.
pub(crate) type LogLevelRequest = SetLevelRequestParams;

/// Messages that a slow client has not read yet; the oldest are dropped.
const MAX_BUFFERED: usize = 64;

/// Buffers the log messages of one call and sends them.
pub(crate) struct LogNotifier {
    level: LogSeverity,
    buffer: Mutex<VecDeque<LoggingMessageNotificationParam>>,
    changed: Notify,
}

impl LogNotifier {
    pub(crate) fn new(level: LogSeverity) -> Arc<Self> {
        Arc::new(Self { level, buffer: Mutex::default(), changed: Notify::new() })
    }

    /// The sink for the server's connection.
    pub(crate) fn sink(self: &Arc<Self>) -> LogSink {
        let notifier = Arc::clone(self);
        let sink = move |message: LogMessage<'_>| notifier.push(message);
        LogSink { level: self.level, sink: Arc::new(sink) }
    }

    fn push(&self, message: LogMessage<'_>) {
        let said = LoggingMessageNotificationParam::new(to_wire(message.level), Value::from(message.text))
            .with_logger(message.logger);
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() >= MAX_BUFFERED {
            buffer.pop_front();
        }
        buffer.push_back(said);
        self.changed.notify_one();
    }

    /// Sends until the future is dropped.
    pub(crate) async fn forward(&self, client: &ClientSink) {
        loop {
            self.changed.notified().await;
            self.flush(client).await;
        }
    }

    /// Sends what is buffered.
    pub(crate) async fn flush(&self, client: &ClientSink) {
        loop {
            let next = self.buffer.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(said) = next else { return };
            // Fails only if the connection is closed; then the response is lost too.
            let _ = client.notify_of("notifications/message", &said).await;
        }
    }
}

impl McpHandler {
    /// The level that a request wants log messages of; `None` if its client did not ask for any.
    pub(crate) fn log_level(&self, context: &RequestContext) -> Option<LogSeverity> {
        match context.is_stateless() {
            true => context.meta.log_level().map(from_wire),
            false => self.connection.log_level(),
        }
    }

    /// Session protocol: what the client wants from now on.
    pub(crate) fn set_log_level(&self, request: &LogLevelRequest) {
        self.connection.set_log_level(from_wire(request.level));
    }
}

fn to_wire(level: LogSeverity) -> LoggingLevel {
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

fn from_wire(level: LoggingLevel) -> LogSeverity {
    match level {
        LoggingLevel::Debug => LogSeverity::Debug,
        LoggingLevel::Info => LogSeverity::Info,
        LoggingLevel::Notice => LogSeverity::Notice,
        LoggingLevel::Warning => LogSeverity::Warning,
        LoggingLevel::Error => LogSeverity::Error,
        LoggingLevel::Critical => LogSeverity::Critical,
        LoggingLevel::Alert => LogSeverity::Alert,
        LoggingLevel::Emergency => LogSeverity::Emergency,
    }
}
