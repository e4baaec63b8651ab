//! The MCP request handler.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ConstString as _, CustomRequest, CustomResult, ErrorData,
    Extensions, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, PromptsCapability, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::Value;

use crate::mcp::call::is_stateless;
use crate::mcp::error_messages::{invalid_params, method_not_found};
use crate::mcp::inline_dispatch::StartedCalls;
use crate::mcp::log_messages::LogLevelRequest;
use crate::mcp::subscriptions::MAX_SUBSCRIBED;
use crate::mcp::tool_list_watcher::ToolListWatcher;
use crate::mcp::{CallerSource, ClientIdentity, McpConnection};
use crate::service::Service;

/// Tools per page of `tools/list`.
const PAGE_SIZE: usize = 200;

/// The default instructions for clients.
const INSTRUCTIONS: &str = "These tools read, search and change the files of one workspace and run commands in it, inside a sandbox. \
Paths are relative to the workspace or begin with a mount alias such as @project. Some calls are shown to a person first and wait for the answer; \
a call that is refused will be refused again unless the person or the operator changes something.";

/// The methods that are served, to distinguish an unknown method from invalid parameters.
const SERVED_METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "subscriptions/listen",
];

/// The methods that are served if there are servers behind the gate.
const UPSTREAM_METHODS: &[&str] =
    &["logging/setLevel", "resources/subscribe", "resources/unsubscribe", "completion/complete"];

/// Handles the requests of one connection or session.
#[derive(Clone)]
pub struct McpHandler {
    pub(crate) service: Arc<Service>,
    pub(crate) connection: Arc<McpConnection>,
    pub(crate) started: StartedCalls,
    caller: KnownIdentity,
}

/// The identity, if it is known before a request arrives.
#[derive(Clone)]
enum KnownIdentity {
    Always(Box<ClientIdentity>),
    PerRequest,
}

impl McpHandler {
    /// A handler for the clients of `who`.
    #[must_use]
    pub fn new(service: Arc<Service>, who: CallerSource) -> Self {
        Self::with_connection(service, who, Arc::new(McpConnection::default()))
    }

    pub(crate) fn with_connection(
        service: Arc<Service>,
        who: CallerSource,
        connection: Arc<McpConnection>,
    ) -> Self {
        let caller = match who {
            CallerSource::Fixed(credential) => {
                KnownIdentity::Always(Box::new(ClientIdentity::of(credential)))
            }
            CallerSource::PerRequest => KnownIdentity::PerRequest,
        };
        Self { service, connection, started: StartedCalls::default(), caller }
    }

    pub(crate) fn identity(&self, extensions: &Extensions) -> Result<ClientIdentity, ErrorData> {
        match &self.caller {
            KnownIdentity::Always(visitor) => Ok(ClientIdentity::clone(visitor)),
            KnownIdentity::PerRequest => ClientIdentity::in_request(extensions),
        }
    }

    /// The identity of all requests on this connection, if it is fixed.
    pub(crate) fn fixed_identity(&self) -> Option<&ClientIdentity> {
        match &self.caller {
            KnownIdentity::Always(visitor) => Some(visitor),
            KnownIdentity::PerRequest => None,
        }
    }

    /// Whether callers share this front end, so that limits per caller apply.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.caller, KnownIdentity::PerRequest)
    }

    /// Whether servers behind the gate may have prompts. An envelope of a profile has no place for their messages.
    fn has_prompts(&self) -> bool {
        self.service.upstream.is_some() && self.service.front().has_native_structure()
    }

    pub(crate) async fn tools(&self, visitor: &ClientIdentity) -> Result<Arc<[Tool]>, ErrorData> {
        let listed = self.service.lists.of(self.service.front(), visitor).await;
        listed.map_err(|failure| ErrorData::invalid_request(failure.to_string(), None))
    }
}

