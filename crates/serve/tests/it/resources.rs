//! Files, stored outputs and tool list changes, as a client sees them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_attack::{Scratch, person};
use toolgate_gate::{ApprovedCall, CallContext, GateConfig, Registry, Tool, ToolFuture, ToolSpec};
use toolgate_serve::{Service, ServiceOptions};
use toolgate_types::{Caller, Decision, ToolClass, ToolOutput};

use crate::stdio_fixture::{Client, ERAS, Era, World, guided};

pub(crate) fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({"uri": uri}))
}

#[test]
fn files_are_read_by_address_under_the_same_rules() {
    for era in ERAS {
        let world = World::new();
        std::fs::create_dir(world.workspace.join("ünter")).unwrap();
        std::fs::write(world.workspace.join("ünter/b c.txt"), "text\n").unwrap();
        std::fs::write(world.workspace.join(".env"), "SECRET=1").unwrap();
        let mut client = world.client(era);
        let templates = client.request("resources/templates/list", json!({}))["result"].clone();
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "toolgate://files/{alias}/{+path}");
        let answer = read(&mut client, "toolgate://files/project/%C3%BCnter/b%20c.txt");
        assert_eq!(answer["result"]["contents"][0]["text"], "text\n", "{answer}");
        assert_eq!(answer["result"]["contents"][0]["mimeType"], "text/plain");
        let missing = if era == Era::Older { -32002 } else { -32602 };
        for (uri, code) in [
            ("toolgate://files/project/none.txt", missing),
            ("toolgate://files/elsewhere/a.txt", missing),
            ("toolgate://files/project/.env", -32602),
            ("toolgate://files/project/../../etc/passwd", -32602),
            ("toolgate://files/project/%2e%2e/%2e%2e/etc/passwd", -32602),
            ("toolgate://files/project//etc/passwd", missing),
            ("toolgate://files/", missing),
            ("toolgate://outputs/0123456789abcdef0123456789abcdef", missing),
            ("toolgate://outputs/../audit", missing),
            ("file:///etc/passwd", missing),
            ("", missing),
        ] {
            let answer = read(&mut client, uri);
            assert_eq!(answer["error"]["code"], code, "{era:?} {uri}: {answer}");
            assert_eq!(answer["error"]["data"]["uri"], uri, "{answer}");
            assert!(!answer.to_string().contains("SECRET"));
        }
        client.close().1.unwrap();
        let records = world.records();
        assert!(records.iter().all(|record| record.tool.name == "read_file"));
        assert_eq!(records.iter().filter(|record| record.decision == Decision::Allowed).count(), 1);
    }
}

