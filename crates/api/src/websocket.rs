//! The WebSocket of a session: its events, and what a client sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts as _, Query, Request, State};
use axum::http::Response;
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Interval, MissedTickBehavior, interval};
use toolgate_conversation::{Delivery, EventFrame, Subscription, ToolApproval};
use toolgate_serve::{ApiStream, Problem, is_simple_json};
use toolgate_types::SessionId;

use crate::client::Client;
use crate::dto::{MessageBody, SessionDto};
use crate::event_stream::permit;
use crate::failure::{ApiResult, invalid, of_answer, of_conversation};
use crate::input::{call_id, session_id};
use crate::routes::sessions::outgoing;
use crate::state::ApiState;

/// Small buffers: most connections are idle, and a long event gets more memory while it is written.
const BUFFER_BYTES: usize = 4 * 1024;
/// The longest event that is written, and the longest message of a client.
const MAX_WRITE_BYTES: usize = 64 << 20;
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// The close codes (RFC 6455, and of our own from 4000 on).
const GOING_AWAY: u16 = 1001;
const TOO_BIG_OR_STRANGE: u16 = 1008;
const RESET: u16 = 4408;
const DELETED: u16 = 4404;
const UNAUTHENTICATED: u16 = 4401;

/// How many messages in a row may be wrong.
const MAX_WRONG_MESSAGES: u32 = 100;

#[derive(Deserialize)]
struct SocketQuery {
    session: String,
    after: Option<u64>,
}

/// `GET /ws?session=ID&after=SEQ`.
pub(crate) async fn open(
    State(state): State<Arc<ApiState>>,
    client: Client,
    request: Request,
) -> Response<Body> {
    upgrade(state, client, request).await.unwrap_or_else(Problem::into_response)
}

async fn upgrade(state: Arc<ApiState>, mut client: Client, request: Request) -> ApiResult<Response<Body>> {
    let (mut parts, _) = request.into_parts();
    let query = Query::<SocketQuery>::from_request_parts(&mut parts, &()).await;
    let Query(SocketQuery { session, after }) = query.map_err(|error| invalid(error.body_text()))?;
    let id = session_id(&session)?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|_| invalid("this is no WebSocket handshake"))?;
    // Before the upgrade, so that a session of another caller is answered like one that does not exist.
    let session = state.conversations.get(&client.principal, &id).await.map_err(of_conversation)?;
    let subscription = state.conversations.subscribe(&client.principal, &id, after.unwrap_or(0)).await;
    let subscription = subscription.map_err(of_conversation)?;
    let permit = permit(&client)?;
    let name = state.connections.open(client.principal.owner.clone());
    client.principal.participant.client = Some(name.name.clone());
    let upgrade = upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_WRITE_BYTES)
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES);
    let hello = json!({
        "session": SessionDto::from(session), "client": client.principal.participant.client,
        "seq": subscription.last_seq(), "running": subscription.is_running(),
        "heartbeatMs": u64::try_from(state.heartbeat.as_millis()).unwrap_or(u64::MAX),
    });
    let response = upgrade.on_upgrade(move |socket| async move {
        let (beat, heard_at) = (beat(state.heartbeat), Instant::now());
        let connection = Connection { beat, heard_at, socket, state, client, id, wrong: 0 };
        // The error of a socket is its end.
        let _ = connection.run(subscription, permit, &hello).await;
        drop(name);
    });
    Ok(response.into_response())
}

