//! What valid files mean.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use toolgate_manifest::{
    Access, BreakerConfig, ClaimsConfig, Config, DeclaredPath, EXAMPLE, HardLinkRule, KeySourceConfig,
    LimitOverrides, Located, ModelKey, OnAuditFailure, PinMode, ProfileName, SandboxLayer, SearchBackend,
    ServeAuth, ServerTransport, TokenAlgorithm, Toolchain, ToolchainSelection, VariableText,
};
use toolgate_types::{Limits, OnViolation, ToolClass, Trust};

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
    assert_eq!(sandbox.hard_links.as_ref().map(|rule| rule.value), Some(HardLinkRule::Protect));
    let named = [Toolchain::Rustup, Toolchain::Nvm, Toolchain::Pyenv];
    assert_eq!(sandbox.toolchains, ToolchainSelection::Named(named.to_vec()));
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    assert_eq!((sandbox.timeout, sandbox.max_timeout), (minutes(2), minutes(10)));
    assert_eq!(texts(&sandbox.network), ["crates.io", "*.crates.io", "localhost:3000"]);
}

#[test]
fn toolchains_are_all_none_or_named() {
    let selected = |text: &str| parse(text).sandbox.toolchains;
    assert_eq!(selected("sandbox: {}"), ToolchainSelection::Auto);
    assert_eq!(selected("sandbox: {toolchains: auto}"), ToolchainSelection::Auto);
    assert_eq!(selected("sandbox: {toolchains: off}"), ToolchainSelection::Off);
    assert_eq!(selected("sandbox: {toolchains: []}"), ToolchainSelection::Named(Vec::new()));
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
    assert_eq!(callers.stale_keys, Some(Duration::from_secs(24 * 3600)));
    assert_eq!((&*callers.claims.agent, &*callers.claims.permissions), ("agent", "permissions"));
    assert_eq!(callers.claims.trust.as_deref(), Some("trust"));
    let [public, secret, file, url] = &callers.keys[..] else { panic!("four keys") };
    assert!(
        matches!(&public.source, KeySourceConfig::PublicKey(path) if path.value.as_str() == "issuer.pem")
    );
    assert_eq!(public.kid.as_ref().unwrap().value, "main");
    assert!(matches!(&secret.source, KeySourceConfig::Secret(_)) && secret.algorithm.is_some());
    assert!(
        matches!(&file.source, KeySourceConfig::KeySetFile(_))
            && file.algorithm.is_none()
            && file.kid.is_none()
    );
    assert!(matches!(&url.source, KeySourceConfig::KeySetUrl(url) if url.value.ends_with("jwks.json")));

    let [ci, all] = &config.rate_limits[..] else { panic!("two limits") };
    assert!(ci.caller.as_ref().unwrap().matches("ci-7") && !ci.tool.as_ref().unwrap().matches("ls"));
    assert_eq!((ci.rate.calls.get(), ci.rate.per.as_secs()), (60, 60));
    assert_eq!(ci.rate.burst.unwrap().get(), 10);
    assert!(all.caller.is_none() && all.tool.is_none() && all.rate.burst.is_none());
    assert_eq!(config.breaker, Some(BreakerConfig::default()));
    assert_eq!(config.breaker.unwrap().failures.get(), 5);
}

fn in_no_environment(text: &VariableText) -> String {
    text.expand(|_| None).unwrap()
}

#[test]
fn the_example_says_how_conversations_are_held() {
    let config = parse(EXAMPLE);
    let general = &config.conversation;
    assert_eq!(general.model.as_ref().unwrap().value, "anthropic/claude-sonnet-4-5");
    assert_eq!(general.system.as_deref(), Some("You help with this project."));
    assert_eq!(
        (general.reserve_tokens, general.warn_at, general.window),
        (Some(8192), Some(0.75), Some(200_000))
    );
    let sm = config.agent("sm").unwrap().conversation.clone().over(general);
    assert_eq!(sm.model.unwrap().value, "local/qwen3-coder");
    // A file of its own replaces the general prompt; absent values are inherited.
    assert_eq!((sm.system, sm.system_file.unwrap().value.as_str()), (None, "prompts/sm.md"));
    assert_eq!((sm.max_tool_iterations, sm.time_limit), (Some(40), Some(Duration::from_secs(600))));
    assert_eq!((sm.reserve_tokens, sm.warn_at), (Some(4096), Some(0.75)));
    assert_eq!((sm.parallel_reads, sm.repair_calls), (Some(false), Some(true)));
    let release = config.agent("release").unwrap().conversation.clone().over(general);
    assert_eq!(
        (release.system.as_deref(), release.max_tool_iterations),
        (Some("You prepare releases."), Some(20))
    );
}

