//! The requests of MCP: one `match` over the methods, for every transport and both protocols.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rmcp::model::{
    CacheScope, DiscoverResult, ErrorCode, ErrorData, GetPromptResponse, Implementation,
    InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams, PromptsCapability,
    ProtocolVersion, ReadResourceResponse, RequestId, ServerCapabilities, ServerConfig, ServerResult,
    SubscriptionFilter, SubscriptionsListenResult, Tool,
};
use serde_json::Value;

use crate::mcp::client_sink::ClientSink;
use crate::mcp::error_messages::{invalid_params, method_not_found};
use crate::mcp::request::{HeldPermits, McpRequest, RequestContext, STATELESS, method};
use crate::mcp::subscriptions::{ListenSubscription, MAX_SUBSCRIBED};
use crate::mcp::tool_list_watcher::ToolListWatcher;
use crate::mcp::{ClientIdentity, McpConnection, ToolResponse};
use crate::service::Service;

/// Tools per page of `tools/list`.
const PAGE_SIZE: usize = 200;

/// The default instructions for clients.
const INSTRUCTIONS: &str = "These tools read, search and change the files of one workspace and run commands in it, inside a sandbox. \
Paths are relative to the workspace or begin with a mount alias such as @project. Some calls are shown to a person first and wait for the answer; \
a call that is refused will be refused again unless the person or the operator changes something.";

/// How many failed servers the instructions name.
const MAX_NAMED_FAILURES: usize = 20;

/// The result of a request.
#[derive(Debug)]
pub(crate) enum RequestResult {
    /// Of a call: written without another conversion.
    Call(ToolResponse),
    Other(Box<ServerResult>),
}

impl From<ServerResult> for RequestResult {
    fn from(result: ServerResult) -> Self {
        Self::Other(Box::new(result))
    }
}

/// What a gate serves besides tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServedSurfaces {
    /// Whether there may be servers behind it.
    pub has_upstream: bool,
    /// Whether these may have prompts.
    pub has_prompts: bool,
}

/// The parameters of a session: the client's version, or the newest that has sessions.
pub(crate) fn negotiated(mut params: InitializeRequestParams) -> InitializeRequestParams {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let has_session = |version: &ProtocolVersion| version.as_str() < STATELESS.as_str();
    if !has_session(&params.protocol_version) || !known.contains(&params.protocol_version) {
        let newest =
            known.iter().filter(|version| has_session(version)).max_by_key(|version| version.as_str());
        params.protocol_version = newest.cloned().unwrap_or_default();
    }
    params
}

/// What a gate says about itself.
pub(crate) fn server_info(surfaces: ServedSurfaces, instructions: Option<&str>) -> ServerConfig {
    let mut capabilities =
        ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_resources().build();
    if surfaces.has_upstream
        && let Some(resources) = &mut capabilities.resources
    {
        (resources.subscribe, resources.list_changed) = (Some(true), Some(true));
        capabilities.logging = Some(Default::default());
    }
    if surfaces.has_prompts {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = Some(true);
        capabilities.prompts = Some(prompts);
        capabilities.completions = Some(Default::default());
    }
    let implementation = Implementation::new("toolgate", env!("CARGO_PKG_VERSION")).with_title("Toolgate");
    let info = ServerConfig::new(capabilities).with_server_info(implementation);
    info.with_instructions(instructions.unwrap_or(INSTRUCTIONS))
}

/// A request that was answered.
pub(crate) struct AnsweredRequest {
    pub(crate) id: RequestId,
    /// Whether the stateless protocol applies, in which a result has a type.
    pub(crate) is_stateless: bool,
    pub(crate) result: Result<RequestResult, ErrorData>,
    /// For as long as the response is not written.
    pub(crate) held: HeldPermits,
}

/// Handles the requests of one connection or session.
#[derive(Clone)]
pub(crate) struct McpHandler {
    pub(crate) service: Arc<Service>,
    pub(crate) connection: Arc<McpConnection>,
    /// Reaches the client outside of any request.
    pub(crate) background: ClientSink,
    /// Whether callers share this server, so that limits per caller apply.
    is_shared: bool,
}