#[test]
fn files_are_listed_in_pages_without_what_may_not_be_seen() {
    let world = World::new();
    std::fs::write(world.workspace.join(".env"), "SECRET=1").unwrap();
    std::fs::write(world.workspace.join(".gitignore"), "ignored.txt\n").unwrap();
    std::fs::write(world.workspace.join("ignored.txt"), "x").unwrap();
    // More than any tool returns in one page; and some whose names sort differently from their directories.
    for number in 0..1400 {
        std::fs::write(world.workspace.join(format!("f{number:04}.txt")), "x").unwrap();
    }
    for folder in ["@types", "f0199", "f0199.txt.d", "z"] {
        std::fs::create_dir(world.workspace.join(folder)).unwrap();
        std::fs::write(world.workspace.join(folder).join("in.md"), "four").unwrap();
    }
    use std::os::unix::ffi::OsStrExt as _;
    for number in 0..250 {
        let name = [b"f0500-\xff".as_slice(), number.to_string().as_bytes()].concat();
        std::fs::write(world.workspace.join(std::ffi::OsStr::from_bytes(&name)), "x").unwrap();
    }
    let mut client = world.client(Era::Older);
    let (mut seen, mut pages, mut cursor) = (BTreeSet::new(), 0, None);
    loop {
        let params = cursor.map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
        let result = client.request("resources/list", params)["result"].clone();
        let resources = result["resources"].as_array().unwrap();
        assert!(resources.len() <= 200);
        for resource in resources {
            let (bytes, kind) = match resource["name"].as_str().unwrap() {
                name if name.ends_with(".md") => (4, "text/markdown"),
                "a.txt" => (6, "text/plain"),
                ".gitignore" => (12, "text/plain"),
                _ => (1, "text/plain"),
            };
            assert_eq!(
                (&resource["size"], &resource["mimeType"]),
                (&json!(bytes), &json!(kind)),
                "{resource}"
            );
            assert!(seen.insert(resource["uri"].as_str().unwrap().to_owned()), "told twice: {resource}");
        }
        pages += 1;
        match result.get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    // All of them, `a.txt` and `.gitignore`; no name that is not UTF-8, because no URI could name it.
    assert_eq!((seen.len(), pages), (1400 + 4 + 2, 8));
    for name in ["f1399.txt", "a.txt", "%40types/in.md", "f0199/in.md", "f0199.txt.d/in.md", "z/in.md"] {
        assert!(seen.contains(&format!("toolgate://files/project/{name}")), "{name}");
    }
    assert!(!seen.iter().any(|uri| uri.contains(".env") || uri.contains("ignored")), "{seen:?}");
    for cursor in ["x", "-1", "200", "", "toolgate://files/elsewhere/a.txt", "toolgate://files/project/../a"]
    {
        let answer = client.request("resources/list", json!({"cursor": cursor}));
        assert_eq!(answer["error"]["code"], -32602, "{cursor}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("without one"), "{answer}");
    }
    // A cursor still works if its file is gone.
    let after = json!({"cursor": "toolgate://files/project/f1398.txt"});
    std::fs::remove_file(world.workspace.join("f1398.txt")).unwrap();
    let rest = client.request("resources/list", after)["result"]["resources"].clone();
    let rest: Vec<_> = rest.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(rest, ["f1399.txt", "z/in.md"]);
}

#[test]
fn files_are_read_whole_or_not_at_all() {
    let world = World::new();
    let most = 4 << 20;
    let lines = "0123456789abcde\n".repeat(most / 16);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for (name, content) in [
        ("long.txt", lines.as_bytes()),
        ("line.txt", lines.replace('\n', " ").as_bytes()),
        ("longer.txt", format!("{lines}x").as_bytes()),
        ("data.bin", &bytes),
        ("photo.png", &bytes),
        ("lies.txt", &bytes),
        ("longer.bin", &[&bytes[..], &vec![0; most]].concat()),
        ("empty.json", b""),
    ] {
        std::fs::write(world.workspace.join(name), content).unwrap();
    }
    for era in ERAS {
        let mut client = world.client(era);
        let mut contents = |name: &str| read(&mut client, &format!("toolgate://files/project/{name}"));
        for (name, kind) in
            [("long.txt", "text/plain"), ("line.txt", "text/plain"), ("empty.json", "application/json")]
        {
            let answer = contents(name);
            let told = &answer["result"]["contents"][0];
            let expected = std::fs::read_to_string(world.workspace.join(name)).unwrap();
            assert!(told["text"] == expected, "{name}: {:.300}", answer.to_string());
            assert_eq!(told["mimeType"], kind, "{name}");
        }
        let encoded = base64(&bytes);
        for (name, kind) in [
            ("data.bin", "application/octet-stream"),
            ("photo.png", "image/png"),
            ("lies.txt", "application/octet-stream"),
        ] {
            let told = &contents(name)["result"]["contents"][0];
            assert!(told["blob"] == encoded && told.get("text").is_none(), "{name}");
            assert_eq!(told["mimeType"], kind, "{name}");
        }
        for name in ["longer.txt", "longer.bin"] {
            let answer = contents(name);
            assert_eq!(answer["error"]["code"], -32602, "{name}: {:.300}", answer.to_string());
            assert_eq!(answer["error"]["data"]["code"], "read_limit", "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("start_line"), "{answer}");
        }
    }
    assert!(world.records().iter().all(|record| record.tool.name == "read_file"));
    assert_eq!(world.records().len(), 16, "each is one call");
}

/// By hand, as an independent implementation.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let letters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number =
            three.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        (0..4).for_each(|place| {
            text.push(if place <= three.len() { letters[number >> (18 - 6 * place) & 63] } else { '=' });
        });
    }
    text
}

#[test]
fn every_mount_has_its_pages() {
    let scratch = Scratch::new();
    let package = scratch.folder("p");
    let world = World::with(|options| options.package(&package));
    for number in 0..299 {
        std::fs::write(world.workspace.join(format!("f{number:03}.txt")), "x").unwrap();
        std::fs::write(package.join(format!("g{number:03}.txt")), "x").unwrap();
    }
    let aliases = vec!["@project".to_owned(), "@pkg".to_owned()];
    let service = Service::new(ServiceOptions { aliases, ..world.options() });
    let mut client = Client::begun(service, Era::Older, json!({}), guided());
    let (mut told, mut sizes, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let page = client.request("resources/list", params)["result"].clone();
        let uris = page["resources"].as_array().unwrap().iter();
        let uris: Vec<String> = uris.map(|one| one["uri"].as_str().unwrap().to_owned()).collect();
        sizes.push(uris.len());
        told.extend(uris);
        let Some(next) = page.get("nextCursor") else { break };
        params = json!({"cursor": next});
    }
    // The second page ends the first mount and begins the second, which the third continues.
    assert_eq!(sizes, [200, 200, 199]);
    let project = (0..299).map(|number| format!("toolgate://files/project/f{number:03}.txt"));
    let package = (0..299).map(|number| format!("toolgate://files/pkg/g{number:03}.txt"));
    let first = std::iter::once("toolgate://files/project/a.txt".to_owned());
    assert_eq!(told, first.chain(project).chain(package).collect::<Vec<_>>());
    // If a page is full at the end of a mount, the next mount is not forgotten.
    std::fs::remove_file(world.workspace.join("a.txt")).unwrap();
    (0..99).for_each(|number| {
        std::fs::remove_file(world.workspace.join(format!("f{number:03}.txt"))).unwrap();
    });
    let full = client.request("resources/list", json!({}))["result"].clone();
    assert_eq!(full["nextCursor"], "toolgate://files/pkg/g000.txt", "{full}");
    assert_eq!(full["resources"].as_array().unwrap().len(), 201);
}

#[test]
fn who_may_not_read_files_is_offered_none() {
    let agents = "agents:\n  writer: {tool_permissions: {write_file: {allowed: true}}}\n";
    let world = World::with(|options| options.config(agents));
    let writer = Caller { agent: Some("writer".parse().unwrap()), ..person("mcp-writer") };
    for era in ERAS {
        let mut client = world.client_as(era, json!({}), writer.clone());
        let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<&str> =
            tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["write_file"]);
        assert_eq!(client.request("resources/list", json!({}))["result"]["resources"], json!([]));
        assert_eq!(
            client.request("resources/templates/list", json!({}))["result"]["resourceTemplates"],
            json!([])
        );
        assert!(read(&mut client, "toolgate://files/project/a.txt").get("error").is_some());
        // A tool that is not listed cannot be called either.
        assert_eq!(client.call("read_file", json!({"path": "a.txt"}))["isError"], true);
    }
}

