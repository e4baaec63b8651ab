//! Filters what a server sends, on any transport.
//!
//! A response passes if it answers a pending request, and only once. Progress goes only to the call that it belongs to, and rate-limited.
//! Everything else that a server sends unsolicited is dropped here, so that it cannot fill a queue. A server that sends too much of it is
//! disconnected.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, GetExtensions as _, GetMeta as _, JsonRpcMessage, NumberOrString,
    ProgressNotificationParam, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use toolgate_gate::{Fraction, Progress, ProgressUpdate};

use super::CloseReason;
use super::log_messages::log_message;
use crate::definition::truncate;
use crate::server::{ActiveCallId, ActiveCalls, ResourceUpdates};

/// How many ids of cancelled calls are remembered, so that their late responses are recognised.
const MAX_CANCELLED_IDS: usize = 256;

/// Minimum time between two progress updates of one call.
const MIN_PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

/// The largest count below which every integer is exact in an `f64`.
const MAX_EXACT_COUNT: f64 = (1_u64 << 53) as f64;

/// Maximum length of a progress message.
const MAX_REPORT_BYTES: usize = 500;

/// Only this much of a progress message is sanitised.
const MAX_REPORT_SOURCE_BYTES: usize = 4 << 10;

/// A request extension: the receiver of its progress.
#[derive(Clone)]
pub(crate) struct ProgressRoute(pub(crate) Progress);

/// A request without a response.
struct PendingRequest {
    token: Option<ProgressToken>,
    route: Option<ProgressRoute>,
    last_report: Option<Instant>,
    call: Option<ActiveCallId>,
    /// Whether it is `server/discover`.
    is_probe: bool,
}

/// A transport with the filter.
pub(crate) struct GuardedTransport<T> {
    inner: T,
    pending: HashMap<RequestId, PendingRequest>,
    /// `server/discover`, if `initialize` followed before its response: a slow stateless server still answers it.
    late_probe: Option<RequestId>,
    cancelled: VecDeque<RequestId>,
    events: ServerEvents,
    close_reason: CloseReason,
}

/// Where to notifications of a server go.
pub(crate) struct ServerEvents {
    /// Its name.
    pub(crate) server: String,
    /// Notified when the server reports a change of its tools.
    pub(crate) tools_changed: Arc<Notify>,
    /// The calls that log messages may be about.
    pub(crate) active: Arc<ActiveCalls>,
    /// Receives changes of resources.
    pub(crate) updates: ResourceUpdates,
}

impl<T: Transport<RoleClient>> GuardedTransport<T> {
    pub(crate) fn new(inner: T, events: ServerEvents, close_reason: CloseReason) -> Self {
        Self {
            inner,
            pending: HashMap::new(),
            late_probe: None,
            cancelled: VecDeque::new(),
            events,
            close_reason,
        }
    }

