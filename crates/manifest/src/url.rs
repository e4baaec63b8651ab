//! URLs in a configuration file.

use crate::decode::{ConfigField, located_text};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::variables::{VariableText, variable_text};

/// Names of the loopback interface.
const LOOPBACK: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

/// Why plain HTTP to other hosts is rejected.
const ON_THE_WAY: &str = "could be answered by anyone on the way";

/// Why a URL is rejected.
enum UrlRejection {
    /// For a reason that may be shown with it.
    Because(&'static str),
    /// It contains a password, which must not be shown.
    Password,
}

/// A URL whose responses cannot be tampered with: `https`, or `http` on loopback.
pub(crate) fn url(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let url = located_text(field, report)?;
    is_good(&url.value, &url.value, field, report).then_some(url)
}

/// The same, with variables after the host.
pub(crate) fn variable_url(
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<Located<VariableText>> {
    let text = located_text(field, report)?;
    let url = variable_text(field, report)?;
    let host = authority(url.value.beginning());
    if !url.value.is_literal() && host.is_none_or(|host| url.value.beginning().ends_with(host)) {
        let help = "variables may stand in the path of a URL and behind it".to_owned();
        report.node(&field.node, format!("{} does not say which host it is", field.name), Some(help));
        return None;
    }
    is_good(&text.value, url.value.beginning(), field, report).then_some(url)
}

/// An `http` or `https` URL on any network: for model servers that an operator runs on the local
/// network.
pub(crate) fn model_url(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let url = located_text(field, report)?;
    match judge(&url.value, &url.value) {
        Err(UrlRejection::Because(ON_THE_WAY)) => Some(url),
        _ => is_good(&url.value, &url.value, field, report).then_some(url),
    }
}

/// Whether requests to it cannot be read on the network.
pub(crate) fn is_private(url: &str) -> bool {
    judge(url, url).is_ok()
}

fn is_good(whole: &str, beginning: &str, field: &ConfigField, report: &mut ProblemReport<'_>) -> bool {
    let Err(refused) = judge(whole, beginning) else { return true };
    let help = Some(format!("write for example `{}`", field.example));
    match refused {
        UrlRejection::Because(reason) => {
            report.node(&field.node, format!("`{}` {reason}", shown(whole)), help)
        }
        UrlRejection::Password => {
            report.secret(&field.node, format!("{} holds a name or a password", field.name), help);
        }
    }
    false
}

fn judge(whole: &str, beginning: &str) -> Result<(), UrlRejection> {
    let (scheme, _) = beginning.split_once("://").unwrap_or_default();
    let invisible = |character: char| character.is_control() || character.is_whitespace();
    let Some(authority) = authority(beginning).filter(|_| !whole.contains(invisible)) else {
        return Err(UrlRejection::Because("is not a URL"));
    };
    if authority.contains('@') {
        return Err(UrlRejection::Password);
    }
    match scheme {
        "https" => Ok(()),
        "http" if is_loopback(authority) => Ok(()),
        "http" => Err(UrlRejection::Because(ON_THE_WAY)),
        _ => Err(UrlRejection::Because("is not a URL of the web")),
    }
}

/// The host and the port.
fn authority(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#', '\\']).next().filter(|authority| !authority.is_empty())
}

fn is_loopback(authority: &str) -> bool {
    LOOPBACK
        .iter()
        .any(|host| authority.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':')))
}
