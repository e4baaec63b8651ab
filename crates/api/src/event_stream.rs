//! Events as server-sent events, for programs that do not speak WebSocket.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response};
use futures_core::Stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use toolgate_conversation::{ActivityKind, Delivery, SessionActivity};
use toolgate_serve::ApiStream;

use crate::client::Client;
use crate::dto::{ApprovalDto, SessionDto, to_json};
use crate::failure::{ApiResult, of_conversation, unavailable};
use crate::input::{QueryOf, session_id};
use crate::state::ApiState;

/// Where a client left off.
#[derive(Deserialize)]
pub(crate) struct AfterQuery {
    after: Option<u64>,
}

/// The header of a client that reconnects by itself.
const LAST_EVENT_ID: &str = "last-event-id";

/// `GET sessions/{id}/events`: the events of one session.
pub(crate) async fn session_events(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
    headers: HeaderMap,
    QueryOf(query): QueryOf<AfterQuery>,
) -> ApiResult<Response<Body>> {
    let id = session_id(&id)?;
    let last: Option<u64> = headers.get(LAST_EVENT_ID).and_then(|last| last.to_str().ok()?.parse().ok());
    // A browser's `EventSource` repeats the address that it was opened with; whichever is greater was seen later.
    let after = last.max(query.after).unwrap_or(0);
    let subscription = state.conversations.subscribe(&client.principal, &id, after).await;
    let mut subscription = subscription.map_err(of_conversation)?;
    let permit = permit(&client)?;
    let heartbeat = state.heartbeat;
    Ok(respond(move |events| async move {
        let mut beat = interval(heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        loop {
            tokio::select! {
                delivery = subscription.next() => match delivery {
                    Delivery::Events(frames) => {
                        let text: String = frames.iter().map(|frame| block(Some(frame.seq), &frame.event, &frame.data)).collect();
                        events.send(text).await?;
                    }
                    Delivery::Reset { seq, resume } => {
                        // An `EventSource` reconnects with the last id: without this one it would be reset again, without end.
                        let data = json!({"seq": seq}).to_string();
                        events.send(block(Some(resume), "chat:reset", &data)).await?;
                        return Some(());
                    }
                    Delivery::Deleted => {
                        events.send(block(None, "chat:deleted", "{}")).await?;
                        return Some(());
                    }
                },
                _ = beat.tick() => {
                    client.check_credential(&state).await.ok()?;
                    events.send(block(None, "chat:heartbeat", "{}")).await?;
                }
                () = permit.ending().cancelled() => return Some(()),
            }
        }
    }))
}

/// `GET events`: what happens in all sessions of this caller.
pub(crate) async fn activity(
    State(state): State<Arc<ApiState>>,
    client: Client,
) -> ApiResult<Response<Body>> {
    let permit = permit(&client)?;
    let mut activity = state.conversations.activity();
    state.conversations.note_reader(&client.principal);
    Ok(respond(move |events| async move {
        let mut beat = interval(state.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        for question in state.conversations.questions(&client.principal) {
            let data = to_json(&ApprovalDto::from(&*question));
            events.send(block(None, "approval:opened", &data.to_string())).await?;
        }
        loop {
            tokio::select! {
                happened = activity.recv() => match happened {
                    Ok(happened) if happened.owner == client.principal.owner => {
                        if let Some((event, data)) = event_of(&state, &client, happened).await {
                            events.send(block(None, event, &data.to_string())).await?;
                        }
                    }
                    Ok(_) => {}
                    // Too slow: what is shown has to be read again.
                    Err(RecvError::Lagged(_)) => events.send(block(None, "activity:reset", "{}")).await?,
                    Err(RecvError::Closed) => return Some(()),
                },
                _ = beat.tick() => {
                    client.check_credential(&state).await.ok()?;
                    state.conversations.note_reader(&client.principal);
                    events.send(block(None, "chat:heartbeat", "{}")).await?;
                }
                () = permit.ending().cancelled() => return Some(()),
            }
        }
    }))
}

async fn event_of(
    state: &ApiState,
    client: &Client,
    happened: SessionActivity,
) -> Option<(&'static str, Value)> {
    Some(match happened.kind {
        ActivityKind::QuestionOpened(question) => {
            ("approval:opened", to_json(&ApprovalDto::from(&*question)))
        }
        ActivityKind::QuestionClosed(call) => ("approval:closed", json!({"id": call})),
        ActivityKind::SessionDeleted(id) => ("session:deleted", json!({"id": id})),
        ActivityKind::SessionChanged(id) => {
            // Deleted since.
            let session = state.conversations.get(&client.principal, &id).await.ok()?;
            ("session:changed", to_json(&SessionDto::from(session)))
        }
    })
}

pub(crate) fn permit(client: &Client) -> ApiResult<ApiStream> {
    client.http.open_stream().ok_or_else(|| unavailable("too many streams"))
}

pub(crate) fn block(seq: Option<u64>, event: &str, data: &str) -> String {
    let id = seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    // JSON has no line breaks of its own.
    format!("{id}event: {event}\ndata: {data}\n\n")
}

/// Passes events to a response. Its queue holds one: a slow client delays only its own events.
pub(crate) struct EventSender(mpsc::Sender<Bytes>);

impl EventSender {
    /// `None` once the client is gone.
    pub(crate) async fn send(&self, text: String) -> Option<()> {
        self.0.send(text.into()).await.ok()
    }
}

pub(crate) fn respond<Work>(work: impl FnOnce(EventSender) -> Work) -> Response<Body>
where
    Work: Future<Output = Option<()>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    let gone = sender.clone();
    let work = work(EventSender(sender));
    tokio::spawn(async move {
        tokio::select! {
            _ = work => {}
            () = gone.closed() => {}
        }
    });
    let mut response = Response::new(Body::from_stream(EventBody(receiver)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body of a response.
struct EventBody(mpsc::Receiver<Bytes>);

impl Stream for EventBody {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|next| next.map(Ok))
    }
}
