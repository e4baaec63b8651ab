//! One `tools/call`: one call of the gate.

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_gate::CallOptions;
use toolgate_types::ToolCall;

use crate::mcp::answer::answered;
use crate::mcp::{McpHandler, Visitor};

impl McpHandler {
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
        visitor: Visitor,
    ) -> CallToolResponse {
        let _under_way = self.service.calls.token();
        let room = self.connection.room().await;
        let arguments =
            request.arguments.map(Value::Object).unwrap_or_else(|| Value::Object(Default::default()));
        let mut call = ToolCall::new(request.name, arguments);
        call.client_id = Some(context.id.to_string());
        let cancelled = CancellationToken::new();
        let options = CallOptions { cancelled: cancelled.clone(), ..CallOptions::default() };
        let calling = self.service.front().call(call, visitor.credential, options);
        tokio::pin!(calling);
        let called = tokio::select! {
            biased;
            called = &mut calling => called,
            () = ended(&context.ct, self.service.ending()) => {
                cancelled.cancel();
                calling.await
            }
        };
        self.connection.keep(&context.id, room);
        answered(called, &self.service.outputs, visitor.binding).into()
    }
}

async fn ended(one: &CancellationToken, other: &CancellationToken) {
    tokio::select! {
        () = one.cancelled() => {}
        () = other.cancelled() => {}
    }
}
