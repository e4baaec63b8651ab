//! Configurations that would execute something, and harmless ones.

use proptest::prelude::*;

use super::*;

/// Whether a configuration may stay where a command put it.
fn is_harmless(original: &[u8], worktree: impl Fn(&str) -> bool) -> bool {
    match judge(original, None) {
        ConfigVerdict::Harmless { worktree: place } => place.is_none_or(|place| worktree(&place)),
        ConfigVerdict::Harmful => false,
    }
}

fn copy_of(text: &str) -> String {
    String::from_utf8(sanitised_git_config(text.as_bytes())).unwrap()
}

#[test]
fn what_would_run_or_be_obeyed_is_left_out() {
    for setting in [
        "[core]\nhooksPath = x",
        "[core]\nfsmonitor = x",
        "[core]\nfsmonitor",
        "[CORE]\nFSMonitor = \"x\"",
        "[core]\npager = x",
        "[core]\neditor = x",
        "[core]\nsshCommand = x",
        "[core]\naskPass = x",
        "[core]\nattributesFile = x",
        "[core]\nexcludesFile = x",
        "[core]\nworktree = /",
        "[core]\ngitProxy = x",
        "[core]\nalternateRefsCommand = x",
        "[core \"x\"]\nbare = true",
        "[pager]\nlog = x",
        "[alias]\nstatus = !x",
        "[filter \"lfs\"]\nsmudge = x\nclean = x\nprocess = x\nrequired",
        "[diff \"x\"]\ntextconv = x\ncommand = x",
        "[diff]\nexternal = x",
        "[merge \"x\"]\ndriver = x",
        "[include]\npath = x",
        "[includeIf \"gitdir:/\"]\npath = x",
        "[include]path=x",
        "[credential]\nhelper = !x",
        "[http]\nextraHeader = \"Authorization: x\"\nproxy = x\nsslVerify = false",
        "[http \"https://x\"]\nextraheader = x",
        "[url \"ext::x\"]\ninsteadOf = https://",
        "[gpg]\nprogram = x",
        "[gpg \"ssh\"]\nprogram = x\ndefaultKeyCommand = x",
        "[protocol \"ext\"]\nallow = always",
        "[uploadpack]\npackObjectsHook = x",
        "[sequence]\neditor = x",
        "[interactive]\ndiffFilter = x",
        "[difftool \"x\"]\ncmd = x",
        "[mergetool \"x\"]\ncmd = x",
        "[browser \"x\"]\ncmd = x",
        "[trailer \"x\"]\ncommand = x",
        "[man \"x\"]\ncmd = x",
        "[instaweb]\nhttpd = x",
        "[submodule \"x\"]\nupdate = !x",
        "[remote \"x\"]\nuploadpack = x\nreceivepack = x\nvcs = x\nproxy = x",
        "[remote \"x\"]\nurl = ext::sh -c x",
        "[remote \"x\"]\nurl = ext::x",
        "[remote \"x\"]\nurl = --upload-pack=x",
        "[remote \"x\"]\nurl = ssh://-oProxyCommand=x/y",
        "[remote \"x\"]\nurl = -oProxyCommand=x:y",
        "[remote \"x\"]\nurl = host:-y",
        "[remote \"x\"]\nurl = odd://host/y",
        "[remote \"x\"]\nurl = https://user:pa/ss@host/y",
        "[remote \"x\"]\nurl = file:///home/somebody",
        "[remote \"x\"]\nurl = /home/somebody",
        "[remote \"-x\"]\nurl = https://host/y",
        "[remote]\nurl = https://host/y",
        "[branch \"x\"]\nremote = ext::x",
        "[branch \"x\"]\nremote = ../x",
        "[branch \"x\"]\nremote = /x",
        "[branch \"x\"]\nremote = https://host/y",
        "[extensions]\nunheardof = x",
        "[user]\nsigningKey = x",
    ] {
        assert_eq!(copy_of(setting), "", "{setting}");
        let harmless = setting.contains("/home/somebody");
        assert_eq!(is_harmless(setting.as_bytes(), |_| false), harmless, "{setting}");
    }
}

