//! How programs learn of the proxy.

use crate::allowlist::NetworkAllowlist;

/// The variables for a command whose network holds nothing but the proxy, on this port of 127.0.0.1.
///
/// Programs disagree about the case of the names. What a command listens on itself is reached directly, unless the rules name this machine: then
/// `localhost` means the host, through the proxy. All name HTTP: some clients fail as soon as they see a SOCKS proxy that they have no library
/// for, and those that want SOCKS find it on the same port.
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