impl McpHandler {
    pub(crate) fn new(
        service: Arc<Service>,
        connection: Arc<McpConnection>,
        background: ClientSink,
        is_shared: bool,
    ) -> Self {
        Self { service, connection, background, is_shared }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether servers behind the gate may have prompts. An envelope of a profile has no place for their messages.
    fn has_prompts(&self) -> bool {
        self.service.upstream.is_some() && self.service.front().has_native_structure()
    }

    pub(crate) async fn tools(&self, visitor: &ClientIdentity) -> Result<Arc<[Tool]>, ErrorData> {
        let listed = self.service.lists.of(self.service.front(), visitor).await;
        listed.map_err(|failure| ErrorData::invalid_request(failure.to_string(), None))
    }

    /// Answers a request. A panic is a failure of this request alone.
    pub(crate) async fn serve(self, request: McpRequest, context: RequestContext) -> AnsweredRequest {
        let answering = AssertUnwindSafe(self.answer(request, &context)).catch_unwind();
        let ended = |_| Err(ErrorData::internal_error("the request ended unexpectedly", None));
        let result = answering.await.unwrap_or_else(ended);
        let (is_stateless, held) = (context.is_stateless(), context.take_held());
        AnsweredRequest { id: context.id, is_stateless, result, held }
    }

    /// Answers a request, in the shape of its protocol.
    ///
    /// # Errors
    /// The response.
    async fn answer(
        &self,
        request: McpRequest,
        context: &RequestContext,
    ) -> Result<RequestResult, ErrorData> {
        context.check_version(&request)?;
        let is_stateless = context.is_stateless();
        match self.dispatch(request, context).await {
            Ok(RequestResult::Other(mut result)) => {
                match is_stateless {
                    true => result.fill_missing_cache_hints(),
                    false => result.strip_result_type_for_legacy_peer(),
                }
                Ok(RequestResult::Other(result))
            }
            Err(mut error) if is_stateless && error.code == ErrorCode::RESOURCE_NOT_FOUND => {
                error.code = ErrorCode::INVALID_PARAMS;
                Err(error)
            }
            answered => answered,
        }
    }

    // The futures of rare methods are boxed: that of a request has the size of the largest, and a call should not pay for a second allocation.
    async fn dispatch(
        &self,
        request: McpRequest,
        context: &RequestContext,
    ) -> Result<RequestResult, ErrorData> {
        let visitor = &*context.identity;
        let not_found = |named: &str| Err(method_not_found(named));
        let (is_stateless, has_prompts) = (context.is_stateless(), self.has_prompts());
        let has_upstream = self.service.upstream.is_some();
        let result = match request {
            McpRequest::CallTool(call) => return self.call(*call, context).await,
            McpRequest::Initialize(params) => {
                let mut info = self.initialize(*params);
                info.instructions = Some(Box::pin(self.instructions(visitor)).await);
                ServerResult::InitializeResult(info)
            }
            McpRequest::Ping if is_stateless => return not_found(method::PING),
            McpRequest::Ping => ServerResult::empty(()),
            McpRequest::Discover => {
                let known = ProtocolVersion::KNOWN_VERSIONS.to_vec();
                let mut info = self.info();
                info.instructions = Some(Box::pin(self.instructions(visitor)).await);
                ServerResult::DiscoverResult(DiscoverResult::from_server_info(known, info))
            }
            McpRequest::ListTools(page) => {
                ServerResult::ListToolsResult(Box::pin(self.list_tools(page, context)).await?)
            }
            McpRequest::ListResources(page) => {
                let listed = Box::pin(self.resources(page.cursor, context, visitor)).await?;
                ServerResult::ListResourcesResult(listed)
            }
            McpRequest::ListResourceTemplates => {
                let listed = Box::pin(self.resource_templates(context, visitor)).await?;
                ServerResult::ListResourceTemplatesResult(listed)
            }
            McpRequest::ReadResource(params) => {
                let read: ReadResourceResponse = Box::pin(self.resource(*params, context, visitor)).await?;
                ServerResult::from(read)
            }
            McpRequest::Listen(_) if !is_stateless => return not_found(method::LISTEN),
            McpRequest::Listen(params) => ServerResult::SubscriptionsListenResult(
                Box::pin(self.listen(&params.notifications, context)).await?,
            ),
            McpRequest::SetLevel(_) if is_stateless || !has_upstream => return not_found(method::SET_LEVEL),
            McpRequest::SetLevel(level) => {
                self.set_log_level(&level);
                ServerResult::empty(())
            }
            McpRequest::Subscribe(_) if is_stateless || !has_upstream => return not_found(method::SUBSCRIBE),
            McpRequest::Subscribe(params) => {
                ServerResult::empty(Box::pin(self.subscribe_to(params.uri, context, visitor)).await?)
            }
            McpRequest::Unsubscribe(_) if is_stateless || !has_upstream => {
                return not_found(method::UNSUBSCRIBE);
            }
            McpRequest::Unsubscribe(params) => {
                self.unsubscribe_from(&params.uri);
                ServerResult::empty(())
            }
            McpRequest::ListPrompts(_) if !has_prompts => return not_found(method::LIST_PROMPTS),
            McpRequest::ListPrompts(page) => {
                let listed = Box::pin(self.prompts(page.cursor, context, visitor)).await?;
                ServerResult::ListPromptsResult(listed)
            }
            McpRequest::GetPrompt(_) if !has_prompts => return not_found(method::GET_PROMPT),
            McpRequest::GetPrompt(params) => {
                let prompt: GetPromptResponse = Box::pin(self.prompt(*params, context, visitor)).await?;
                ServerResult::from(prompt)
            }
            McpRequest::Complete(_) if !has_prompts => return not_found(method::COMPLETE),
            McpRequest::Complete(params) => {
                let completed = Box::pin(self.completion(*params, context, visitor)).await?;
                ServerResult::CompleteResult(completed)
            }
            McpRequest::Unreadable { method: named, params } => {
                return Err(Box::pin(self.unreadable_params(named, params, context)).await);
            }
            McpRequest::Unknown(named) => return not_found(&named),
        };
        Ok(RequestResult::from(result))
    }

    /// Negotiates a session.
    fn initialize(&self, params: InitializeRequestParams) -> InitializeResult {
        let params = negotiated(params);
        let mut info = self.info();
        info.protocol_version = params.protocol_version.clone();
        self.connection.set_session(params);
        info
    }

    fn info(&self) -> ServerConfig {
        let surfaces =
            ServedSurfaces { has_upstream: self.service.upstream.is_some(), has_prompts: self.has_prompts() };
        server_info(surfaces, None)
    }

    /// The instructions, with the servers behind the gate that have failed by now, of those that this caller could use. The reasons are in the gate's
    /// own words: what a server says could instruct the model.
    async fn instructions(&self, visitor: &ClientIdentity) -> String {
        let mut text = self.service.instructions.as_deref().unwrap_or(INSTRUCTIONS).to_owned();
        if self.service.upstream.is_none() {
            return text;
        }
        let failed = self.service.front().gate().failed_servers(visitor.credential.clone()).await;
        let failed = failed.unwrap_or_default();
        if !failed.is_empty() {
            text.push_str("\n\nThe tools of these servers cannot be called now:");
        }
        for failure in failed.iter().take(MAX_NAMED_FAILURES) {
            text.push_str("\n- ");
            text.push_str(&toolgate_text::sanitize(&failure.message).replace('\n', " "));
        }
        if let Some(more @ 1..) = failed.len().checked_sub(MAX_NAMED_FAILURES) {
            text.push_str(&format!("\n- and {more} more"));
        }
        text
    }

    async fn list_tools(
        &self,
        request: PaginatedRequestParams,
        context: &RequestContext,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools(&context.identity).await?;
        if request.cursor.is_none() {
            self.connection.set_listed(&tools);
        }
        let (tools, next) = page(&tools, request.cursor, PAGE_SIZE)?;
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope) = cache_hint(context);
        Ok(result)
    }

