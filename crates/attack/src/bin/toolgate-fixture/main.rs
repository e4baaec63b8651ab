//! A gate with the tools and resources that the MCP conformance suite expects, behind the same HTTP server as `toolgate serve`.
//!
//! It listens on loopback only and requires no token. One line on standard output gives its address, and it ends with its standard input.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "this program is only ever used by tests, which arrange files by hand and fail by panicking"
)]

mod resources;
mod tools;

use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolgate_attack::{Bench, BenchOptions, Scratch, person};
use toolgate_gate::{Gate, GateConfig};
use toolgate_serve::{
    Application, Auth, AuthRequirement, HttpLimits, HttpOptions, OutputStore, ReadyCheck, RejectedHosts,
    Service, ServiceOptions, serve_http,
};
use toolgate_tools::Profile;
use toolgate_types::{Caller, Trust};

use crate::resources::Static;
use crate::tools::Changing;

fn main() {
    let scratch = Scratch::new();
    let gate = Arc::new(OnceLock::new());
    let bench = open(&scratch, &gate);
    let set = gate.set((Arc::clone(bench.gate()), bench.loaded().clone()));
    assert!(set.is_ok(), "the gate is opened once");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", json!({"url": format!("http://{}/mcp", listener.local_addr().unwrap())}));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime
        .block_on(serve_http(options(), service(&scratch, &bench), listener, until_end_of_input()))
        .unwrap();
}

/// What the tool that changes the tool list needs, once it exists.
type Opened = Arc<OnceLock<(Arc<Gate>, GateConfig)>>;

fn open(scratch: &Scratch, gate: &Opened) -> Bench {
    let workspace = scratch.folder("workspace");
    std::fs::write(workspace.join("read me.txt"), "a file\n").unwrap();
    let gate = Arc::clone(gate);
    let changing = Changing::new(move |added| {
        if let Some((gate, loaded)) = gate.get() {
            gate.replace_config(if added { with_passing(loaded) } else { loaded.clone() });
        }
    });
    let options = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("state"));
    tools::all(&changing).into_iter().fold(options, BenchOptions::tool).open()
}

fn with_passing(loaded: &GateConfig) -> GateConfig {
    let mut loaded = loaded.clone();
    loaded.registry.register(tools::passing()).unwrap();
    loaded
}

fn service(scratch: &Scratch, bench: &Bench) -> Arc<Service> {
    let folder = scratch.folder("outputs");
    let outputs = OutputStore::new(move || Dir::open_ambient_dir(&folder, ambient_authority()));
    Service::new(ServiceOptions {
        resources: vec![Arc::new(Static)],
        ..ServiceOptions::new(Arc::clone(bench.front()), outputs)
    })
}

fn options() -> HttpOptions {
    HttpOptions {
        auth: Auth {
            requirement: AuthRequirement::None,
            person: Caller { trust: Trust::Guided, ..person("conformance") },
        },
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        public_url: None,
        limits: HttpLimits::default(),
        ready: ReadyCheck(Arc::new(|| true)),
        rejected_hosts: RejectedHosts::default(),
        application: Application::default(),
    }
}

/// Cancelled at the end of standard input, when the parent process is gone.
fn until_end_of_input() -> CancellationToken {
    let token = CancellationToken::new();
    let ended = token.clone();
    std::thread::spawn(move || {
        let mut ignored = Vec::new();
        let _ = File::open("/dev/stdin").and_then(|mut input| input.read_to_end(&mut ignored));
        ended.cancel();
    });
    token
}