    fn note_sent(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(sent) => {
                // `initialize` restarts the connection: only a probe before it is still awaited.
                if matches!(sent.request, ClientRequest::InitializeRequest(_)) {
                    let earlier: Vec<(RequestId, PendingRequest)> = self.pending.drain().collect();
                    for (id, request) in earlier {
                        match request.is_probe {
                            true => self.late_probe = Some(id),
                            false => self.cancel(id),
                        }
                    }
                }
                let pending = PendingRequest {
                    token: sent.request.get_meta().get_progress_token(),
                    route: sent.request.extensions().get::<ProgressRoute>().cloned(),
                    last_report: None,
                    call: sent.request.extensions().get::<ActiveCallId>().copied(),
                    is_probe: matches!(sent.request, ClientRequest::DiscoverRequest(_)),
                };
                self.pending.insert(sent.id.clone(), pending);
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                    && self.pending.remove(id).is_some()
                {
                    self.cancel(id.clone());
                }
            }
            _ => {}
        }
    }

    fn cancel(&mut self, id: RequestId) {
        if self.cancelled.len() >= MAX_CANCELLED_IDS {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(id);
    }

    /// Whether a message passes.
    fn admit(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let mut reported = false;
        let admitted = match message {
            JsonRpcMessage::Response(response) => self.take_pending(Some(&response.id)),
            JsonRpcMessage::Error(error) => self.take_pending(error.id.as_ref()),
            JsonRpcMessage::Request(_) => true,
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::ProgressNotification(progress) = &notification.notification {
                    reported = self.report(&progress.params, Instant::now());
                }
                reported |= self.deliver(&notification.notification);
                self.handle_notification(&notification.notification)
            }
        };
        let is_useful = match message {
            JsonRpcMessage::Response(_) => admitted,
            JsonRpcMessage::Error(error) => admitted && error.id.is_some(),
            JsonRpcMessage::Request(_) => false,
            JsonRpcMessage::Notification(_) => reported,
        };
        if !is_useful {
            self.close_reason.count_unsolicited(0);
        }
        admitted
    }

    fn take_pending(&mut self, id: Option<&RequestId>) -> bool {
        // An error without an id can only be about the first request: a server that cannot parse a request cannot name its id.
        let Some(id) = id else { return self.pending.len() == 1 };
        if self.late_probe.take_if(|probe| answers_request(id, probe)).is_some() {
            return true;
        }
        let as_number = match id {
            NumberOrString::String(text) => text.parse().ok().map(RequestId::Number),
            NumberOrString::Number(_) => None,
        };
        let found = self.pending.remove(id).or_else(|| self.pending.remove(as_number.as_ref()?));
        if let Some(call) = found.as_ref().and_then(|found| found.call) {
            self.events.active.end(call);
        }
        if found.is_none()
            && let Some(place) = self
                .cancelled
                .iter()
                .position(|given_up| given_up == id || Some(given_up) == as_number.as_ref())
        {
            self.cancelled.remove(place);
        }
        found.is_some()
    }

    fn handle_notification(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::ToolListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_) => {
                self.events.tools_changed.notify_one()
            }
            // The latter withdraws a question.
            ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_) => return true,
            _ => {}
        }
        false
    }

    /// Passes on what clients asked for; returns whether it was wanted.
    fn deliver(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::LoggingMessageNotification(said) => {
                let (level, logger, text) = log_message(said, MAX_REPORT_SOURCE_BYTES);
                self.events.active.log(&self.events.server, level, logger, &text)
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.events.updates.report(&updated.params.uri)
            }
            _ => false,
        }
    }

    /// Forwards a progress update; returns whether it belonged to a call and was within the rate limit.
    fn report(&mut self, progress: &ProgressNotificationParam, now: Instant) -> bool {
        let Some(pending) = self
            .pending
            .values_mut()
            .find(|pending| pending.token.as_ref() == Some(&progress.progress_token))
        else {
            return false;
        };
        if pending.last_report.is_some_and(|last| now.duration_since(last) < MIN_PROGRESS_INTERVAL) {
            return false;
        }
        pending.last_report = Some(now);
        if let Some(ProgressRoute(tell)) = &pending.route {
            let (text, fraction) = (progress_text(progress), progress_fraction(progress));
            tell(ProgressUpdate { fraction, ..text.as_str().into() });
        }
        true
    }
}

/// Whether the id of a response is that of a request. Some servers return a number as text.
pub(crate) fn answers_request(id: &RequestId, request: &RequestId) -> bool {
    id == request
        || matches!((id, request), (NumberOrString::String(text), NumberOrString::Number(number))
            if text.parse() == Ok(*number))
}

/// Progress as numbers, if they are exact counts.
fn progress_fraction(progress: &ProgressNotificationParam) -> Option<Fraction> {
    let counts = 0.0..=MAX_EXACT_COUNT;
    let share = Fraction { done: progress.progress, total: progress.total };
    (counts.contains(&share.done) && share.total.is_none_or(|total| counts.contains(&total))).then_some(share)
}

