//! Which entries are accepted, and what they allow.

use proptest::prelude::*;
use toolgate_egress::{Host, NetworkAllowlist, RefusalReason};

fn allows(rules: &NetworkAllowlist, target: &str) -> bool {
    let (host, port) = Host::parse_with_port(target, None).unwrap();
    rules.admit(host, port).is_ok()
}

#[test]
fn entries_open_what_they_say_and_no_more() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "example.com",
            &["example.com:443", "example.com:80", "EXAMPLE.com.:443"],
            &["example.com:8443", "www.example.com:443", "notexample.com:443", "example.com.evil.net:443"],
        ),
        (
            "*.example.com",
            &["a.example.com:443", "a.b.example.com:80"],
            &["example.com:443", "aexample.com:443", "a.example.com:22", "a.example.com.evil.net:443"],
        ),
        ("Example.COM.:8443", &["example.com:8443"], &["example.com:443"]),
        (
            "localhost:3000",
            &["localhost:3000", "127.0.0.1:3000", "[::1]:3000"],
            &["localhost:80", "127.0.0.2:3000"],
        ),
        ("10.0.0.5:5432", &["10.0.0.5:5432"], &["10.0.0.5:443", "10.0.0.6:5432"]),
        ("93.184.216.34", &["93.184.216.34:443"], &["93.184.216.35:443", "93.184.216.34:22"]),
        ("[fd12::5]:443", &["[fd12::5]:443"], &["[fd12::6]:443"]),
        (
            "10.1.0.0/16:5432",
            &["10.1.0.0:5432", "10.1.255.255:5432"],
            &["10.2.0.0:5432", "10.0.255.255:5432"],
        ),
        ("fd12::/64", &["[fd12::1]:443"], &["[fd12:0:0:1::1]:443"]),
        ("[fd12::/64]:5432", &["[fd12::1]:5432"], &["[fd12::1]:443"]),
        ("10.0.0.5/32", &["10.0.0.5:80"], &["10.0.0.4:80"]),
        // A network never allows metadata addresses; an entry of their own does.
        ("169.254.0.0/16", &["169.254.1.1:80"], &["169.254.169.254:80", "169.254.170.2:80"]),
        ("100.64.0.0/10", &["100.64.0.1:80"], &["100.100.100.200:80"]),
        ("169.254.169.254:80", &["169.254.169.254:80"], &["169.254.169.254:443"]),
        ("xn--bcher-kva.example", &["XN--bcher-kva.example:443"], &["bcher.example:443"]),
        ("db:5432", &["db:5432"], &["db.evil.net:5432"]),
    ];
    for (entry, opened, closed) in cases {
        let rules = NetworkAllowlist::parse(&[entry]).unwrap_or_else(|error| panic!("{error}"));
        for target in *opened {
            assert!(allows(&rules, target), "`{entry}` should open {target}");
        }
        for target in *closed {
            assert!(!allows(&rules, target), "`{entry}` should not open {target}");
        }
    }
}

#[test]
fn doubtful_entries_are_refused_with_a_remedy() {
    let cases = [
        ("", "empty", "example.com"),
        ("*", "belong to everybody", "*.example.com"),
        ("*.com", "belong to everybody", "one by one"),
        ("*.com.", "belong to everybody", "one by one"),
        ("*.localhost", "belong to everybody", "one by one"),
        ("*.co.uk", "belong to everybody", "one by one"),
        ("*.", "empty", "example.com"),
        ("*:443", "belong to everybody", "one by one"),
        ("**.example.com", "`*`", "below"),
        ("a.*.example.com", "`*`", "below"),
        ("*.*.example.com", "`*`", "below"),
        ("*example.com", "`*`", "below"),
        ("*.10.0.0.1", "`*`", "below"),
        ("https://example.com", "scheme", "host alone"),
        ("example.com/path", "path", "host alone"),
        ("user@example.com", "user information", "host alone"),
        ("user:secret@example.com:443", "user information", "host alone"),
        ("exam ple.com", "white space", "example.com"),
        (" example.com", "white space", "example.com"),
        ("example.com\n", "control", "example.com"),
        ("evil.com\0.example.com", "control", "example.com"),
        ("bücher.example", "not ASCII", "xn--"),
        ("example.com:0", "port", "example.com"),
        ("example.com:99999", "port", "example.com"),
        ("example.com:*", "port", "example.com"),
        ("example.com:", "port", "example.com"),
        ("example..com", "empty label", "example.com"),
        ("127.1", "number", "example.com"),
        ("0x7f000001", "number", "example.com"),
        ("2130706433", "number", "example.com"),
        ("0177.0.0.1", "number", "example.com"),
        ("::1", "brackets", "[2001:db8::1]:443"),
        ("fd12::5:5432", "brackets", "[2001:db8::1]:443"),
        ("[fe80::1%eth0]:80", "percent", "example.com"),
        ("[::ffff:10.0.0.1]:80", "IPv4 address", "IPv4"),
        ("[64:ff9b::808:808]", "IPv4 address", "IPv4"),
        ("0.0.0.0", "never a destination", "a machine can have"),
        ("224.0.0.1", "never a destination", "a machine can have"),
        ("255.255.255.255:80", "never a destination", "a machine can have"),
        ("[ff02::1]:80", "never a destination", "a machine can have"),
        ("0.0.0.0/0", "too wide", "/8"),
        ("8.0.0.0/7", "too wide", "/8"),
        ("::/0", "too wide", "/32"),
        ("10.0.0.5/8", "bits beyond", "`10.0.0.0/8`"),
        ("fd12::1/64", "bits beyond", "`fd12::/64`"),
        ("10.0.0.0/33", "prefix", "10.1.0.0/16"),
        ("10.0.0.0/+8", "prefix", "10.1.0.0/16"),
        ("10.0.0.0/", "prefix", "10.1.0.0/16"),
        ("fd12::/64:5432", "prefix", "fd12::/64"),
        ("224.0.0.0/8", "never a destination", "a machine can have"),
    ];
    for (entry, problem, help) in cases {
        let error = NetworkAllowlist::parse(&["example.com", entry]).expect_err(entry);
        assert!(error.to_string().contains(problem), "{entry:?}: {error}");
        assert!(error.help().contains(help), "{entry:?}: {}", error.help());
        assert!(!error.to_string().contains(['\0', '\n']), "{entry:?}");
    }
}

