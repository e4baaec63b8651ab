//! The response to a command whose connection is not made.

use crate::address::AddressClass;
use crate::host::Host;
use crate::ledger::allowlist_entry;
use crate::refusal_reason::RefusalReason;

/// An HTTP response. `asked` is the requested host, if it could be parsed.
pub(crate) fn http_response(reason: RefusalReason, asked: Option<(&Host, u16)>) -> Vec<u8> {
    let body = format!("toolgate: {}\n", explanation(reason, asked));
    let header = if reason.is_failure() { "X-Toolgate-Failed" } else { "X-Toolgate-Refused" };
    let head = format!(
        "HTTP/1.1 {}\r\n{header}: {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        status(reason),
        reason.as_str(),
        body.len(),
    );
    (head + &body).into_bytes()
}

fn status(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Malformed(_) | RefusalReason::Unsupported(_) => "400 Bad Request",
        RefusalReason::TooLarge => "431 Request Header Fields Too Large",
        RefusalReason::TooSlow => "408 Request Timeout",
        RefusalReason::Unresolved | RefusalReason::Unreachable => "502 Bad Gateway",
        _ => "403 Forbidden",
    }
}

/// The reason, and how an operator can change it. Resolved addresses are omitted: they would reveal the internal network to the command.
fn explanation(reason: RefusalReason, asked: Option<(&Host, u16)>) -> String {
    match (reason, asked) {
        (RefusalReason::NotListed, Some((host, port))) => {
            let entry = allowlist_entry(host, port);
            format!("`{host}:{port}` is not allowed; the operator can add \"{entry}\" to network:")
        }
        (RefusalReason::Address(class), Some((host, port))) => address(class, host, port),
        _ => reason.to_string(),
    }
}

fn address(class: AddressClass, host: &Host, port: u16) -> String {
    let said = format!("`{host}:{port}` leads to a {class} address");
    match (class, host) {
        (AddressClass::Never, _) => said,
        (_, Host::Address(_)) => {
            format!("{said}; the operator can add \"{}\" to network:", allowlist_entry(host, port))
        }
        (_, Host::Name(_)) => format!("{said}; the operator can add that address to network:"),
    }
}
