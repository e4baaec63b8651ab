//! The calls of all callers, for operators.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use tokio::time::{MissedTickBehavior, interval};
use toolgate_serve::CallerName;

use crate::client::Client;
use crate::dto::to_json;
use crate::dto::traffic::{CallerTrafficDto, TrafficDto, WaitingQuestionDto, time};
use crate::event_stream::{block, permit, respond};
use crate::failure::{ApiResult, not_permitted};
use crate::state::ApiState;

/// How often a live view is sent.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn get(State(state): State<Arc<ApiState>>, client: Client) -> ApiResult<Json<TrafficDto>> {
    operators_only(&client)?;
    Ok(Json(traffic(&state, &client)))
}

/// The same once a second, as server-sent events.
pub(crate) async fn stream(State(state): State<Arc<ApiState>>, client: Client) -> ApiResult<Response<Body>> {
    operators_only(&client)?;
    let permit = permit(&client)?;
    Ok(respond(move |events| async move {
        let mut ticks = interval(INTERVAL);
        // A slow client gets fewer views, not late ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    client.check_credential(&state).await.ok()?;
                    let data = to_json(&traffic(&state, &client)).to_string();
                    events.send(block(None, "traffic", &data)).await?;
                }
                () = permit.ending().cancelled() => return Some(()),
            }
        }
    }))
}

fn operators_only(client: &Client) -> ApiResult<()> {
    if client.sees_everyone() {
        return Ok(());
    }
    Err(not_permitted("what other callers do is shown to operators", "the permission `audit:read` shows it"))
}

fn traffic(state: &ApiState, client: &Client) -> TrafficDto {
    let seen = state.service.traffic();
    let mut callers: HashMap<CallerName, CallerTrafficDto> = HashMap::new();
    let mut order = Vec::new();
    for connected in client.http.connected_clients() {
        let entry = callers.entry(connected.caller.clone()).or_insert_with(|| {
            order.push(connected.caller.clone());
            CallerTrafficDto::new(&connected.caller, connected.last_at)
        });
        entry.connected |= connected.is_connected;
        entry.streams += connected.streams;
        entry.requests += connected.requests;
    }
    for called in seen.callers {
        let entry = callers.entry(called.caller.clone()).or_insert_with(|| {
            order.push(called.caller.clone());
            CallerTrafficDto::new(&called.caller, called.last_at)
        });
        // Times of RFC 3339 in UTC sort as text.
        entry.last_at = std::cmp::max(std::mem::take(&mut entry.last_at), time(called.last_at));
        entry.totals = called.totals.into();
    }
    let mut callers: Vec<CallerTrafficDto> =
        order.iter().filter_map(|caller| callers.remove(caller)).collect();
    callers.sort_by_key(|caller| std::cmp::Reverse((caller.connected, caller.totals.last_minute)));
    let owner = &client.principal.owner;
    let waiting = state.conversations.all_questions();
    TrafficDto {
        at: time(SystemTime::now()),
        uptime_seconds: state.started.elapsed().as_secs(),
        calls_per_second: seen.calls_per_second,
        refused_per_second: seen.refused_per_second,
        failed_per_second: seen.failed_per_second,
        calls_in_flight: state.service.counters().in_flight,
        connections: client.http.connections(),
        sessions_running: state.conversations.running_turns(),
        callers,
        reasons: seen.reasons.into_iter().map(Into::into).collect(),
        tools: seen.tools.into_iter().map(Into::into).collect(),
        waiting: waiting
            .iter()
            .map(|question| WaitingQuestionDto::new(question, question.owner == *owner))
            .collect(),
    }
}
