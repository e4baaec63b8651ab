//! Admits the calls of a client: those of a server that callers share.

use rmcp::model::ErrorData;
use toolgate_types::Stage;

use crate::admission::{CallPermit, MIN_BUDGETED_BYTES, Overload};
use crate::mcp::call::{CallRequest, call_of};
use crate::mcp::request::RequestContext;
use crate::mcp::{ClientIdentity, McpHandler};

impl McpHandler {
    /// Waits for a permit to run.
    pub(crate) async fn acquire_permit(
        &self,
        given_up: impl Future<Output = ()>,
        visitor: &ClientIdentity,
    ) -> Result<CallPermit, Overload> {
        if !self.is_shared() {
            return Ok(CallPermit::default());
        }
        let given_up = async {
            tokio::select! {
                () = given_up => {}
                () = visitor.ended.cancelled() => {}
            }
        };
        self.service.caller_limit.acquire(visitor.owner, given_up).await
    }

    /// Refuses a call above a limit. It is recorded like every other.
    pub(crate) async fn overloaded(
        &self,
        overload: Overload,
        wanted: CallRequest,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> ErrorData {
        let (call, front) = (call_of(wanted, context), self.service.front());
        let refused =
            front.refuse(&call, visitor.credential.clone(), Stage::Permission, overload.failure()).await;
        self.service.metrics.answered(&refused);
        overload.to_error_data()
    }

    /// Rejects a request above the limit of unanswered ones on this connection. If it is a call, the audit log aggregates it with
    /// others like it.
    pub(crate) fn reject_request(&self, tool: Option<&str>, visitor: &ClientIdentity) -> ErrorData {
        let overload = Overload::Connection;
        if let Some(tool) = tool {
            let (gate, caller) = (self.service.front(), visitor.credential.unverified_caller());
            gate.gate().count_refusal(tool, caller, &overload.failure());
        }
        overload.to_error_data()
    }

    /// Waits for budget for a response of this many bytes. A cancelled call needs none.
    pub(crate) async fn acquire_response_memory(
        &self,
        bytes: usize,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<(), ErrorData> {
        if bytes < MIN_BUDGETED_BYTES || !self.is_shared() {
            return Ok(());
        }
        tokio::select! {
            biased;
            taken = self.service.response_bytes.acquire_in_time(visitor.owner, bytes) => {
                context.hold_memory(taken.map_err(Overload::to_error_data)?);
                Ok(())
            }
            () = self.cancelled(context) => Ok(()),
        }
    }
}