#[test]
fn what_git_needs_stays() {
    let original = "\u{feff}; made by git\r\n[core]\r\n\trepositoryformatversion = 1\r\n\tfilemode\r\n\tbare = no # not\r\n\
        [extensions]\n\tobjectFormat = sha256\n[remote \"o\\\"r\"]\n\turl = https://t:k@example.com:8443/a.git?token=x\n\
        \tfetch = +refs/heads/*:refs/remotes/o/*\n[remote.old]\n\turl = git@example.com:a/b.git\n\
        [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/\\\nmain\n[user]\n\tname = \"A  \\\"B\\\" \" C\n";
    assert_eq!(
        copy_of(original),
        "[core]\n\trepositoryformatversion = \"1\"\n\tfilemode = \"true\"\n\tbare = \"false\"\n\
         [extensions]\n\tobjectformat = \"sha256\"\n[remote \"o\\\"r\"]\n\turl = \"https://example.com:8443/a.git\"\n\
         \tfetch = \"+refs/heads/*:refs/remotes/o/*\"\n[remote \"old\"]\n\turl = \"git@example.com:a/b.git\"\n\
         [branch \"main\"]\n\tremote = \"origin\"\n\tmerge = \"refs/heads/main\"\n[user]\n\tname = \"A  \\\"B\\\"  C\"\n"
    );
    assert!(is_harmless(original.as_bytes(), |_| false), "credentials are a secret, not a danger");
}

#[test]
fn quotes_and_backslashes_are_written_so_that_git_reads_them_back() {
    let copy = copy_of("[remote \"a\\\\\\\"b\"]\nmirror\n[user]\nname = A \\\\ \\\"B\\\"\n");
    assert_eq!(copy, "[remote \"a\\\\\\\"b\"]\n\tmirror = \"true\"\n[user]\n\tname = \"A \\\\ \\\"B\\\"\"\n");
    let expected = [&b"remote.a\\\"b.mirror\ntrue"[..], b"user.name\nA \\ \"B\""].map(<[u8]>::to_vec);
    assert_eq!(as_git_reads(copy.as_bytes()), Some(expected.to_vec()));
}

#[test]
fn addresses_lose_what_lets_in() {
    for (url, shown) in [
        ("https://user@host/x", "https://host/x"),
        ("https://a:b@c@host/x", "https://host/x"),
        ("HTTPS://host/x#t", "https://host/x"),
        ("ssh://git:pw@host:22/x", "ssh://git@host:22/x"),
        ("ssh://git@[::1]:22/x", "ssh://git@[::1]:22/x"),
        ("git://host/x", "git://host/x"),
        ("../x.git", "../x.git"),
    ] {
        let copy = copy_of(&format!("[remote \"x\"]\nurl = \"{url}\""));
        assert_eq!(copy, format!("[remote \"x\"]\n\turl = \"{shown}\"\n"), "{url}");
    }
    for url in ["user:pw@host:x", "https://user/pw@host/x", "C:x"] {
        assert_eq!(copy_of(&format!("[remote \"x\"]\nurl = \"{url}\"")), "", "{url}");
    }
}

#[test]
fn what_does_not_parse_becomes_the_smallest() {
    for original in [
        "bare = true",
        "[core",
        "[core]\nbare = \"x",
        "[core]\nbare = \\x",
        "[core]\n= x",
        "[core]\n1 = x",
        "[core \"x]\nbare = true",
        "[core \"x\" ]",
        "[core\n]",
        "[co_re]",
        "[core]\nbare ? x",
        "[core]\nbare = true\0\n",
        "\u{fe}",
    ] {
        assert_eq!(sanitised_git_config(original.as_bytes()), MINIMAL, "{original:?}");
        assert!(!is_harmless(original.as_bytes(), |_| true), "{original:?}");
    }
    assert_eq!(sanitised_git_config(&vec![b'\n'; MAX_CONFIG_BYTES + 1]), MINIMAL);
}

#[test]
fn a_name_is_held_once_however_many_settings_are_below_it() {
    let name = "A".repeat(1000);
    let settings = parse(format!("[remote \"{name}\"]\n{}", "a\n".repeat(9_000)).as_bytes()).unwrap();
    assert_eq!(settings.len(), 9_000);
    assert!(settings.iter().all(|setting| std::rc::Rc::ptr_eq(&setting.header, &settings[0].header)));
}

#[test]
fn what_is_larger_than_anybody_writes_becomes_the_smallest() {
    let bomb = |name: usize, settings: usize| {
        format!("[remote \"{}\"]\n{}", "A".repeat(name), "prune\n".repeat(settings)).into_bytes()
    };
    for (name, settings) in [(500_000, 250_000), (2000, 1), (1, 10_001), (100_000, 10_000)] {
        let original = bomb(name, settings);
        assert_eq!(sanitised_git_config(&original), MINIMAL, "{name} {settings}");
        assert!(!is_harmless(&original, |_| true), "{name} {settings}");
    }
    let largest = sanitised_git_config(&bomb(1000, 10_000));
    assert!(largest.len() < 4 * MAX_CONFIG_BYTES && largest != MINIMAL, "{}", largest.len());
    assert!(is_harmless(&bomb(1000, 9_000), |_| false), "below 64 KiB");
    assert!(!is_harmless(&bomb(1000, 10_000 + 1000), |_| false));
    assert!(!is_harmless(&[b"[core]\n".as_slice(), &vec![b'\n'; MAX_NEW_CONFIG_BYTES]].concat(), |_| false));
}

