//! How programs learn of the proxy.

/// The variables for a command whose network holds nothing but the proxy, on this port of 127.0.0.1.
///
/// Programs disagree about the case of the names. `no_proxy` is empty because there is no other way out: a
/// direct connection, even to localhost, would stay within the command's own network. All name HTTP: some clients fail
/// as soon as they see a SOCKS proxy that they have no library for, and those that want SOCKS find it on the same port.
#[must_use]
pub fn environment(port: u16) -> Vec<(String, String)> {
    let http = format!("http://127.0.0.1:{port}");
    let variables = [
        ("http_proxy", http.as_str()),
        ("https_proxy", &http),
        ("HTTP_PROXY", &http),
        ("HTTPS_PROXY", &http),
        ("all_proxy", &http),
        ("ALL_PROXY", &http),
        ("no_proxy", ""),
        ("NO_PROXY", ""),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}
