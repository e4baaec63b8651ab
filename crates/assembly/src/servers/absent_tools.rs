//! Tools of servers that are declared and not up: a call of one says so, instead of that there is no such tool.

use std::sync::Arc;

use serde_json::json;
use toolgate_connect::Bridge;
use toolgate_gate::{AbsentTool, AbsentTools, FailedServer, ToolSpec};
use toolgate_policy::Requirements;
use toolgate_types::{Category, ErrorCode, Failure};

use super::UnusableServer;

/// The tools of servers that are not up.
pub(super) struct AbsentServerTools {
    bridge: Arc<Bridge>,
    unusable: Vec<UnusableServer>,
}

impl AbsentServerTools {
    pub(super) fn new(bridge: Arc<Bridge>, unusable: Vec<UnusableServer>) -> Self {
        Self { bridge, unusable }
    }
}

impl AbsentTools for AbsentServerTools {
    fn find(&self, name: &str) -> Option<AbsentTool> {
        let of_server = |server: &UnusableServer| {
            server.own_tool_name(name).and_then(|own_name| unusable_tool(server, name, own_name))
        };
        self.bridge.absent_tool(name).or_else(|| self.unusable.iter().find_map(of_server))
    }

    fn failed_servers(&self) -> Vec<FailedServer> {
        let mut failed = self.bridge.failed_servers();
        failed.extend(self.unusable.iter().map(failed_server));
        failed
    }
}

/// A server that cannot be started at all, with its declared tools and any other.
fn failed_server(server: &UnusableServer) -> FailedServer {
    let names = server.tool_names().into_iter();
    let tools = names.filter_map(|(name, own_name)| declared_spec(server, &name, &own_name)).collect();
    FailedServer { tools, failure: failure(server) }
}

/// A tool of a server that cannot be started at all.
fn unusable_tool(server: &UnusableServer, name: &str, own_name: &str) -> Option<AbsentTool> {
    Some(AbsentTool { spec: declared_spec(server, name, own_name)?, failure: failure(server) })
}

/// What the declaration of a server says about one of its tools; `None` if it is disallowed.
fn declared_spec(server: &UnusableServer, name: &str, own_name: &str) -> Option<ToolSpec> {
    let (class, permissions) = server.declared_tool(own_name)?;
    let anything = || json!({"type": "object"}).into();
    Some(ToolSpec {
        name: name.parse().ok()?,
        title: String::new(),
        description: String::new(),
        class,
        category: Category::Mcp,
        input_schema: anything(),
        output_schema: anything(),
        requirements: Some(Requirements { permissions, elevated: None, class }),
        output_policy: None,
        timeout: None,
        suspended: None,
    })
}

fn failure(server: &UnusableServer) -> Failure {
    let message =
        format!("the server `{}` is not running: it is not installed or not configured", server.name);
    Failure::new(ErrorCode::ServerUnavailable, message)
        .help("go on without this tool; the operator is told more")
        .operator_note(format!("mcp server `{}`: {}", server.name, server.problem.message))
}