    /// Session protocol: sends list notifications from now on.
    pub(crate) async fn initialized(self, visitor: Arc<ClientIdentity>) {
        if !self.connection.mark_ready() {
            return;
        }
        let (listed, closing) = (self.connection.listed(), self.connection.closing.clone());
        let client = self.background;
        // The task holds no connection, because that would keep it open.
        let mut watcher = ToolListWatcher::new(self.service, ClientIdentity::clone(&visitor), listed).await;
        drop(self.connection);
        while let Some(changes) = watcher.change(&closing).await {
            if changes.notify(&client).await.is_err() {
                break;
            }
        }
    }

    /// Stateless protocol: sends notifications until the client cancels the request or the connection ends.
    async fn listen(
        &self,
        requested: &SubscriptionFilter,
        context: &RequestContext,
    ) -> Result<SubscriptionsListenResult, ErrorData> {
        let info = self.info();
        let accepted = requested.intersection(&self.served_subscriptions(requested));
        let accepted = accepted.supported_by(&info.capabilities);
        let subscription =
            ListenSubscription { id: context.id.clone(), accepted, client: context.client.clone() };
        let gone = |_| ErrorData::internal_error("the client is gone", None);
        subscription.acknowledge().await.map_err(gone)?;
        let visitor = ClientIdentity::clone(&context.identity);
        let listed = self.connection.listed();
        let mut watcher = Box::pin(ToolListWatcher::new(Arc::clone(&self.service), visitor, listed)).await;
        let mut updates = Box::pin(self.serve_updates(&subscription, context));
        loop {
            let changes = tokio::select! {
                () = context.cancelled.cancelled() => break,
                () = &mut updates => break,
                changed = watcher.change(&self.connection.closing) => match changed {
                    Some(changes) => changes,
                    None => break,
                },
            };
            changes.notify_subscription(&subscription).await;
        }
        let mut result = SubscriptionsListenResult::complete(context.id.clone());
        result.meta.set_server_info(info.server_info);
        Ok(result)
    }