#[test]
fn the_example_declares_servers_of_models_and_a_search_engine() {
    let config = parse(EXAMPLE);
    let [local, office] = &config.models[..] else { panic!("two servers") };
    assert_eq!((local.name.value.as_str(), local.wire.value.as_str()), ("local", "openai-chat"));
    assert_eq!(local.base_url.as_ref().unwrap().value, "http://127.0.0.1:8000/v1");
    assert!(matches!(&local.key, Some(ModelKey::Variable(name)) if name.value == "LOCAL_MODEL_KEY"));
    assert_eq!(
        (local.supports_tools, local.context_window, local.max_output_tokens),
        (Some(true), Some(32768), Some(4096))
    );
    assert!(!local.exact_tool_names && local.headers.len() == 1);
    assert!(
        matches!(&office.key, Some(ModelKey::File(path)) if path.value.as_str() == "~/.config/toolgate/office.key")
    );
    let search = config.web_search.unwrap();
    assert_eq!((search.backend.value, search.max_results), (SearchBackend::Brave, Some(5)));
    assert_eq!(search.key_env.unwrap().value, "BRAVE_API_KEY");
}

#[test]
fn the_example_declares_a_server_process() {
    let config = parse(EXAMPLE);
    let files = &config.mcp_servers[0];
    assert_eq!((&*files.name.value, files.disabled, files.pin), ("files", false, PinMode::FirstUse));
    assert_eq!(
        (files.timeout, files.startup_timeout),
        (Some(Duration::from_secs(60)), Some(Duration::from_secs(20)))
    );
    assert_eq!(files.class.as_ref().unwrap().value, ToolClass::Destructive);
    assert_eq!((files.permissions[0].value.as_str(), files.policy.as_ref().unwrap().len()), ("files:use", 1));
    let ServerTransport::Process(process) = &files.transport else { panic!("a process") };
    assert_eq!(process.program.value, "mcp-server-filesystem");
    let arguments: Vec<String> = process.arguments.iter().map(|one| in_no_environment(&one.value)).collect();
    assert_eq!(arguments, ["/mnt/project"]);
    let environment = process.environment.iter();
    let environment: Vec<(&str, String)> =
        environment.map(|(name, value)| (name.value.as_str(), in_no_environment(&value.value))).collect();
    assert_eq!(environment, [("LOG", "info".to_owned()), ("FILES_TOKEN", "none".to_owned())]);
    assert_eq!(process.directory.as_ref().unwrap().value.inside(), "/mnt/project");
    let mounts: Vec<(&str, bool)> =
        process.mounts.iter().map(|mount| (mount.alias.value.as_str(), mount.writable)).collect();
    assert_eq!(mounts, [("@project", true), ("@docs", false)]);
    assert_eq!(process.network[0].value, "api.example.com");
    assert_eq!(process.read[0].value.as_str(), "/opt/node");
    let limits = process.limits;
    assert_eq!((limits.memory, limits.processes, limits.open_files), (Some(1 << 30), Some(64), Some(256)));
    assert_eq!((limits.file_size, limits.tmp_size), (Some(100 << 20), Some(64 << 20)));
    assert_eq!(limits.cpu_time, Some(Duration::from_secs(3600)));
}

#[test]
fn the_example_declares_tools_of_servers() {
    let config = parse(EXAMPLE);
    let files = &config.mcp_servers[0];
    let read = files.tool("read_text_file").unwrap();
    assert_eq!((read.class.as_ref().unwrap().value, read.allowed), (ToolClass::Read, true));
    assert_eq!(read.permissions.as_ref().unwrap()[0].value, "files:read");
    assert_eq!((read.policy.as_ref().unwrap().len(), read.timeout), (1, Some(Duration::from_secs(10))));
    assert!(!files.tool("delete_everything").unwrap().allowed);
    assert!(files.tool("write_file").is_none());
}

