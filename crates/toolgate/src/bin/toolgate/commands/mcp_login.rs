//! `toolgate mcp login` and `toolgate mcp logout`: logins at hosted servers, with the browser of a person.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_assembly::servers::{LoginState, ServerLogin};
use toolgate_assembly::settings::Settings;
use toolgate_connect::HealthState;
use toolgate_manifest::ServerConfig;
use toolgate_oauth::{LoginError, LoginPlan, PendingLogin, StoredToken, TokenStoreError, plan_login, revoke};
use toolgate_types::Trust;

use super::{named_servers, print, print_json, serving_runtime};
use crate::arguments::{GlobalOptions, McpLogin, McpLogout};
use crate::browser;
use crate::exit::{CliError, DENIED, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;
use crate::terminal::{escape_line, warn};

/// Maximum length of a pasted address.
const MAX_PASTED_BYTES: u64 = 64 << 10;

pub(crate) fn login(common: &GlobalOptions, wanted: &McpLogin) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let mut login = declared_login(&settings, &wanted.server, wanted.caller.as_deref())?;
    login.options.more_scopes.clone_from(&wanted.scopes);
    let runtime = serving_runtime()?;
    let token = runtime.block_on(async {
        let plan = plan_login(login.options.clone()).await.map_err(failed)?;
        show_plan(wanted, &plan);
        let pending = plan.begin().await.map_err(failed)?;
        if wanted.paste { paste(wanted, pending).await } else { wait(wanted, pending).await }
    })?;
    let kept = login.store.lock(&login.binding).and_then(|_lock| login.store.save(&login.binding, &token));
    kept.map_err(not_kept)?;
    report(common, wanted, &LoginState::from(&token))
}

pub(crate) fn logout(common: &GlobalOptions, wanted: &McpLogout) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let login = declared_login(&settings, &wanted.server, wanted.caller.as_deref())?;
    let runtime = serving_runtime()?;
    // Not while another process refreshes it.
    let _lock = login.store.lock(&login.binding).map_err(not_kept)?;
    let token = login.store.load(&login.binding);
    let removed = login.store.remove(&login.binding).map_err(not_kept)?;
    // Removed first: a token that cannot be withdrawn is not used any more all the same.
    let withdrawn = match &token {
        Ok(Some(token)) => runtime.block_on(revoke(token, &login.binding.url)),
        _ => Ok(false),
    };
    let is_withdrawn = matches!(withdrawn, Ok(true));
    if common.json {
        print_json(&json!({"server": wanted.server, "removed": removed, "withdrawn": is_withdrawn}))?;
    } else {
        let text = match (removed, is_withdrawn) {
            (false, _) => format!("there was no login at {}", wanted.server),
            (true, true) => format!("logged out of {}; its token was withdrawn", wanted.server),
            (true, false) => format!("logged out of {}", wanted.server),
        };
        print(&format!("{text}\n"))?;
    }
    match withdrawn {
        Ok(true) => {}
        Ok(false) if removed => {
            warn(
                "its authorization server withdraws no tokens: what it gave out stays good until it expires",
            );
        }
        Ok(false) => {}
        Err(error) => {
            warn(&format!("the token was not withdrawn there: {}", escape_line(&error.to_string())));
            return Ok(TOOL_ERROR);
        }
    }
    Ok(SUCCESS)
}

/// What the configuration says about logins at a server.
fn declared_login(settings: &Settings, server: &str, caller: Option<&str>) -> Result<ServerLogin, CliError> {
    named_servers(settings, Some(server))?;
    let declared = settings.loaded.config.mcp_servers.iter().find(|known| known.name.value == server);
    let login = declared.map(|declared| ServerLogin::of(settings, declared)).transpose()?.flatten();
    let mut login = login.ok_or_else(|| {
        CliError::usage(format!("there is no login at `{server}`")).help(
            "only at a server with `url`, without an `Authorization` header and without `oauth.token_url`",
        )
    })?;
    match (caller, login.per_caller) {
        (None, _) => {}
        (Some(caller), true) => login.binding = login.binding.of_caller(caller),
        (Some(_), false) => {
            return Err(CliError::usage(format!("callers have no logins of their own at `{server}`"))
                .help("write `oauth: {per_caller: true}`, or leave --caller out"));
        }
    }
    Ok(login)
}

/// Says what is asked for, before it is.
fn show_plan(wanted: &McpLogin, plan: &LoginPlan) {
    let scopes = match plan.scopes() {
        [] => "those that the authorization server chooses".to_owned(),
        scopes => scopes.join(" "),
    };
    let caller = wanted.caller.as_ref().map(|caller| format!(" for the caller `{caller}`"));
    for line in [
        format!("login at the server `{}` ({}){}", wanted.server, plan.host(), caller.unwrap_or_default()),
        format!("authorization server: {}, in the browser at {}", plan.issuer(), plan.login_host()),
        format!("token for: {}", plan.resource()),
        format!("scopes: {scopes}"),
    ] {
        eprint_line(&line);
    }
}

