//! What good files mean.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use toolgate_manifest::{
    Access, BreakerConfig, ClaimNames, Config, DeclaredPath, EXAMPLE, KeySource, LimitOverrides, Located,
    OnAuditFailure, OnViolation, ProfileName, SandboxLayer, TokenAlgorithm,
};
use toolgate_types::{Limits, Trust};

fn parse(text: &str) -> Config {
    Config::parse("toolgate.yaml", text).unwrap_or_else(|problems| panic!("{}", problems.render()))
}

#[test]
fn the_example_uses_every_key() {
    let config = parse(EXAMPLE);
    assert_eq!(config.profile.unwrap().value, ProfileName::Native);
    assert_eq!(config.workspace.unwrap().value.as_str(), "./");
    assert_eq!(config.state_dir.unwrap().value.as_str(), "~/.local/state/toolgate");
    assert_eq!(config.deny.patterns(), ["**/*.secret"]);
    assert_eq!(config.trust.unwrap().value, Trust::Guided);
    assert_eq!(config.on_violation.unwrap().value, OnViolation::Answer);
    assert_eq!(
        config.limits,
        LimitOverrides {
            max_read_bytes: Some(256 * 1024),
            max_write_bytes: Some(1024 * 1024),
            max_entries: Some(500),
            max_matches: Some(50),
            max_output_bytes: Some(100_000),
            timeout: Some(Duration::from_secs(60)),
        }
    );
    assert_eq!(config.audit.directory.unwrap().value.as_str(), "./audit");
    assert_eq!(config.audit.on_failure.unwrap().value, OnAuditFailure::Deny);
    assert_eq!(config.audit.checkpoints.unwrap().value.as_str(), "~/toolgate-checkpoints.jsonl");
    assert_eq!(config.audit.key.unwrap().value.as_str(), "~/.config/toolgate/audit.key");
    assert_eq!(config.audit.checkpoint_every, NonZeroU64::new(256));
    assert_eq!(config.approval.timeout, Some(Duration::from_secs(30)));
}

#[test]
fn the_example_declares_mounts() {
    let config = parse(EXAMPLE);
    let [docs, central] = &config.mounts[..] else { panic!("two mounts") };
    assert_eq!((docs.alias.value.as_str(), docs.access), ("@docs", Access::ReadOnly));
    assert_eq!(docs.path.value.as_str(), "../docs");
    assert_eq!(docs.scope.as_ref().unwrap().patterns(), ["**/*.md"]);
    assert_eq!(docs.deny.patterns(), ["drafts/**"]);
    assert_eq!((central.alias.value.as_str(), central.access), ("@central", Access::ReadWrite));
    assert!(central.scope.is_none() && central.deny.patterns().is_empty());
}

#[test]
fn the_example_declares_tools_and_their_bounds() {
    let config = parse(EXAMPLE);
    let paths = |paths: &[Located<DeclaredPath>]| -> Vec<String> {
        paths.iter().map(|path| path.value.as_str().to_owned()).collect()
    };
    let texts =
        |texts: &[Located<String>]| -> Vec<String> { texts.iter().map(|text| text.value.clone()).collect() };
    assert_eq!(paths(&config.tools), ["tools.d", "more/tool.yaml"]);
    assert_eq!(paths(&config.policies), ["policies"]);
    assert_eq!(texts(config.allowed_commands.as_ref().unwrap()), ["git", "ls", "grep"]);

    let sandbox = &config.sandbox;
    assert_eq!(sandbox.required().len(), 7);
    assert_eq!(paths(&sandbox.read), ["/opt/toolchain"]);
    assert_eq!(texts(&sandbox.environment), ["LANG"]);
    assert_eq!(paths(sandbox.path.as_ref().unwrap()), ["/usr/local/bin", "/usr/bin", "/bin"]);
    assert_eq!(
        (sandbox.memory, sandbox.processes, sandbox.open_files),
        (Some(2 << 30), Some(256), Some(1024))
    );
    assert_eq!((sandbox.file_size, sandbox.tmp_size), (Some(1 << 30), Some(512 << 20)));
    assert_eq!(sandbox.cpu_time, Some(Duration::from_secs(600)));
    assert_eq!(texts(&sandbox.network), ["crates.io", "*.crates.io", "localhost:3000"]);
}