#[test]
fn the_example_declares_a_server_elsewhere() {
    let config = parse(EXAMPLE);
    let tracker = &config.mcp_servers[1];
    assert!(tracker.disabled && tracker.class.is_none() && tracker.policy.is_none());
    let ServerTransport::Remote(remote) = &tracker.transport else { panic!("an address") };
    assert_eq!(in_no_environment(&remote.url.value), "https://tracker.example.com/mcp");
    assert_eq!(remote.headers[0].0.value, "X-Team");
    assert_eq!(in_no_environment(&remote.headers[0].1.value), "platform");
    let oauth = remote.oauth.as_ref().unwrap();
    assert_eq!(oauth.token_url.value, "https://login.example.com/token");
    assert_eq!(in_no_environment(&oauth.client_id.value), "toolgate");
    assert_eq!(oauth.client_secret.value.names().collect::<Vec<_>>(), ["TRACKER_SECRET"]);
    assert_eq!((&*oauth.scopes[0], oauth.resource.is_some()), ("issues", true));
}

#[test]
fn the_example_declares_a_server_with_logins() {
    let config = parse(EXAMPLE);
    let login = |index: usize| {
        let ServerTransport::Remote(remote) = &config.mcp_servers[index].transport else {
            panic!("an address")
        };
        (remote.oauth.is_some(), remote.login.clone())
    };
    assert!(matches!(login(1), (true, None)));
    let (false, Some(login)) = login(2) else { panic!("a login") };
    assert_eq!(in_no_environment(&login.client_id.unwrap().value), "toolgate");
    assert_eq!(login.client_secret.unwrap().value.names().collect::<Vec<_>>(), ["WIKI_SECRET"]);
    assert_eq!((&*login.scopes[0], login.per_caller), ("pages", true));
    assert_eq!(login.issuer.unwrap().value, "https://login.example.com");
}

#[test]
fn logins_are_the_default_where_nothing_else_is_sent() {
    for (entry, wanted) in [
        ("{url: https://a.example}", true),
        ("{url: https://a.example, headers: {X-Team: a}}", true),
        ("{url: https://a.example, headers: {authorization: a}}", false),
        ("{url: https://a.example, oauth: {per_caller: true}}", true),
    ] {
        let config = parse(&format!("mcp_servers:\n  far: {entry}\n"));
        let ServerTransport::Remote(remote) = &config.mcp_servers[0].transport else { panic!("an address") };
        assert_eq!(remote.login.is_some(), wanted, "{entry}");
    }
}

#[test]
fn the_example_opens_a_door() {
    let serve = parse(EXAMPLE).serve;
    assert_eq!(serve.listen.unwrap().value.to_string(), "127.0.0.1:8420");
    assert_eq!(serve.auth.unwrap().value, ServeAuth::Jwt);
    assert_eq!(serve.allowed_hosts[0].value, "gate.example.com");
    assert_eq!(serve.allowed_origins[0].value, "https://app.example.com");
    assert_eq!(serve.public_url.unwrap().value, "https://gate.example.com");
    assert_eq!((serve.max_body_bytes, serve.max_connections), (Some(8 << 20), Some(512)));
    assert_eq!(serve.requests_per_second, Some(20));
    assert_eq!(serve.grace, Some(Duration::from_secs(10)));
}

#[test]
fn the_json_of_a_client_is_understood_as_it_is() {
    let config = parse(
        r#"{"mcp_servers": {"fetch": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"], "env": {}},
            "web": {"type": "streamable-http", "url": "http://localhost:3000/mcp/${TEAM}", "headers": {"A": "${B}"}}}}"#,
    );
    let [fetch, web] = &config.mcp_servers[..] else { panic!("two servers") };
    assert_eq!((fetch.pin, fetch.disabled, fetch.class.is_none()), (PinMode::FirstUse, false, true));
    let ServerTransport::Process(process) = &fetch.transport else { panic!("a process") };
    assert!(process.mounts.is_empty() && process.network.is_empty() && process.directory.is_none());
    let ServerTransport::Remote(remote) = &web.transport else { panic!("an address") };
    assert_eq!(remote.url.value.expand(|_| Some("a".to_owned())).unwrap(), "http://localhost:3000/mcp/a");
}