/// What a person needs in order to go on is shown in spite of `--quiet`.
fn eprint_line(text: &str) {
    use std::io::Write as _;
    // A closed standard error cannot be reported.
    let _ = writeln!(io::stderr(), "{}", escape_line(text));
}

async fn wait(wanted: &McpLogin, pending: PendingLogin) -> Result<StoredToken, CliError> {
    let opened = if wanted.no_browser { None } else { Some(browser::open(pending.url())) };
    match opened {
        Some(Ok(())) => eprint_line("a browser was opened; if it shows nothing, open this address yourself:"),
        Some(Err(error)) => {
            eprint_line(&format!("no browser could be started ({error}); open this address yourself:"));
        }
        None => eprint_line("open this address in a browser of this machine:"),
    }
    eprint_line(pending.url());
    pending.wait(Duration::from_secs(wanted.timeout)).await.map_err(failed)
}

async fn paste(wanted: &McpLogin, pending: PendingLogin) -> Result<StoredToken, CliError> {
    eprint_line("open this address in any browser:");
    eprint_line(pending.url());
    eprint_line("if the browser shows an error after the login, paste the address of that page here:");
    let (sender, line) = tokio::sync::oneshot::channel();
    // A thread that the end of the runtime does not wait for: the browser may bring the answer itself.
    drop(std::thread::spawn(move || {
        use std::io::{BufRead as _, Read as _};
        let mut line = String::new();
        if io::stdin().lock().take(MAX_PASTED_BYTES).read_line(&mut line).is_ok_and(|read| read > 0) {
            let _ = sender.send(line);
        }
    }));
    let pasted = async {
        match line.await {
            Ok(line) => line,
            // Standard input is closed: only the browser can bring the answer.
            Err(_) => std::future::pending().await,
        }
    };
    pending.wait_or_paste(Duration::from_secs(wanted.timeout), pasted).await.map_err(failed)
}

fn report(common: &GlobalOptions, wanted: &McpLogin, state: &LoginState) -> Result<u8, CliError> {
    if common.json {
        let mut shown = login_json(state);
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("server".to_owned(), wanted.server.clone().into());
            shown.insert("caller".to_owned(), wanted.caller.clone().into());
        }
        print_json(&shown)?;
    } else {
        print(&format!("logged in at {}: {}\n", wanted.server, escape_line(&login_text(state))))?;
    }
    Ok(SUCCESS)
}

/// The state of a server's login on one line; `None` without one.
pub(super) fn login_line(settings: &Settings, server: &ServerConfig) -> Option<String> {
    match ServerLogin::of(settings, server).ok()??.state() {
        Ok(state) => Some(login_text(&state?)),
        Err(error) => Some(error.to_string()),
    }
}

/// The same behind the number of its tools.
pub(super) fn login_note(settings: &Settings, server: &str) -> String {
    let mut declared = settings.loaded.config.mcp_servers.iter().filter(|known| known.name.value == server);
    let login = declared.next().and_then(|known| login_line(settings, known));
    login.map(|login| format!(", login at {login}")).unwrap_or_default()
}

/// The same for programs.
pub(super) fn login_value(settings: &Settings, server: &ServerConfig) -> Value {
    let login = ServerLogin::of(settings, server).ok().flatten();
    let state = login.and_then(|login| login.state().ok().flatten());
    state.map_or(Value::Null, |state| login_json(&state))
}

/// What is said about a server in this state.
pub(super) fn is_waiting_for_login(state: &str) -> bool {
    state == HealthState::NeedsLogin.as_str()
}

fn login_json(state: &LoginState) -> Value {
    json!({
        "authorizationServer": state.issuer, "scopes": state.scopes,
        "expiresAt": state.expires_at.map(|at| at.to_string()), "refreshable": state.is_refreshable,
        "needsLogin": state.needs_login,
    })
}

fn login_text(state: &LoginState) -> String {
    let scopes = match state.scopes.as_slice() {
        [] => String::new(),
        scopes => format!(", scopes {}", scopes.join(" ")),
    };
    let until = match (state.expires_at, state.is_refreshable) {
        _ if state.needs_login => ", expired or withdrawn".to_owned(),
        (Some(at), true) => format!(", until {at}, then refreshed"),
        (Some(at), false) => format!(", until {at}"),
        (None, _) => String::new(),
    };
    format!("{}{scopes}{until}", state.issuer)
}

fn failed(error: LoginError) -> CliError {
    let code = match error {
        LoginError::Fetch { .. }
        | LoginError::Machine { .. }
        | LoginError::Timeout { .. }
        | LoginError::Token { .. }
        | LoginError::Registration { .. } => TOOL_ERROR,
        _ => DENIED,
    };
    let failed = CliError::error(escape_line(&error.to_string())).help(error.help());
    CliError { code, ..failed }
}

fn not_kept(error: TokenStoreError) -> CliError {
    CliError::error(error.to_string()).help("see that the state directory can be written, and log in again")
}
