//! Limits, approvals, refusals and records hold for files as resources as they do for the tools behind them.

use serde_json::{Value, json};
use toolgate_attack::person;
use toolgate_types::{Caller, Sha256, StateKey, Trust};

use crate::resources::{base64, read};
use crate::stdio_fixture::{ERAS, Era, World, guided};

const FILE: &str = "toolgate://files/project/a.txt";

#[test]
fn a_yes_to_showing_a_file_is_no_yes_to_a_call_and_the_reverse() {
    let world = World::new();
    let supervised = Caller { trust: Trust::Supervised, ..guided() };
    let mut client = world.client_as(Era::Newer, json!({"elicitation": {}}), supervised);
    let by_call = json!({"name": "read_file", "arguments": {"path": "@project/a.txt"}});
    let ways = [("resources/read", json!({"uri": FILE})), ("tools/call", by_call)];
    for ((asked_by, first), (answered_by, second)) in [(&ways[0], &ways[1]), (&ways[1], &ways[0])] {
        let asked = client.request(asked_by, first.clone())["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let with_yes = |params: &Value| {
            let mut params = params.clone();
            params["requestState"] = asked["requestState"].clone();
            params["inputResponses"] = json!({"approval": {"action": "accept"}});
            params
        };
        let other = client.request(answered_by, with_yes(second));
        assert_eq!(other["error"]["code"], -32602, "asked by {asked_by}: {other}");
        let same = client.request(asked_by, with_yes(first));
        assert!(same["result"].to_string().contains("hello"), "the question stands: {same}");
    }
}

#[test]
fn a_bound_that_somebody_set_holds_for_resources_too() {
    let agents = "agents:\n  narrow: {max_read_bytes: 100}\n  \
                  one: {tool_permissions: {read_file: {allowed: true, max_read_bytes: 100}}}\n  plain: {}\n";
    let whole = "limits: {max_read_bytes: 100}\n";
    let wide = "limits: {max_read_bytes: 64MiB}\n";
    for (config, agent, fits) in [
        (agents, Some("narrow"), 100),
        (agents, Some("one"), 100),
        (agents, Some("plain"), 4 << 20),
        (agents, None, 4 << 20),
        (whole, None, 100),
        // The operator's limit is a limit, even where it equals the profile's own.
        ("limits: {max_read_bytes: 256KiB}\n", None, 256 << 10),
        ("agents:\n  same: {max_read_bytes: 256KiB}\n", Some("same"), 256 << 10),
        // A response is held in memory, so the resource limit applies even if the tool's is higher.
        (wide, None, 4 << 20),
    ] {
        let world = World::with(|options| options.config(config));
        std::fs::write(world.workspace.join("a.txt"), "x".repeat(fits)).unwrap();
        std::fs::write(world.workspace.join("b.txt"), "x".repeat(fits + 1)).unwrap();
        std::fs::write(world.workspace.join("b.bin"), vec![0; fits + 1]).unwrap();
        let caller = Caller { agent: agent.map(|name| name.parse().unwrap()), ..person("mcp-bound") };
        let mut client = world.client_as(Era::Older, json!({}), caller);
        let told = read(&mut client, FILE);
        let length = told["result"]["contents"][0]["text"].as_str().map(str::len);
        assert_eq!(length, Some(fits), "{config} {agent:?}: {:.300}", told.to_string());
        for name in ["b.txt", "b.bin"] {
            let refused = read(&mut client, &FILE.replace("a.txt", name));
            let code = &refused["error"]["data"]["code"];
            assert_eq!(code, "read_limit", "{config} {agent:?} {name}: {:.300}", refused.to_string());
        }
    }
}

#[test]
fn a_list_that_is_refused_says_so_and_does_not_end() {
    let rates = "rate_limits:\n  - {tool: find_files, calls: 1, per: 1h}\n";
    for era in ERAS {
        let world = World::with(|options| options.config(rates));
        let mut client = world.client_as(era, json!({}), guided());
        let first = client.request("resources/list", json!({}));
        assert_eq!(first["result"]["resources"].as_array().map(Vec::len), Some(1), "{first}");
        let second = client.request("resources/list", json!({}));
        assert_eq!(second["error"]["data"]["code"], "rate_limited", "{second}");
        assert_eq!(second["error"]["data"]["mount"], "@project", "{second}");
        assert!(second["error"]["message"].as_str().unwrap().contains("@project"), "{second}");
    }
}

#[test]
fn the_record_of_a_blob_is_of_the_blob() {
    let world = World::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    std::fs::write(world.workspace.join("a.bin"), &bytes).unwrap();
    let mut client = world.client(Era::Older);
    let told = read(&mut client, "toolgate://files/project/a.bin");
    assert_eq!(told["result"]["contents"][0]["blob"], base64(&bytes));
    let answered = base64(&bytes);
    let digest = toolgate_audit::output_digest(&StateKey::new([7; 32]), Sha256::of(answered.as_bytes()));
    let recorded = world.records().pop().unwrap().response.unwrap();
    assert_eq!((recorded.output_bytes, recorded.output_hash), (answered.len() as u64, digest));
}