fn beat(every: Duration) -> Interval {
    let mut beat = interval(every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    beat
}

/// One WebSocket.
struct Connection {
    socket: WebSocket,
    state: Arc<ApiState>,
    client: Client,
    id: SessionId,
    beat: Interval,
    /// When the client last sent something, its answers to pings included.
    heard_at: Instant,
    /// Messages in a row that were wrong.
    wrong: u32,
}

/// The socket failed or was closed.
struct SocketEnded;

type SocketResult = Result<(), SocketEnded>;

impl Connection {
    async fn run(mut self, mut subscription: Subscription, permit: ApiStream, hello: &Value) -> SocketResult {
        self.send_own("chat:hello", hello).await?;
        loop {
            tokio::select! {
                delivery = subscription.next() => match delivery {
                    Delivery::Events(frames) => self.send_frames(&frames).await?,
                    Delivery::Reset { seq, .. } => {
                        self.send_own("chat:reset", &json!({"seq": seq})).await?;
                        return self.close(RESET, "events were missed").await;
                    }
                    Delivery::Deleted => {
                        self.send_own("chat:deleted", &json!({})).await?;
                        return self.close(DELETED, "the session was deleted").await;
                    }
                },
                message = self.socket.recv() => {
                    let Some(Ok(message)) = message else { return Err(SocketEnded) };
                    self.heard_at = Instant::now();
                    if let Err(lapsed) = self.client.check_credential(&self.state).await {
                        return self.end_unauthenticated(&lapsed).await;
                    }
                    self.receive(message).await?;
                }
                _ = self.beat.tick() => {
                    if let Err(lapsed) = self.client.check_credential(&self.state).await {
                        return self.end_unauthenticated(&lapsed).await;
                    }
                    // A peer that vanished without a word answers no ping. It resumes from its own number when it is back.
                    if self.heard_at.elapsed() > self.state.heartbeat * 3 / 2 {
                        return Err(SocketEnded);
                    }
                    self.send_own("chat:heartbeat", &json!({})).await?;
                    self.socket.send(Message::Ping(Bytes::new())).await.map_err(|_| SocketEnded)?;
                }
                () = permit.ending().cancelled() => return self.close(GOING_AWAY, "this gate is closing").await,
            }
        }
    }

    async fn send_frames(&mut self, frames: &[EventFrame]) -> SocketResult {
        for frame in frames {
            self.send(frame.json()).await?;
        }
        Ok(())
    }

    /// Sends an event for this connection alone, which has no number.
    async fn send_own(&mut self, event: &str, data: &Value) -> SocketResult {
        self.send(json!({"seq": null, "event": event, "data": data}).to_string()).await
    }

    async fn send(&mut self, text: String) -> SocketResult {
        self.socket.send(Message::Text(text.into())).await.map_err(|_| SocketEnded)
    }

    async fn end_unauthenticated(mut self, lapsed: &Problem) -> SocketResult {
        self.reject(lapsed).await?;
        self.close(UNAUTHENTICATED, "the token counts no more").await
    }

    async fn close(mut self, code: u16, reason: &'static str) -> SocketResult {
        let frame = CloseFrame { code, reason: reason.into() };
        self.socket.send(Message::Close(Some(frame))).await.map_err(|_| SocketEnded)
    }

    async fn receive(&mut self, message: Message) -> SocketResult {
        let text = match message {
            Message::Text(text) => text,
            // tungstenite answers these by itself.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Close(_) => return Err(SocketEnded),
            Message::Binary(_) => return self.reject(&invalid("messages are text")).await,
        };
        match self.handle(text.as_str()).await {
            Ok(()) => {
                self.wrong = 0;
                Ok(())
            }
            Err(problem) => self.reject(&problem).await,
        }
    }

    /// Answers a wrong message. A client that sends nothing else is disconnected.
    async fn reject(&mut self, problem: &Problem) -> SocketResult {
        self.wrong += 1;
        let mut data = problem.json();
        if let Value::Object(data) = &mut data {
            data.insert("message".to_owned(), json!(problem.detail));
            data.insert("retryable".to_owned(), json!(false));
        }
        self.send_own("chat:error", &data).await?;
        if self.wrong < MAX_WRONG_MESSAGES {
            return Ok(());
        }
        let frame = CloseFrame { code: TOO_BIG_OR_STRANGE, reason: "too many wrong messages".into() };
        let _ = self.socket.send(Message::Close(Some(frame))).await;
        Err(SocketEnded)
    }

    async fn handle(&mut self, text: &str) -> ApiResult<()> {
        let ClientMessage { event, data } = parse(text)?;
        let (conversations, who) = (&self.state.conversations, &self.client.principal);
        match event.as_str() {
            "chat:send" => {
                let body: MessageBody = fit(data)?;
                conversations.send(who, &self.id, outgoing(body)).await.map_err(of_conversation)?;
            }
            "chat:cancel" => {
                conversations.cancel(who, &self.id).await.map_err(of_conversation)?;
            }
            "chat:tool-approve" => {
                let (call, answer) = fit::<ToolApproval>(data)?.into_parts();
                conversations.answer(who, call_id(&call)?, answer).map_err(of_answer)?;
            }
            "chat:ping" => {
                let sent = self.send_own("chat:heartbeat", &json!({})).await;
                // A failed send is noticed by the next one.
                drop(sent);
            }
            other => {
                let known = "chat:send, chat:cancel, chat:tool-approve and chat:ping";
                return Err(invalid(format!("`{}` is no message: known are {known}", shortened(other))));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientMessage {
    event: String,
    #[serde(default)]
    data: Value,
}

fn parse(text: &str) -> ApiResult<ClientMessage> {
    // Millions of short values would take a hundred times the memory of their text.
    if !is_simple_json(text.as_bytes()) {
        return Err(invalid("the message holds too many values, or is nested too deeply"));
    }
    // Serde also reads a struct from an array.
    if !text.trim_start().starts_with('{') {
        return Err(invalid("a message is an object with `event` and `data`"));
    }
    serde_json::from_str(text).map_err(|error| invalid(format!("this is no message: {error}")))
}

fn fit<T: serde::de::DeserializeOwned>(data: Value) -> ApiResult<T> {
    let data = if data.is_null() { json!({}) } else { data };
    if !data.is_object() {
        return Err(invalid("`data` is not an object"));
    }
    serde_json::from_value(data).map_err(|error| invalid(format!("`data` does not fit: {error}")))
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
