//! A server over HTTP: its URL and the gate's credentials.

use super::{LoginConfig, OauthConfig, ServerRemote};
use crate::decode::{ConfigField, KeySpec, Section, flag, key, list, located_text, named};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::url::{url, variable_url};
use crate::variables::{VariableText, variable_text};

const OAUTH: &[KeySpec] = &[
    key("token_url", "token_url: https://login.example.com/token"),
    key("client_id", "client_id: toolgate"),
    key("client_secret", "client_secret: \"${TRACKER_SECRET}\""),
    key("scopes", "scopes: [issues]"),
    key("resource", "resource: https://tracker.example.com/mcp"),
    key("issuer", "issuer: https://login.example.com"),
    key("per_caller", "per_caller: true"),
];

/// The keys that mean something for the gate's own credentials alone, and for logins alone.
const CREDENTIALS: &[&str] = &["resource"];
const LOGIN: &[&str] = &["issuer", "per_caller"];

/// What `oauth` declares.
enum DeclaredOauth {
    Credentials(OauthConfig),
    Login(LoginConfig),
}

/// Whether a header, in lower case, belongs to the protocol or to the connection, so that it cannot be
/// configured.
#[must_use]
pub fn is_reserved_header(name: &str) -> bool {
    RESERVED_HEADERS.contains(&name)
}

const RESERVED_HEADERS: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "accept",
    "te",
    "upgrade",
    "last-event-id",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
];

pub(super) fn remote(
    field: &ConfigField,
    section: &Section,
    report: &mut ProblemReport<'_>,
) -> Option<ServerRemote> {
    let url = variable_url(field, report);
    let headers = section.get("headers", report, headers).unwrap_or_default();
    let declared = section.get("oauth", report, oauth);
    let authorization = headers.iter().find(|(name, _)| name.value.eq_ignore_ascii_case("authorization"));
    if let Some((name, _)) = authorization.filter(|_| section.field("oauth").is_some()) {
        let help = "keep one of them".to_owned();
        report.located(name, "`Authorization` says again what `oauth` says", Some(help));
    }
    let (oauth, login) = match declared {
        Some(DeclaredOauth::Credentials(credentials)) => (Some(credentials), None),
        Some(DeclaredOauth::Login(login)) => (None, Some(login)),
        None => (None, authorization.is_none().then(LoginConfig::default)),
    };
    Some(ServerRemote { url: url?, headers, oauth, login })
}

pub(crate) type Headers = Vec<(Located<String>, Located<VariableText>)>;

pub(crate) fn headers(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Headers> {
    let entries = named(field, "header", report)?;
    let mut headers: Headers = Vec::new();
    for (name, value) in entries {
        check_header(&name, &headers, report);
        let Some(value) = header_value(&value, report) else { continue };
        headers.push((name, value));
    }
    Some(headers)
}

fn check_header(name: &Located<String>, earlier: &Headers, report: &mut ProblemReport<'_>) {
    let lower = name.value.to_ascii_lowercase();
    if !is_header(&name.value) {
        let help = "write a name such as `Authorization`".to_owned();
        let message = format!("`{}` is not the name of a header", shown(&name.value));
        report.located(name, message, Some(help));
    } else if is_reserved_header(&lower) {
        let help = "remove it: the gate sets what the protocol needs".to_owned();
        report.located(name, format!("`{}` belongs to the protocol", shown(&name.value)), Some(help));
    } else if earlier.iter().any(|(other, _)| other.value.eq_ignore_ascii_case(&name.value)) {
        let message = format!("the header `{}` appears twice", shown(&name.value));
        report.located(name, message, Some("keep one of them".to_owned()));
    }
}

/// A token of RFC 9110.
fn is_header(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// The value is not quoted: it may be a secret.
fn header_value(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<VariableText>> {
    let text = located_text(field, report)?;
    if text.value.contains(|character: char| character.is_control()) || !text.value.is_ascii() {
        let help = "write visible ASCII on one line".to_owned();
        report.secret(&field.node, format!("{} cannot be sent", field.name), Some(help));
        return None;
    }
    variable_text(field, report)
}

fn oauth(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<DeclaredOauth> {
    let section = Section::read(field, OAUTH, report)?;
    match section.field("token_url").is_some() {
        true => credentials(field, &section, report).map(DeclaredOauth::Credentials),
        false => Some(DeclaredOauth::Login(login(&section, report))),
    }
}

fn credentials(
    field: &ConfigField,
    section: &Section,
    report: &mut ProblemReport<'_>,
) -> Option<OauthConfig> {
    for name in ["client_id", "client_secret"] {
        if section.lacks(name) {
            let example = OAUTH.iter().find(|key| key.name == name).map_or("", |key| key.example);
            let help = Some(format!("for example `{example}`"));
            report.node(&field.node, format!("`oauth` without `{name}`"), help);
        }
    }
    for field in LOGIN.iter().filter_map(|name| section.field(name)) {
        let message = format!("{} means nothing beside `token_url`", field.name);
        let help = "remove it, or remove `token_url` for logins of people".to_owned();
        report.node(&field.node, message, Some(help));
    }
    let token_url = section.get("token_url", report, url);
    let client_id = section.get("client_id", report, variable_text);
    let client_secret = section.get("client_secret", report, variable_text);
    let scopes = section.get("scopes", report, |field, report| list(field, "scope", report, scope));
    let resource = section.get("resource", report, url);
    Some(OauthConfig {
        scopes: scopes.unwrap_or_default(),
        resource,
        token_url: token_url?,
        client_id: client_id?,
        client_secret: client_secret?,
    })
}

fn login(section: &Section, report: &mut ProblemReport<'_>) -> LoginConfig {
    for field in CREDENTIALS.iter().filter_map(|name| section.field(name)) {
        let message = format!("{} means nothing without `token_url`", field.name);
        let help = "remove it: the server says it itself".to_owned();
        report.node(&field.node, message, Some(help));
    }
    if let Some(field) = section.field("client_secret").filter(|_| section.lacks("client_id")) {
        let help = "write the `client_id` that it belongs to".to_owned();
        report.node(&field.node, "`client_secret` without `client_id`", Some(help));
    }
    let scopes = section.get("scopes", report, |field, report| list(field, "scope", report, scope));
    LoginConfig {
        client_id: section.get("client_id", report, variable_text),
        client_secret: section.get("client_secret", report, variable_text),
        scopes: scopes.unwrap_or_default(),
        issuer: section.get("issuer", report, url),
        per_caller: section.get("per_caller", report, flag).unwrap_or(false),
    }
}

fn scope(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<String> {
    let scope = located_text(field, report)?;
    let allowed = |byte: u8| (0x21..=0x7e).contains(&byte) && !matches!(byte, b'"' | b'\\');
    if scope.value.is_empty() || !scope.value.bytes().all(allowed) {
        let help = "write each scope by itself, such as `[issues, wiki]`".to_owned();
        report.located(&scope, format!("`{}` is not a scope", shown(&scope.value)), Some(help));
        return None;
    }
    Some(scope.value)
}