#[test]
fn no_entries_open_nothing() {
    let rules = NetworkAllowlist::parse::<String>(&[]).unwrap();
    assert!(rules.is_empty());
    assert!(!allows(&rules, "example.com:443"));
    assert!(!allows(&rules, "127.0.0.1:80"));
}

/// The reference model for stars: label by label from the right, with at least one left over.
fn below(name: &str, domain: &str) -> bool {
    let name: Vec<String> = name.split('.').map(str::to_ascii_lowercase).collect();
    let domain: Vec<String> = domain.split('.').map(str::to_ascii_lowercase).collect();
    name.len() > domain.len() && name.iter().rev().zip(domain.iter().rev()).all(|(left, right)| left == right)
}

#[test]
fn a_person_adds_single_public_hosts_and_nothing_wider() {
    let rules = NetworkAllowlist::parse(&["example.com"]).unwrap();
    let added = ["registry.example", "mirror.example:8443", "93.184.216.34"];
    let wider = rules.with_public_hosts(&added).unwrap();
    for target in ["example.com:443", "registry.example:443", "mirror.example:8443", "93.184.216.34:80"] {
        assert!(allows(&wider, target), "{target}");
    }
    for target in ["sub.registry.example:443", "mirror.example:443", "localhost:3000"] {
        assert!(!allows(&wider, target), "{target}");
    }
    assert!(!allows(&rules, "registry.example:443"));
    for entry in [
        "*.example.org",
        "localhost",
        "localhost:3000",
        "127.0.0.1",
        "10.0.0.5",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "93.184.216.0/24",
        "[::1]:80",
        "*",
        "https://x.example",
        "ех.example",
        "a.example b.example",
        "",
    ] {
        assert!(rules.with_public_hosts(&[entry]).is_err(), "{entry}");
    }
}

proptest! {
    #[test]
    fn stars_match_whole_labels(
        name in "[aAb]{1,2}(\\.[aAb]{1,2}){0,4}", domain in "[ab]{1,2}(\\.[ab]{1,2}){1,2}",
    ) {
        let rules = NetworkAllowlist::parse(&[format!("*.{domain}")]).unwrap();
        let admitted = rules.admit(Host::parse(&name).unwrap(), 443);
        prop_assert_eq!(admitted.is_ok(), below(&name, &domain));
        if let Err(reason) = admitted {
            prop_assert_eq!(reason, RefusalReason::NotListed);
        }
    }

    #[test]
    fn networks_share_their_first_bits(address: u32, is_near: bool, base: u32, prefix in 8u32..=32) {
        let bits = |number: u32| format!("{number:032b}")[..prefix as usize].to_owned();
        let network = u32::MAX << (32 - prefix);
        let base = (base | 0x0b00_0000) & network & 0x7fff_ffff;
        // A random address is hardly ever in a network. A near one is in it, or one bit away.
        let near = base ^ (address & !network) ^ (u32::from(address & 1 == 1) << (32 - prefix));
        let address = if is_near { near } else { address };
        let (base, address) = (std::net::Ipv4Addr::from_bits(base), std::net::Ipv4Addr::from_bits(address));
        let Ok(rules) = NetworkAllowlist::parse(&[format!("{base}/{prefix}")]) else { return Ok(()) };
        let host = Host::from_address(address.into()).unwrap();
        let same = bits(base.to_bits()) == bits(address.to_bits());
        prop_assert_eq!(rules.admit(host, 443).is_ok(), same);
    }

    #[test]
    fn no_text_is_a_panic_and_every_host_is_plain(text in "\\PC{0,40}|[a-f0-9.:\\[\\]x%@*/ -]{0,30}") {
        let _ = NetworkAllowlist::parse(&[&text]);
        if let Ok(host) = Host::parse(&text) {
            let shown = host.to_string();
            prop_assert!(shown.is_ascii() && !shown.contains(['%', '@', '/', ' ', '*']));
            prop_assert_eq!(Host::parse(&shown), Ok(host));
        }
    }
}