#[test]
fn only_what_was_not_obeyed_before_does_harm() {
    let original = b"[core]\n\tpager = less\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n";
    let before = RefusedSettings::of(original);
    let is_harmless =
        |text: &str| matches!(judge(text.as_bytes(), Some(&before)), ConfigVerdict::Harmless { .. });
    assert!(is_harmless("[core]\n\tbare = false\n\tpager = less\n"));
    assert!(
        is_harmless(&format!("[core]\n\tpager = less\n{}", "\n".repeat(MAX_NEW_CONFIG_BYTES))),
        "it may be large"
    );
    assert!(is_harmless("[Filter \"lfs\"]\nclean=\"git-lfs clean -- %f\"\n[core]\npager=less\n"));
    for text in [
        "[core]\npager = less -x\n",
        "[core]\npager\n",
        "[core]\neditor = less\n",
        "[filter \"LFS\"]\nclean = git-lfs clean -- %f\n",
        "[core",
    ] {
        assert!(!is_harmless(text), "{text}");
    }
}

#[test]
fn where_the_files_lie_is_asked() {
    let original = b"[core]\n\tworktree = ../../../sub\n";
    assert!(is_harmless(original, |place| place == "../../../sub"));
    assert!(!is_harmless(original, |_| false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_copy_is_its_own_copy_and_holds_only_what_may_be_shown(
        original in prop_oneof![
            "(\\[(core|remote|Branch|include)( \"[a\\\\\".\\]]{0,3}\")?\\]|[ \t]*(url|bare|fetch|pager|path)[ ]?=?[ ]?[a-z:/@\"\\\\#;. ]{0,12}|\r?\n|#x){0,12}",
            "\\PC{0,60}",
        ],
    ) {
        let copy = sanitised_git_config(original.as_bytes());
        prop_assert_eq!(sanitised_git_config(&copy), copy.clone());
        for setting in parse(&copy).unwrap() {
            prop_assert!(matches!(policy_for(&setting), SettingPolicy::Shown(_)), "{setting:?}");
        }
        prop_assert!(is_harmless(&copy, |_| false));
    }
}

/// What git reads of a configuration, as one text per setting; `None` when it refuses.
#[allow(clippy::disallowed_methods, reason = "git itself is what the parser is measured against")]
fn as_git_reads(content: &[u8]) -> Option<Vec<Vec<u8>>> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("config");
    std::fs::write(&file, content).unwrap();
    let output = std::process::Command::new("git")
        .args(["config", "--list", "--null", "--no-includes", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    let settings = output.stdout.split(|byte| *byte == 0).filter(|setting| !setting.is_empty());
    output.status.success().then(|| settings.map(<[u8]>::to_vec).collect())
}

fn as_we_read(content: &[u8]) -> Option<Vec<Vec<u8>>> {
    let settings = parse(content)?;
    let written = settings.iter().map(|setting| {
        let name = match setting.subsection() {
            Some(subsection) => [setting.section(), subsection, &setting.key].join(&b'.'),
            None => [setting.section(), &setting.key].join(&b'.'),
        };
        match &setting.value {
            Some(value) => [name.as_slice(), value].join(&b'\n'),
            None => name,
        }
    });
    Some(written.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn the_parser_reads_what_git_reads(
        original in "(\\[(core|Remote|a\\.B|x-1)([ \t]\"[a\\\\\".\\] n]{0,3}\")?\\]|[ \t]*[aB1-]{1,2}[ \t]?=?[ ]{0,2}[a\"\\\\#;.nt \t]{0,8}|\r?\n|\\\\\n| |[#;]x\"|\u{feff}|é|\r){0,14}",
    ) {
        // The only input that git accepts and this parser rejects is a setting before the first section.
        let ours = as_we_read(original.as_bytes());
        let gits = as_git_reads(original.as_bytes());
        let has_section = |setting: &Vec<u8>| setting.split(|byte| *byte == b'\n').next().is_some_and(|name| name.contains(&b'.'));
        if ours.is_some() || gits.as_ref().is_none_or(|settings| settings.iter().all(has_section)) {
            prop_assert_eq!(ours, gits);
        }
    }

    #[test]
    fn git_reads_a_copy_as_we_do(original in "(\\[(core|remote \"[a\\\\\"é. ]{0,3}\")\\]\n|(url|bare|fetch|pager|name)( = [a-z:/@\"\\\\#;. +*é]{0,12})?\n){0,12}") {
        let copy = sanitised_git_config(original.as_bytes());
        prop_assert_eq!(as_we_read(&copy), as_git_reads(&copy));
    }
}