#[test]
fn a_whole_output_is_kept_for_its_caller_alone() {
    let world = World::with(|options| options.commands());
    for era in ERAS {
        let service = world.service();
        let mut client = Client::begun(service.clone(), era, json!({}), person("mcp-long"));
        let result = client.call("run_command", json!({"command": "seq 1 60000"}));
        let blocks = result["content"].as_array().unwrap();
        let link = blocks.iter().find(|block| block["type"] == "resource_link").expect("a link");
        let uri = link["uri"].as_str().unwrap();
        assert_eq!(result["structuredContent"]["full_output"], uri, "{era:?}");
        let whole: String = (1..=60000).map(|number| format!("{number}\n")).collect();
        assert!(blocks[0]["text"].as_str().unwrap().len() < whole.len());
        assert_eq!(link["size"], whole.len());
        // A client that shows only texts learns of it, too.
        let notice = blocks[1]["text"].as_str().unwrap();
        let size = whole.len().to_string();
        assert!([uri, "15 minutes", &size].iter().all(|told| notice.contains(told)), "{notice}");
        assert!(link["description"].as_str().unwrap().contains("15 minutes"), "{link}");
        assert_eq!(read(&mut client, uri)["result"]["contents"][0]["text"], whole);
        assert_eq!(read(&mut client, uri)["result"]["contents"][0]["text"], whole, "it can be read again");
        let other = Caller { subject: "stranger".to_owned(), ..person("mcp-long") };
        let mut stranger = Client::begun(service, era, json!({}), other);
        assert!(read(&mut stranger, uri).get("error").is_some(), "{era:?}");
    }
}