#[test]
fn an_exact_name_counts_before_globs_and_globs_in_their_order() {
    let config = parse(
        "mcp_servers: {s: {command: x, tools: {\"get_*\": {class: read}, \"*\": {class: write}, get_rid: {class: destructive}}}}",
    );
    let class = |name: &str| config.mcp_servers[0].tool(name).unwrap().class.as_ref().unwrap().value;
    assert_eq!(
        (class("get_issue"), class("put"), class("get_rid")),
        (ToolClass::Read, ToolClass::Write, ToolClass::Destructive)
    );
}

#[test]
fn the_mount_of_the_folder_is_seen_for_reading() {
    let config = parse("mcp_servers: {s: {command: x, cwd: \"@project/src\"}}");
    let ServerTransport::Process(process) = &config.mcp_servers[0].transport else { panic!("a process") };
    assert_eq!((process.mounts.len(), process.mounts[0].writable), (1, false));
}

#[test]
fn what_is_probably_not_meant_about_servers_is_told() {
    let told =
        |text: &str| -> Vec<String> { parse(text).warnings().iter().map(ToString::to_string).collect() };
    assert!(told(EXAMPLE).is_empty(), "{:?}", told(EXAMPLE));
    let secret = parse("mcp_servers: {s: {command: x, class: read, env: {API_KEY: hunter2}}}").warnings();
    assert!(!secret[0].render().contains("hunter2"), "{}", secret[0].render());
    insta::assert_snapshot!(
        "server_warnings",
        told(
            "mcp_servers:\n  plain: {command: x}\n  off: {command: x, disabled: true, env: {API_KEY: abc}}\n  classed: {command: x, class: read, args: [\"--token=${GH_TOKEN}\", \"${HOME}\"], env: {API_KEY: abc, LOG: abc, GH_TOKEN: \"${GH_TOKEN}\"}}\n  web: {url: https://a.example, class: read, headers: {Authorization: Bearer x, X-Api-Key: y, X-Team: z}}\n  oauth: {url: https://a.example, class: read, oauth: {token_url: https://b.example, client_id: c, client_secret: d}}\n"
        )
        .join("\n")
    );
}

#[test]
fn agents_may_be_granted_tools_of_servers_that_are_not_yet_known() {
    let config = parse(
        "mcp_servers: {files: {command: x}}\nagents: {a: {tool_permissions: {files__read: {allowed: true}, file__read: {allowed: true}}}}",
    );
    let told: Vec<String> =
        config.check_tools(&["read_file"]).iter().map(|problem| problem.message.clone()).collect();
    assert_eq!(told, ["unknown tool `file__read`"]);
}

#[test]
fn callers_need_little() {
    let config = parse(
        "callers: {issuer: me, audience: [a, b], keys: [{algorithm: HS256, secret_file: s}]}\nbreaker: {rest: 5s}",
    );
    let callers = config.callers.unwrap();
    assert_eq!((callers.audience.len(), callers.algorithms.is_none(), callers.leeway), (2, true, None));
    assert_eq!(callers.claims, ClaimsConfig::default());
    let breaker = config.breaker.unwrap();
    assert_eq!((breaker.failures.get(), breaker.open_duration), (5, Duration::from_secs(5)));
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
        max_resource_bytes: u64::MAX,
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

/// The defaults are another notation for existing keys, and no agent.
#[test]
fn defaults_of_agents_are_the_workspace_and_the_bound_of_steps() {
    let config = parse(
        "agents: {defaults: {workspace: ~/w, restrict_to_workspace: true, max_tool_iterations: 7}, sm: {}}",
    );
    assert_eq!(config.workspace.unwrap().value.as_str(), "~/w");
    assert_eq!((config.conversation.max_tool_iterations, config.agents.len()), (Some(7), 1));
    for none in ["0", "-3"] {
        let config = parse(&format!("conversation: {{max_tool_iterations: {none}}}"));
        assert_eq!(config.conversation.max_tool_iterations, Some(0), "{none}");
    }
}
