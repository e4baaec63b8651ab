//! The proxy environment variables.

use crate::allowlist::NetworkAllowlist;

/// The variables for a command whose network namespace contains only the proxy, on this port of 127.0.0.1.
///
/// Programs disagree about the case of the names. A command's own listeners are reached directly, unless the allowlist names this machine: then
/// `localhost` means the host, through the proxy. All variables name HTTP: some clients fail when they see a SOCKS proxy without having a library for
/// it, and clients that want SOCKS find it on the same port.
#[must_use]
pub fn environment(port: u16, rules: &NetworkAllowlist) -> Vec<(String, String)> {
    let http = format!("http://127.0.0.1:{port}");
    let direct = if rules.allows_loopback() { "" } else { "localhost,127.0.0.1,::1" };
    let variables = [
        ("http_proxy", http.as_str()),
        ("https_proxy", &http),
        ("HTTP_PROXY", &http),
        ("HTTPS_PROXY", &http),
        ("all_proxy", &http),
        ("ALL_PROXY", &http),
        ("no_proxy", direct),
        ("NO_PROXY", direct),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_the_commands_own_unless_it_was_named() {
        for (entries, direct) in [
            (&["example.com"][..], "localhost,127.0.0.1,::1"),
            (&["localhost:3000"], ""),
            (&["example.com", "127.0.0.1:5432"], ""),
            (&["[::1]:5432"], ""),
        ] {
            let variables = environment(3128, &NetworkAllowlist::parse(entries).unwrap());
            let no_proxy = variables.iter().find(|(name, _)| name == "NO_PROXY").unwrap();
            assert_eq!(no_proxy.1, direct, "{entries:?}");
        }
    }
}