#[test]
fn kept_outputs_are_private_files_and_gone_at_the_end() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with(|options| options.commands());
    let folder = world.outputs();
    let mut client = world.client_as(Era::Older, json!({}), person("mcp-gone"));
    client.call("run_command", json!({"command": "seq 1 60000"}));
    let kept: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    client.close().1.unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

/// The gate's tools without one of them.
fn without(world: &World, name: &str) -> GateConfig {
    let mut registry = Registry::new();
    for tool in world.bench.loaded().registry.iter().filter(|tool| tool.spec().name.as_str() != name) {
        registry.register(Arc::clone(tool)).unwrap();
    }
    GateConfig { registry, ..world.bench.loaded().clone() }
}

/// A tool of the server `slow`.
struct SlowTool(ToolSpec);

impl Tool for SlowTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run(self: Arc<Self>, _: ApprovedCall, _: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolOutput::new("here", json!({}))) })
    }
}

/// The same configuration once the server `slow` has listed its tool.
fn with_slow_tool(loaded: &GateConfig) -> GateConfig {
    let mut loaded = loaded.clone();
    let known = loaded.registry.iter().next().unwrap().spec().clone();
    let anything = || json!({"type": "object"}).into();
    let (name, class) = ("slow__tool".parse().unwrap(), ToolClass::Read);
    let (input_schema, output_schema) = (anything(), anything());
    let spec = ToolSpec { name, class, input_schema, output_schema, ..known };
    loaded.registry.register(Arc::new(SlowTool(spec))).unwrap();
    loaded
}

fn is_change(message: &Value) -> bool {
    message["method"] == "notifications/tools/list_changed"
}

#[test]
fn a_client_is_told_when_it_sees_other_tools() {
    let world = World::new();
    let mut older = world.client(Era::Older);
    let mut newer = world.client(Era::Newer);
    let listen = newer.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let acknowledged = newer.next(|message| message["method"] == "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"]["toolsListChanged"], true, "{acknowledged}");
    let mut deaf = world.client(Era::Newer);
    // All clients are connected.
    for client in [&mut older, &mut newer, &mut deaf] {
        client.call("read_file", json!({"path": "a.txt"}));
    }
    world.bench.gate().replace_config(world.bench.loaded().clone());
    world.bench.gate().replace_config(without(&world, "delete_file"));
    older.next(is_change);
    let told = newer.next(is_change);
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen, "{told}");
    let tools = older.request("tools/list", json!({}))["result"]["tools"].clone();
    assert!(!tools.to_string().contains("\"delete_file\""));
    // No notification without a change or a subscription; and a subscription ends with its connection.
    for client in [older, deaf] {
        let (rest, ended) = client.close();
        assert!(!rest.iter().any(is_change), "{rest:?}");
        ended.unwrap();
    }
    newer.close().1.unwrap();
}

