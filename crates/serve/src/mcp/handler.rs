//! What a client may ask, and who answers it.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Extensions, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};

use crate::mcp::{Connection, Visitor, Who};
use crate::service::Service;

/// Tools told at once; the rest comes with the next page.
const PAGE: usize = 200;

/// What clients are told about the tools as a whole.
const INSTRUCTIONS: &str = "These tools read, search and change the files of one workspace and run commands in it, inside a sandbox. \
Paths are relative to the workspace or begin with a mount alias such as @project. Some calls are shown to a person first and wait for the answer; \
a call that is refused will be refused again unless the person or the operator changes something.";

/// Answers one connection or session.
#[derive(Clone)]
pub struct McpHandler {
    pub(crate) service: Arc<Service>,
    pub(crate) connection: Arc<Connection>,
    who: Known,
}

/// Who is calling, as far as it is known before a request comes.
#[derive(Clone)]
enum Known {
    Always(Visitor),
    ByRequest,
}

impl McpHandler {
    /// Answers whoever comes.
    #[must_use]
    pub fn new(service: Arc<Service>, who: Who) -> Self {
        Self::over(service, who, Arc::new(Connection::without_wire()))
    }

    pub(crate) fn over(service: Arc<Service>, who: Who, connection: Arc<Connection>) -> Self {
        let who = match who {
            Who::Fixed(credential) => Known::Always(Visitor::of(credential)),
            Who::Visitor => Known::ByRequest,
        };
        Self { service, connection, who }
    }

    pub(crate) fn visitor(&self, extensions: &Extensions) -> Result<Visitor, ErrorData> {
        match &self.who {
            Known::Always(visitor) => Ok(visitor.clone()),
            Known::ByRequest => Visitor::in_request(extensions),
        }
    }

    pub(crate) async fn tools(&self, visitor: &Visitor) -> Result<Arc<[Tool]>, ErrorData> {
        let listed = self.service.lists.of(self.service.front(), visitor).await;
        listed.map_err(|failure| ErrorData::invalid_request(failure.to_string(), None))
    }
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let instructions = self.service.instructions.as_deref().unwrap_or(INSTRUCTIONS);
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("toolgate", env!("CARGO_PKG_VERSION")).with_title("Toolgate"),
            )
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let visitor = self.visitor(&context.extensions)?;
        let tools = self.tools(&visitor).await?;
        let (tools, next) = page(&tools, request.and_then(|request| request.cursor), PAGE)?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let visitor = self.visitor(&context.extensions)?;
        Ok(self.call(request, context, visitor).await)
    }
}

/// The items of one page, and where the next begins.
pub(crate) fn page<Item: Clone>(
    items: &[Item],
    cursor: Option<String>,
    size: usize,
) -> Result<(Vec<Item>, Option<String>), ErrorData> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|start| *start <= items.len())
            .ok_or_else(|| ErrorData::invalid_params("this cursor was not handed out", None))?,
    };
    let rest = items.get(start..).unwrap_or_default();
    let next = (rest.len() > size).then(|| (start + size).to_string());
    Ok((rest.iter().take(size).cloned().collect(), next))
}