    fn served_subscriptions(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::builder().tools_list_changed().build();
        if self.service.upstream.is_some() {
            filter.resources_list_changed = Some(true);
            filter.prompts_list_changed = self.has_prompts().then_some(true);
            let wanted = requested.resource_subscriptions.as_ref();
            filter.resource_subscriptions =
                wanted.map(|uris| uris.iter().take(MAX_SUBSCRIBED).cloned().collect());
        }
        filter
    }

    /// Refuses a request whose parameters do not fit. A call is recorded.
    async fn unreadable_params(
        &self,
        named: &'static str,
        params: Value,
        context: &RequestContext,
    ) -> ErrorData {
        let is_served = match named {
            method::LIST_PROMPTS | method::GET_PROMPT | method::COMPLETE => self.has_prompts(),
            method::SET_LEVEL | method::SUBSCRIBE | method::UNSUBSCRIBE => {
                self.service.upstream.is_some() && !context.is_stateless()
            }
            method::LISTEN => context.is_stateless(),
            method::INITIALIZE => !context.is_stateless(),
            _ => true,
        };
        if !is_served {
            return method_not_found(named);
        }
        let (tool, arguments) = (params.get("name").cloned(), params.get("arguments").cloned());
        let error = invalid_params(named, params);
        match tool {
            Some(Value::String(tool)) if named == method::CALL_TOOL => {
                self.unreadable(tool, arguments.unwrap_or_default(), error, context).await
            }
            _ => error,
        }
    }
}

/// Cache hints: private, and not to be cached at all. The session protocol has none.
pub(crate) fn cache_hint(context: &RequestContext) -> (Option<u64>, Option<CacheScope>) {
    if context.is_stateless() { (Some(0), Some(CacheScope::Private)) } else { (None, None) }
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