#[test]
fn a_client_is_told_of_what_changed_before_anybody_looked_out() {
    let world = World::new();
    let mut newer = world.client(Era::Newer);
    let mut older = world.silent();
    let about = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    older.request("initialize", about);
    for client in [&mut older, &mut newer] {
        assert!(client.request("tools/list", json!({})).to_string().contains("\"delete_file\""));
    }
    world.bench.gate().replace_config(without(&world, "delete_file"));
    older.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    newer.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    for mut client in [older, newer] {
        client.next(is_change);
        client.close().1.unwrap();
    }
}

#[test]
fn a_list_waits_for_no_server_and_a_call_only_for_its_own() {
    for era in ERAS {
        let world = World::new();
        let all = world.bench.loaded().clone();
        let (pending, when) = tokio::sync::watch::channel(vec!["slow__".to_owned(), "hung__".to_owned()]);
        let service = Service::new(ServiceOptions { pending: Some(when), ..world.options() });
        let mut client = Client::begun(service, era, json!({}), person("mcp-early"));
        assert!(client.request("tools/list", json!({})).to_string().contains("\"read_file\""), "{era:?}");
        let call = client.ask("tools/call", json!({"name": "slow__tool", "arguments": {}}));
        // Neither a tool that is there, nor one that no pending server can bring, waits.
        assert_eq!(client.call("read_file", json!({"path": "a.txt"}))["isError"], false);
        for other in ["nothing", "slow_tool", "slower__tool", "fast__tool"] {
            let refused = client.call(other, json!({}));
            assert_eq!(refused["_meta"]["toolgate/error"]["code"], "unknown_tool", "{other}: {refused}");
        }
        world.bench.gate().replace_config(with_slow_tool(&all));
        pending.send_replace(vec!["hung__".to_owned()]);
        assert_eq!(client.answer(call)["result"]["isError"], false, "{era:?}");
        world.bench.gate().replace_config(all);
    }
}

#[test]
fn a_list_asks_nobody_and_keeps_nobody_from_asking() {
    let supervised = Caller { trust: toolgate_types::Trust::Supervised, ..guided() };
    let world = World::new();
    let mut client = world.client_as(Era::Newer, json!({"elicitation": {}}), supervised);
    for _ in 0..70 {
        assert_eq!(client.request("resources/list", json!({}))["result"]["resources"], json!([]));
    }
    assert_eq!(world.records().len(), 70, "nothing waits for an answer");
    assert_eq!(read(&mut client, "toolgate://files/project/a.txt")["result"]["resultType"], "input_required");
}

#[test]
fn a_client_that_is_ready_twice_is_told_once() {
    let world = World::new();
    let mut client = world.client(Era::Older);
    for _ in 0..10 {
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
    client.call("read_file", json!({"path": "a.txt"}));
    world.bench.gate().replace_config(without(&world, "delete_file"));
    client.next(is_change);
    client.call("read_file", json!({"path": "a.txt"}));
    let (rest, ended) = client.close();
    assert!(!rest.iter().any(is_change), "{rest:?}");
    ended.unwrap();
}

#[test]
fn a_question_about_a_file_can_be_asked_too() {
    let supervised = Caller { trust: toolgate_types::Trust::Supervised, ..guided() };
    let world = World::new();
    let mut client = world.client_as(Era::Newer, json!({"elicitation": {}}), supervised);
    let uri = "toolgate://files/project/a.txt";
    let asked = read(&mut client, uri)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let answer = json!({
        "uri": uri, "requestState": asked["requestState"], "inputResponses": {"approval": {"action": "accept"}},
    });
    let answer = client.request("resources/read", answer);
    assert_eq!(answer["result"]["contents"][0]["text"], "hello\n", "{answer}");
}