/// Progress as text: the server's message, sanitised and on one line, or else the numbers.
fn progress_text(progress: &ProgressNotificationParam) -> String {
    let done = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    let said = progress.message.as_deref().map(|message| {
        let message = truncate(message, MAX_REPORT_SOURCE_BYTES);
        let words: Vec<&str> = message.split_whitespace().collect();
        truncate(&toolgate_text::sanitize(&words.join(" ")), MAX_REPORT_BYTES)
    });
    said.filter(|said| !said.is_empty()).unwrap_or(done) + "\n"
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for GuardedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_sent(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = tokio::select! {
                biased;
                () = self.close_reason.closed() => None,
                message = self.inner.receive() => message,
            }?;
            let admitted = self.admit(&message);
            if admitted {
                return Some(message);
            }
            tokio::task::consume_budget().await;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use rmcp::model::ClientJsonRpcMessage;
    use serde_json::{Value, json};

    use super::*;

    /// More than the limit.
    const FLOOD: usize = 40_000;

    /// A server that sends the given messages.
    struct Scripted(VecDeque<ServerJsonRpcMessage>);

    impl Transport<RoleClient> for Scripted {
        type Error = Infallible;

        fn send(
            &mut self,
            _message: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            std::future::ready(Ok(()))
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            self.0.pop_front()
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    fn guarded() -> GuardedTransport<Scripted> {
        let events = ServerEvents {
            server: "s".to_owned(),
            tools_changed: Arc::new(Notify::new()),
            active: Arc::default(),
            updates: ResourceUpdates::default(),
        };
        GuardedTransport::new(Scripted(VecDeque::new()), events, CloseReason::new(0))
    }

    fn request(id: i64, method: &str, params: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap()
    }

    fn called(id: i64, told: &Arc<Mutex<Vec<String>>>) -> ClientJsonRpcMessage {
        let mut message = request(id, "tools/call", json!({"name": "x", "_meta": {"progressToken": id}}));
        let heard = Arc::clone(told);
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(ProgressRoute(Arc::new(move |said| {
                heard.lock().unwrap().push(said.text.to_owned())
            })));
        }
        message
    }

    /// The messages that pass.
    async fn through(guarded: &mut GuardedTransport<Scripted>, said: &[Value]) -> Vec<Value> {
        guarded.inner.0.extend(said.iter().map(|value| serde_json::from_value(value.clone()).unwrap()));
        let mut came = Vec::new();
        while let Some(message) = guarded.receive().await {
            came.push(serde_json::to_value(message).unwrap()["id"].clone());
        }
        came
    }

    fn answer(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
    }

    #[tokio::test]
    async fn answers_pass_once_and_only_where_something_was_asked() {
        let mut guarded = guarded();
        let _ = guarded.send(called(1, &Arc::default())).await;
        let _ = guarded.send(called(2, &Arc::default())).await;
        let said = [
            answer(json!(3)),
            answer(json!(1)),
            answer(json!(1)),
            answer(json!("2")),
            answer(json!("nobody")),
        ];
        assert_eq!(through(&mut guarded, &said).await, [json!(1), json!("2")]);
        assert!(guarded.pending.is_empty());
    }

    #[tokio::test]
    async fn what_was_asked_before_a_new_beginning_is_not_waited_for_but_the_probe() {
        let mut guarded = guarded();
        let _ = guarded.send(request(0, "server/discover", json!({}))).await;
        let _ = guarded.send(request(5, "tools/list", json!({}))).await;
        let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let _ = guarded.send(request(1, "initialize", begin)).await;
        let late = json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "no"}});
        let said = [answer(json!(5)), late.clone(), late, answer(json!(1))];
        assert_eq!(through(&mut guarded, &said).await, [json!(0), json!(1)]);
    }

    #[test]
    fn only_numbers_that_can_be_counted_to_are_passed_on() {
        for (done, total, passes) in [
            (0.0, None, true),
            (0.5, Some(1.0), true),
            (MAX_EXACT_COUNT, Some(MAX_EXACT_COUNT), true),
            (-1.0, None, false),
            (f64::MAX, None, false),
            (1.0, Some(f64::MAX), false),
            (1.0, Some(-1.0), false),
            (f64::NAN, None, false),
        ] {
            let mut progress = ProgressNotificationParam::new(ProgressToken(NumberOrString::Number(1)), done);
            progress.total = total;
            let share = passes.then_some(Fraction { done, total });
            assert_eq!(progress_fraction(&progress), share, "{done} of {total:?}");
        }
    }

    #[tokio::test]
    async fn progress_is_told_to_its_call_and_not_too_often() {
        let (mut guarded, told): (_, Arc<Mutex<Vec<String>>>) = (guarded(), Arc::default());
        let _ = guarded.send(called(7, &told)).await;
        let progress = |token: Value| {
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1, "total": 4, "message": "a\u{202e}b"}})
        };
        assert!(through(&mut guarded, &[progress(json!(8)), progress(json!(7))]).await.is_empty());
        assert_eq!(*told.lock().unwrap(), ["ab\n"]);
        let reported: ProgressNotificationParam =
            serde_json::from_value(progress(json!(7))["params"].clone()).unwrap();
        let later = Instant::now() + MIN_PROGRESS_INTERVAL;
        let mut times = 1;
        for (millis, passes) in
            [(0, true), (0, false), (9, false), (10, true), (19, false), (20, true), (500, true)]
        {
            assert_eq!(guarded.report(&reported, later + Duration::from_millis(millis)), passes, "{millis}");
            times += usize::from(passes);
            assert_eq!(told.lock().unwrap().len(), times, "{millis}");
        }
    }

    #[test]
    fn a_report_of_progress_is_one_short_line() {
        let report = |message: &str| {
            let params = json!({"progressToken": 1, "progress": 1, "total": 4, "message": message});
            progress_text(&serde_json::from_value(params).unwrap())
        };
        for (message, told) in [
            ("half of it", "half of it\n"),
            ("done\ntoolgate: ALLOWED", "done toolgate: ALLOWED\n"),
            ("10%\r20%\t\u{85}x\u{2028}y", "10% 20% x y\n"),
            ("\u{1b}]0;title\u{7}\u{1b}[2Jred\u{202e}", "red\n"),
            ("\u{1b}[2J \n", "1 of 4\n"),
        ] {
            assert_eq!(report(message), told, "{message:?}");
        }
        assert!(report(&"x\n".repeat(100_000)).len() < MAX_REPORT_BYTES + 10);
    }

    #[tokio::test]
    async fn nothing_else_passes_and_too_much_of_it_ends_the_connection() {
        let mut guarded = guarded();
        let changed = Arc::clone(&guarded.events.tools_changed);
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
        let list = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        assert!(through(&mut guarded, &[note.clone(), list]).await.is_empty());
        changed.notified().await;
        assert!(guarded.close_reason.reason().is_none());
        through(&mut guarded, &vec![note; FLOOD]).await;
        assert!(guarded.close_reason.reason().unwrap().contains("nobody asked for"));
        assert!(!guarded.inner.0.is_empty(), "it was cut off before all was read");
    }

    #[tokio::test]
    async fn endless_progress_ends_the_connection_whomever_it_is_for() {
        for token in [7, 8] {
            let mut guarded = guarded();
            let _ = guarded.send(called(7, &Arc::default())).await;
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
            through(&mut guarded, &vec![progress; FLOOD]).await;
            assert!(guarded.close_reason.reason().unwrap().contains("nobody asked for"));
            assert!(!guarded.inner.0.is_empty(), "it was cut off before all was read");
        }
    }
}
