//! `toolgate grants`: lists and revokes lasting answers to approval questions.

use jiff::Timestamp;
use serde_json::{Value, json};
use toolgate_assembly::gate_builder::open_grants;
use toolgate_gate::{GrantStore, GrantStoreError, LastingGrant};
use toolgate_types::Trust;
use toolgate_types::time::rfc3339_millis;

use super::id_prefix::find_by_prefix;
use super::{print, print_json};
use crate::arguments::{GlobalOptions, GrantsCommand};
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;
use crate::terminal::escape_line;

pub(crate) fn run(common: &GlobalOptions, command: Option<GrantsCommand>) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let grants = open_grants(&settings)?;
    match command.unwrap_or(GrantsCommand::List) {
        GrantsCommand::List => list(common, &grants),
        GrantsCommand::Revoke { all: true, .. } => revoke_all(common, &grants),
        GrantsCommand::Revoke { id, .. } => revoke(common, &grants, id.as_deref().unwrap_or_default()),
    }
}

fn list(common: &GlobalOptions, grants: &GrantStore) -> Result<u8, CliError> {
    let grants = grants.list().map_err(unusable)?;
    match common.json {
        true => print_json(&grants.iter().map(grant_json).collect()),
        false if grants.is_empty() => print("there are no lasting grants\n"),
        false => print(&grants.iter().map(row).collect::<String>()),
    }
    .map(|_| SUCCESS)
}

fn revoke(common: &GlobalOptions, grants: &GrantStore, id: &str) -> Result<u8, CliError> {
    let (id, revoked) = revoke_by_prefix(grants, id)?;
    let shown = escape_line(&id);
    match (common.json, &revoked) {
        (true, _) => print_json(&json!({"id": id, "revoked": revoked.is_some()}))?,
        (false, Some(grant)) => print(&format!("{shown} is revoked: {}\n", escape_line(&grant.covers)))?,
        (false, None) => print(&format!("there is no grant {shown}\n"))?,
    };
    Ok(if revoked.is_some() { SUCCESS } else { TOOL_ERROR })
}

/// Revokes the only grant whose id begins like this; returns its id.
pub(crate) fn revoke_by_prefix(
    grants: &GrantStore,
    id: &str,
) -> Result<(String, Option<LastingGrant>), CliError> {
    let known = grants.list().map_err(unusable)?.into_iter().map(|grant| grant.id);
    let id = find_by_prefix("grant", id, known)?.unwrap_or_else(|| id.to_owned());
    let revoked = grants.revoke(&id).map_err(unusable)?;
    Ok((id, revoked))
}

fn revoke_all(common: &GlobalOptions, grants: &GrantStore) -> Result<u8, CliError> {
    grants.revoke_all().map_err(unusable)?;
    match common.json {
        true => print_json(&json!({"revoked": true})),
        false => print("all lasting grants are revoked\n"),
    }
    .map(|_| SUCCESS)
}

pub(crate) fn unusable(error: GrantStoreError) -> CliError {
    CliError::error(error.to_string()).help(error.help())
}

fn time(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds).map(rfc3339_millis).unwrap_or_default()
}

/// The caller, as far as it is not the person at the keyboard.
fn holder(grant: &LastingGrant) -> String {
    let agent = grant.agent.as_ref().map(|agent| format!(", agent {agent}")).unwrap_or_default();
    let token = if grant.by_token { ", with a token" } else { "" };
    format!("{}{agent}{token}", grant.subject)
}

pub(crate) fn row(grant: &LastingGrant) -> String {
    let day = |moment: i64| time(moment).chars().take(10).collect::<String>();
    let end =
        grant.expires_at.map_or_else(|| "until revoked".to_owned(), |end| format!("until {}", day(end)));
    let supervised = if grant.supervised { ", also under trust supervised" } else { "" };
    format!(
        "{}  {}\n    for {} in {}, given {}, {end}{supervised}\n",
        grant.id,
        escape_line(&grant.covers),
        escape_line(&holder(grant)),
        escape_line(&grant.workspace),
        day(grant.given_at),
    )
}

fn grant_json(grant: &LastingGrant) -> Value {
    json!({
        "id": grant.id, "tool": grant.tool, "covers": grant.covers, "subject": grant.subject, "agent": grant.agent,
        "byToken": grant.by_token, "workspace": grant.workspace, "supervised": grant.supervised,
        "givenAt": time(grant.given_at), "expiresAt": grant.expires_at.map(time), "givenBy": grant.given_by,
    })
}