// Large futures are boxed: rmcp moves a request's future several times, and its size is that of the largest method.
impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .build();
        let mut capabilities = capabilities;
        if self.service.upstream.is_some()
            && let Some(resources) = &mut capabilities.resources
        {
            (resources.subscribe, resources.list_changed) = (Some(true), Some(true));
            capabilities.logging = Some(Default::default());
        }
        if self.has_prompts() {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            capabilities.prompts = Some(prompts);
            capabilities.completions = Some(Default::default());
        }
        let instructions = self.service.instructions.as_deref().unwrap_or(INSTRUCTIONS);
        let implementation =
            Implementation::new("toolgate", env!("CARGO_PKG_VERSION")).with_title("Toolgate");
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let visitor = self.identity(&context.extensions)?;
        let tools = Box::pin(self.tools(&visitor)).await?;
        let cursor = request.and_then(|request| request.cursor);
        if cursor.is_none() {
            self.connection.set_listed(&tools);
        }
        let (tools, next) = page(&tools, cursor, PAGE_SIZE)?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope) = cache_hint(&context);
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.call(request, context, visitor)).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.resources(request.and_then(|request| request.cursor), &context, &visitor)).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.resource_templates(&context, &visitor)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.resource(request, &context, &visitor)).await
    }

    /// Session protocol: starts sending list notifications.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(visitor) = self.identity(&context.extensions) else { return };
        if !self.connection.mark_ready() {
            return;
        }
        let listed = self.connection.listed();
        let mut lookout = ToolListWatcher::new(Arc::clone(&self.service), visitor, listed).await;
        let (closing, peer) = (self.connection.closing.clone(), context.peer);
        tokio::spawn(async move {
            while let Some(changes) = lookout.change(&closing).await {
                if changes.notify(&peer).await.is_err() {
                    break;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut filter = SubscriptionFilter::builder().tools_list_changed().build();
        if self.service.upstream.is_some() {
            filter.resources_list_changed = Some(true);
            filter.prompts_list_changed = self.has_prompts().then_some(true);
            let wanted = requested.resource_subscriptions.as_ref();
            filter.resource_subscriptions =
                wanted.map(|uris| uris.iter().take(MAX_SUBSCRIBED).cloned().collect());
        }
        Some(filter)
    }

    /// Stateless protocol: sends notifications while the subscription is open.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let visitor = self.identity(&context.request_context().extensions)?;
        let lookout =
            ToolListWatcher::new(Arc::clone(&self.service), visitor.clone(), self.connection.listed());
        let mut lookout = Box::pin(lookout).await;
        let mut updates = Box::pin(self.serve_updates(&context, &visitor));
        loop {
            let changes = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = &mut updates => return Ok(()),
                changed = lookout.change(&self.connection.closing) => match changed {
                    Some(changes) => changes,
                    None => return Ok(()),
                },
            };
            changes.notify_subscription(&context).await;
        }
    }

    async fn set_level(
        &self,
        request: LogLevelRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.service.upstream.is_none() || is_stateless(&context) {
            return Err(method_not_found("logging/setLevel"));
        }
        self.set_log_level(&request);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.service.upstream.is_none() || is_stateless(&context) {
            return Err(method_not_found("resources/subscribe"));
        }
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.subscribe_to(request.uri, &context, &visitor)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.service.upstream.is_none() || is_stateless(&context) {
            return Err(method_not_found("resources/unsubscribe"));
        }
        self.unsubscribe_from(&request.uri);
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if !self.has_prompts() {
            return Err(method_not_found(ListPromptsRequestMethod::VALUE));
        }
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.prompts(request.and_then(|request| request.cursor), &context, &visitor)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if !self.has_prompts() {
            return Err(method_not_found(GetPromptRequestMethod::VALUE));
        }
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.prompt(request, &context, &visitor)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if !self.has_prompts() {
            return Err(method_not_found(CompleteRequestMethod::VALUE));
        }
        let visitor = self.identity(&context.extensions)?;
        Box::pin(self.completion(request, &context, &visitor)).await
    }

    /// rmcp also passes requests here whose parameters it could not deserialise.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        // The stateless protocol has neither method, even if the parameters are valid.
        let gone = is_stateless(&context) && matches!(method, "initialize" | "ping");
        let is_of_prompts = !self.has_prompts() && method.starts_with("prompts/");
        // The stateless protocol has subscriptions and log levels of single requests in place of the others.
        let is_upstream = self.service.upstream.is_some()
            && UPSTREAM_METHODS.contains(&method)
            && (!is_stateless(&context) || method == CompleteRequestMethod::VALUE);
        if gone || is_of_prompts || !(is_upstream || SERVED_METHODS.contains(&method)) {
            return Err(method_not_found(method));
        }
        let field = |name| request.params.as_ref().and_then(|params| params.get(name)).cloned();
        let (tool, arguments) = (field("name"), field("arguments"));
        let error = invalid_params(method, request.params.clone());
        match tool {
            Some(Value::String(tool)) if method == CallToolRequestMethod::VALUE => {
                let visitor = self.identity(&context.extensions)?;
                let arguments = arguments.unwrap_or_default();
                Err(Box::pin(self.unreadable(tool, arguments, error, &context, &visitor)).await)
            }
            _ => Err(error),
        }
    }
}

/// Cache hints: private, and not to be cached at all. The session protocol has none.
pub(crate) fn cache_hint(context: &RequestContext<RoleServer>) -> (Option<u64>, Option<CacheScope>) {
    if is_stateless(context) { (Some(0), Some(CacheScope::Private)) } else { (None, None) }
}

/// The items of one page, and the cursor of the next.
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
            .ok_or_else(|| ErrorData::invalid_params("unknown cursor", None))?,
    };
    let rest = items.get(start..).unwrap_or_default();
    let next = (rest.len() > size).then(|| (start + size).to_string());
    Ok((rest.iter().take(size).cloned().collect(), next))
}