#[test]
fn layers_are_all_some_or_the_usual() {
    let required = |text: &str| parse(text).sandbox.required();
    assert_eq!(required("sandbox: {require: all}"), SandboxLayer::ALL);
    assert_eq!(
        required("sandbox: {require: [cgroup, landlock]}"),
        [SandboxLayer::Cgroup, SandboxLayer::Landlock]
    );
    assert_eq!(required("sandbox: {require: []}"), []);
    for text in ["", "sandbox: {memory: 1GiB}"] {
        let usual = required(text);
        assert_eq!(usual.len(), SandboxLayer::ALL.len() - 1, "{text}");
        assert!(!usual.contains(&SandboxLayer::Cgroup), "{text}");
    }
}

#[test]
fn the_example_declares_callers_and_rates() {
    let config = parse(EXAMPLE);
    let callers = config.callers.unwrap();
    assert_eq!(
        (&*callers.issuer.value, &*callers.audience[0].value),
        ("https://login.example.com", "toolgate")
    );
    let algorithms: Vec<TokenAlgorithm> = callers.algorithms.unwrap().iter().map(|word| word.value).collect();
    assert_eq!(algorithms, [TokenAlgorithm::EdDsa, TokenAlgorithm::Hs256]);
    assert_eq!(callers.leeway, Some(Duration::from_secs(30)));
    assert_eq!((&*callers.claims.agent, &*callers.claims.permissions), ("agent", "permissions"));
    assert_eq!(callers.claims.trust.as_deref(), Some("trust"));
    let [public, secret, file, url] = &callers.keys[..] else { panic!("four keys") };
    assert!(matches!(&public.source, KeySource::PublicKey(path) if path.value.as_str() == "issuer.pem"));
    assert_eq!(public.kid.as_ref().unwrap().value, "main");
    assert!(matches!(&secret.source, KeySource::Secret(_)) && secret.algorithm.is_some());
    assert!(
        matches!(&file.source, KeySource::KeySetFile(_)) && file.algorithm.is_none() && file.kid.is_none()
    );
    assert!(matches!(&url.source, KeySource::KeySetUrl(url) if url.value.ends_with("jwks.json")));

    let [ci, all] = &config.rate_limits[..] else { panic!("two limits") };
    assert!(ci.caller.as_ref().unwrap().matches("ci-7") && !ci.tool.as_ref().unwrap().matches("ls"));
    assert_eq!((ci.rate.calls.get(), ci.rate.per.as_secs()), (60, 60));
    assert_eq!(ci.rate.burst.unwrap().get(), 10);
    assert!(all.caller.is_none() && all.tool.is_none() && all.rate.burst.is_none());
    assert_eq!(config.breaker, Some(BreakerConfig::default()));
    assert_eq!(config.breaker.unwrap().failures.get(), 5);
}

#[test]
fn callers_need_little() {
    let config = parse(
        "callers: {issuer: me, audience: [a, b], keys: [{algorithm: HS256, secret_file: s}]}\nbreaker: {rest: 5s}",
    );
    let callers = config.callers.unwrap();
    assert_eq!((callers.audience.len(), callers.algorithms.is_none(), callers.leeway), (2, true, None));
    assert_eq!(callers.claims, ClaimNames::default());
    let breaker = config.breaker.unwrap();
    assert_eq!((breaker.failures.get(), breaker.rest), (5, Duration::from_secs(5)));
    let nothing = parse("");
    assert!(nothing.callers.is_none() && nothing.breaker.is_none() && nothing.allowed_commands.is_none());
}

