//! The record.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use toolgate_assembly::state_dir::details_key_path;
use toolgate_audit::{AuditError, DetailsKey, Record, RecordFilter, VerifyOptions};
use toolgate_types::{Decision, ErrorCode};

use crate::client::Client;
use crate::dto::audited::VerifyDto;
use crate::dto::{AuditedCall, ChangeDto, Page, to_json};
use crate::failure::{ApiResult, internal, invalid, not_found, not_permitted};
use crate::input::{QueryOf, call_id, page_size};
use crate::state::ApiState;

#[derive(Deserialize)]
pub(crate) struct AuditQuery {
    tool: Option<String>,
    decision: Option<String>,
    caller: Option<String>,
    session: Option<String>,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<u64>,
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    client: Client,
    QueryOf(query): QueryOf<AuditQuery>,
) -> ApiResult<Json<Page<Value>>> {
    let (cursor, limit) = (query.cursor, page_size(query.limit));
    let filter = filter(query, &client)?;
    let records =
        read(&state, filter, move |record| cursor.is_none_or(|cursor| record.seq < cursor), limit + 1);
    let mut records = records.await?;
    let next_cursor = (records.len() > limit).then(|| records.get(limit - 1)).flatten();
    let next_cursor = next_cursor.map(|record| record.seq.to_string());
    records.truncate(limit);
    Ok(Json(Page { items: records.iter().map(to_json).collect(), next_cursor }))
}

fn filter(query: AuditQuery, client: &Client) -> ApiResult<RecordFilter> {
    let time = |text: Option<String>| match text {
        None => Ok(None),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(at) => Ok(Some(at)),
            Err(_) => Err(invalid(format!("`{text}` is not a time: write 2026-11-15T08:00:00Z"))),
        },
    };
    let decision = match query.decision.as_deref() {
        None => None,
        Some(text) => Some(decision(text)?),
    };
    // A caller with a token sees its own records, unless a permission says otherwise.
    let own = (!client.sees_everyone()).then(|| client.http.caller.subject.clone());
    if let (Some(own), Some(asked)) = (&own, &query.caller)
        && own != asked
    {
        let help = "the permission `audit:read` shows those of others";
        return Err(not_permitted("only your own records are shown to you", help));
    }
    Ok(RecordFilter {
        tool: query.tool,
        caller: own.or(query.caller),
        decision,
        session: query.session,
        call: None,
        since: time(query.since)?,
        until: time(query.until)?,
        limit: None,
    })
}

fn decision(text: &str) -> ApiResult<Decision> {
    let all = [Decision::Allowed, Decision::Denied, Decision::Error];
    let found = all.into_iter().find(|decision| decision.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| invalid(format!("`{text}` is not a decision: write ALLOWED, DENIED or ERROR")))
}

pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<Json<AuditedCall>> {
    let call = call_id(&id)?;
    let own = (!client.sees_everyone()).then(|| client.http.caller.subject.clone());
    let filter = RecordFilter { call: Some(call), caller: own, ..RecordFilter::default() };
    let record = read(&state, filter, |_| true, 1).await?.pop();
    let record = record.ok_or_else(|| not_found("there is no record of this call"))?;
    let journal = Arc::clone(state.service.front().gate().journal());
    let change = tokio::task::spawn_blocking(move || journal.change_set(call)).await.ok().flatten();
    Ok(Json(AuditedCall { record: to_json(&record), change: change.as_ref().map(ChangeDto::from) }))
}

/// The newest matching records.
async fn read(
    state: &ApiState,
    filter: RecordFilter,
    wanted: impl Fn(&Record) -> bool + Send + 'static,
    most: usize,
) -> ApiResult<Vec<Record>> {
    let settings = Arc::clone(&state.settings);
    let reading = tokio::task::spawn_blocking(move || {
        let records = toolgate_audit::query_records(&settings.audit_dir, filter)?;
        let wanted = records.filter(|record| record.as_ref().map_or(true, &wanted));
        let mut records = wanted.take(most).collect::<Result<Vec<Record>, AuditError>>()?;
        // A key that cannot be used keeps what it would open closed, and nothing else.
        let key = DetailsKey::read(&details_key_path(&settings)).ok().flatten();
        records.iter_mut().for_each(|record| {
            record.reveal(key.as_ref());
        });
        Ok::<_, AuditError>(records)
    });
    match reading.await {
        Ok(Ok(records)) => Ok(records),
        // Nothing was recorded yet.
        Ok(Err(error)) if error.code() == ErrorCode::NotFound => Ok(Vec::new()),
        _ => Err(internal("reading the record")),
    }
}

pub(crate) async fn verify(State(state): State<Arc<ApiState>>, client: Client) -> ApiResult<Json<VerifyDto>> {
    if !client.sees_everyone() {
        let help = "the permission `audit:read` allows it";
        return Err(not_permitted("the record of all callers is verified by its operator", help));
    }
    let settings = Arc::clone(&state.settings);
    let report = tokio::task::spawn_blocking(move || {
        let options = VerifyOptions {
            checkpoints: settings.checkpoints.clone(),
            key: Some(toolgate_assembly::gate_builder::log_options(&settings).key_path()),
            ..VerifyOptions::default()
        };
        toolgate_audit::verify(&settings.audit_dir, &options)
    });
    let report = report.await.ok().and_then(Result::ok).ok_or_else(|| internal("verifying the record"))?;
    Ok(Json((&report).into()))
}