#[test]
fn the_example_declares_agents() {
    let config = parse(EXAMPLE);
    let reviewer = config.agent("reviewer").unwrap();
    assert_eq!(reviewer.trust.as_ref().unwrap().value, Trust::Autonomous);
    assert_eq!(reviewer.limits.max_read_bytes, Some(64 * 1024));
    assert!(reviewer.tool_permissions.is_none());
    let granted: Vec<&str> = reviewer.permissions.iter().map(|name| name.value.as_str()).collect();
    assert_eq!(granted, ["git:read", "files:read"]);

    let sm = config.agent("sm").unwrap();
    assert_eq!(sm.description.as_deref(), Some("writes stories"));
    assert_eq!((sm.limits.max_read_bytes, sm.limits.max_write_bytes), (Some(20_000), Some(5_000)));
    assert_eq!(sm.limits.timeout, Some(Duration::from_secs(10)));
    let permissions = sm.tool_permissions.as_ref().unwrap();
    let allowed: Vec<(&str, bool)> =
        permissions.iter().map(|permission| (permission.tool.value.as_str(), permission.allowed)).collect();
    assert_eq!(
        allowed,
        [("read_file", true), ("search_files", true), ("write_file", true), ("delete_file", false)]
    );
    let write = &permissions[2];
    assert!(write.paths.as_ref().unwrap().matches(Path::new("stories/1/a.md")));
    assert!(!write.paths.as_ref().unwrap().matches(Path::new("src/main.rs")));
    assert_eq!(write.limits.max_write_bytes, Some(5000));
    assert!(config.agent("nobody").is_none());
}

#[test]
fn an_empty_file_declares_nothing() {
    for text in ["", "\n", "# only a comment\n", "---\n", "~", "{}"] {
        let config = parse(text);
        assert!(config.profile.is_none() && config.agents.is_empty() && config.mounts.is_empty(), "{text:?}");
    }
}

#[test]
fn a_mount_is_read_only_unless_it_says_otherwise() {
    assert_eq!(parse("mounts: {\"@docs\": {path: x}}").mounts[0].access, Access::ReadOnly);
}

#[test]
fn no_permissions_differ_from_no_mention_of_permissions() {
    let config = parse("agents: {none: {tool_permissions: {}}, reader: {}}");
    assert_eq!(config.agent("none").unwrap().tool_permissions.as_ref().map(Vec::len), Some(0));
    assert!(config.agent("reader").unwrap().tool_permissions.is_none());
}

#[test]
fn aliases_share_whole_values() {
    let config = parse(
        "agents:\n  a:\n    tool_permissions: &reading {read_file: {allowed: true}}\n  b: {tool_permissions: *reading}\n",
    );
    let tools = |agent: &str| config.agent(agent).unwrap().tool_permissions.as_ref().unwrap().len();
    assert_eq!((tools("a"), tools("b")), (1, 1));
}

#[test]
fn every_profile_has_a_name_that_reads_back() {
    for profile in ProfileName::ALL {
        assert_eq!(profile.as_str().parse(), Ok(*profile));
        assert_eq!(parse(&format!("profile: {}", profile.as_str())).profile.unwrap().value, *profile);
    }
    assert_eq!(
        "prxy".parse::<ProfileName>().unwrap_err(),
        "`prxy` is not a profile; use `native`, `crew`, `claw`, `proxy`, `sidecar` or `studio`"
    );
}

#[test]
fn overrides_replace_only_what_they_name() {
    let base = Limits {
        max_read_bytes: 1,
        max_write_bytes: 2,
        max_entries: 3,
        max_matches: 4,
        max_output_bytes: 5,
        timeout: Duration::from_secs(6),
    };
    assert_eq!(LimitOverrides::default().over(base), base);
    let limits = parse("limits: {max_write_bytes: 20, max_matches: 40}").limits.over(base);
    assert_eq!(limits, Limits { max_write_bytes: 20, max_matches: 40, ..base });
}
