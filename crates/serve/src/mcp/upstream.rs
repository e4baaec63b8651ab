//! Prompts and resources of servers behind the gate. To get a prompt and to read a resource are calls of the gate, with the same checks and records as
//! any other; a caller is listed what it may use.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use rmcp::model::{
    CompleteRequestParams, CompleteResult, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, ListPromptsResult, Prompt, PromptArgument, ReadResourceRequestParams,
    ReadResourceResponse, Reference, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use toolgate_gate::{Surface, Tool, ToolIcon};
use toolgate_tools::CallResponse;
use toolgate_types::{Attachment, DocumentContent, ErrorCode, Failure};

use crate::mcp::call::{CallRequest, CallState};
use crate::mcp::handler::{cache_hint, page};
use crate::mcp::request::RequestContext;
use crate::mcp::tool_lists::wire_icons;
use crate::mcp::{ClientIdentity, McpHandler};
use crate::service::Service;

/// Prompts per page.
const PAGE_SIZE: usize = 200;

/// A resource of a server behind the gate, or the template of several.
#[derive(Clone, Debug, Hash)]
pub struct UpstreamResource {
    /// The tool that reads it.
    pub tool: String,
    /// Its URI, or the URI template.
    pub uri: String,
    /// Whether it is a template.
    pub is_template: bool,
    /// Its name.
    pub name: String,
    /// Its display name.
    pub title: Option<String>,
    /// What its server says about it.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: Option<String>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its icons.
    pub icons: Vec<ToolIcon>,
}

/// The servers behind the gate, for what they offer besides tools.
pub trait UpstreamResources: Send + Sync {
    /// The resources and templates that are known.
    fn list(&self) -> Vec<UpstreamResource>;

    /// The tool that reads this URI, if it is one of exactly one server.
    fn reader(&self, uri: &str) -> Option<String>;

    /// Receives the URIs of subscribed resources that changed.
    fn updates(&self) -> broadcast::Receiver<Arc<str>>;

    /// Keeps a subscription to a resource until the guard is dropped; `None` if it is of no server.
    fn hold(&self, uri: &str) -> Option<HeldResource>;
}

/// Keeps a subscription.
pub type HeldResource = Box<dyn Send + Sync>;

impl UpstreamResource {
    fn into_resource(self) -> Resource {
        let mut resource = Resource::new(self.uri, self.name);
        (resource.title, resource.description) = (self.title, self.description);
        (resource.mime_type, resource.size) = (self.mime_type, self.size);
        resource.icons = wire_icons(self.icons);
        resource
    }

    fn into_template(self) -> ResourceTemplate {
        let mut template = ResourceTemplate::new(self.uri, self.name);
        (template.title, template.description) = (self.title, self.description);
        template.mime_type = self.mime_type;
        template.icons = wire_icons(self.icons);
        template
    }
}

impl McpHandler {
    /// The resources of servers that this caller may read.
    async fn upstream(&self, visitor: &ClientIdentity) -> Result<Vec<UpstreamResource>, ErrorData> {
        let Some(upstream) = &self.service.upstream else { return Ok(Vec::new()) };
        let readers = self.surfaced(visitor, Surface::Resource).await?;
        let readers: HashSet<&str> = readers.iter().map(|tool| tool.spec().name.as_str()).collect();
        Ok(upstream.list().into_iter().filter(|one| readers.contains(one.tool.as_str())).collect())
    }

    pub(crate) async fn upstream_resources(
        &self,
        visitor: &ClientIdentity,
    ) -> Result<Vec<Resource>, ErrorData> {
        let all = self.upstream(visitor).await?.into_iter();
        Ok(all.filter(|one| !one.is_template).map(UpstreamResource::into_resource).collect())
    }

    pub(crate) async fn upstream_templates(
        &self,
        visitor: &ClientIdentity,
    ) -> Result<Vec<ResourceTemplate>, ErrorData> {
        let all = self.upstream(visitor).await?.into_iter();
        Ok(all.filter(|one| one.is_template).map(UpstreamResource::into_template).collect())
    }

    pub(crate) async fn surfaced(
        &self,
        visitor: &ClientIdentity,
        surface: Surface,
    ) -> Result<Vec<Arc<dyn Tool>>, ErrorData> {
        let tools = self.service.front().gate().surfaced_tools(visitor.credential.clone(), surface).await;
        tools.map_err(|failure| ErrorData::invalid_request(failure.to_string(), None))
    }

    /// Reads a resource of a server; `None` if no server has it.
    pub(crate) async fn upstream_resource(
        &self,
        request: &ReadResourceRequestParams,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        let tool = self.service.upstream.as_ref()?.reader(&request.uri)?;
        let mut wanted = request_of(tool, json!({"uri": request.uri}));
        (wanted.state, wanted.responses) = (request.request_state.clone(), request.input_responses.clone());
        let called = match self.advance(wanted, context, visitor).await {
            Ok(CallState::Ended(called, _)) => called,
            Ok(CallState::InputRequired(question)) => {
                return Some(Ok(ReadResourceResponse::InputRequired(*question)));
            }
            Err(error) => return Some(Err(error)),
        };
        Some(contents(*called, &request.uri).map(|contents| super::resources::contents_of(contents, context)))
    }

    pub(crate) async fn prompts(
        &self,
        cursor: Option<String>,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<ListPromptsResult, ErrorData> {
        let tools = self.surfaced(visitor, Surface::Prompt).await?;
        let prompts: Vec<Prompt> = tools.iter().map(|tool| prompt(tool.as_ref())).collect();
        let (prompts, next) = page(&prompts, cursor, PAGE_SIZE)?;
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        (result.ttl_ms, result.cache_scope) = cache_hint(context);
        Ok(result)
    }

    /// Completes an argument of a prompt or a URI template that the caller may use. A server without completions has no values.
    pub(crate) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<CompleteResult, ErrorData> {
        let (prefix, mut arguments) = self.completed(&request.r#ref, visitor).await?;
        let tools = self.surfaced(visitor, Surface::Completion).await?;
        let name = format!("{prefix}mcp.complete");
        if !tools.iter().any(|tool| tool.spec().name.as_str() == name) {
            return Ok(CompleteResult::default());
        }
        if let Some(fields) = arguments.as_object_mut() {
            fields.insert("argument".to_owned(), request.argument.name.into());
            fields.insert("value".to_owned(), request.argument.value.into());
            if let Some(known) = request.context.and_then(|context| context.arguments) {
                fields.insert("context".to_owned(), json!(known));
            }
        }
        let mut wanted = request_of(name, arguments);
        // A person who types is not asked about each letter.
        wanted.may_ask = false;
        match self.advance(wanted, context, visitor).await? {
            CallState::InputRequired(_) => Ok(CompleteResult::default()),
            CallState::Ended(called, _) => match &called.failed {
                Some((_, failure)) => Err(call_error(failure.clone(), json!({}))),
                None => {
                    let structured = called.structured().unwrap_or_default();
                    let completion = serde_json::from_value(structured).unwrap_or_default();
                    Ok(CompleteResult::new(completion))
                }
            },
        }
    }

    /// What a completion is about: the prefix of its server, and the server's own name for the prompt or the template.
    async fn completed(
        &self,
        about: &Reference,
        visitor: &ClientIdentity,
    ) -> Result<(String, Value), ErrorData> {
        let unknown = || ErrorData::invalid_params("there is nothing of this name to complete", None);
        match about {
            Reference::Prompt(prompt) => {
                let tools = self.surfaced(visitor, Surface::Prompt).await?;
                let name = tools.iter().map(|tool| tool.spec().name.as_str());
                let mut found = name.filter(|name| prompt_name(name) == prompt.name);
                let name = found.next().ok_or_else(unknown)?;
                let (prefix, own_name) = name.split_once("mcp.prompt.").ok_or_else(unknown)?;
                Ok((prefix.to_owned(), json!({"prompt": own_name})))
            }
            Reference::Resource(template) => {
                let known = self.upstream(visitor).await?;
                let found = known.iter().find(|one| one.is_template && one.uri == template.uri);
                let reader = found.map(|one| one.tool.as_str()).ok_or_else(unknown)?;
                let prefix = reader.strip_suffix("mcp.resource.read").ok_or_else(unknown)?;
                Ok((prefix.to_owned(), json!({"template": template.uri})))
            }
            _ => Err(unknown()),
        }
    }

    pub(crate) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<GetPromptResponse, ErrorData> {
        let tools = self.surfaced(visitor, Surface::Prompt).await?;
        let found = tools
            .iter()
            .map(|tool| &tool.spec().name)
            .find(|name| prompt_name(name.as_str()) == request.name);
        let Some(tool) = found else {
            return Err(ErrorData::invalid_params(
                "there is no such prompt",
                Some(json!({"name": request.name})),
            ));
        };
        let mut wanted = request_of(tool.to_string(), Value::Object(request.arguments.unwrap_or_default()));
        (wanted.state, wanted.responses) = (request.request_state, request.input_responses);
        match self.advance(wanted, context, visitor).await? {
            CallState::InputRequired(question) => Ok(GetPromptResponse::InputRequired(*question)),
            CallState::Ended(called, _) => match called.failed {
                Some((_, failure)) => Err(call_error(failure, json!({"name": request.name}))),
                None => messages(&called).map(GetPromptResponse::from),
            },
        }
    }
}

pub(crate) fn request_of(tool: String, arguments: Value) -> CallRequest {
    let (resource, timeout, state, responses) = (None, None, None, None);
    CallRequest { tool, arguments, may_ask: true, resource, timeout, state, responses }
}

/// Digests of the prompts and of the resources that a caller may use, to notice when they change.
pub(crate) async fn surface_digests(service: &Service, visitor: &ClientIdentity) -> Option<(u64, u64)> {
    let upstream = service.upstream.as_ref()?;
    let gate = service.front().gate();
    let mut prompts = DefaultHasher::new();
    for tool in gate.surfaced_tools(visitor.credential.clone(), Surface::Prompt).await.ok()? {
        let spec = tool.spec();
        (spec.name.as_str(), &spec.title, &spec.description, tool.icons()).hash(&mut prompts);
        json!(spec.input_schema).to_string().hash(&mut prompts);
    }
    let readers = gate.surfaced_tools(visitor.credential.clone(), Surface::Resource).await.ok()?;
    let readers: HashSet<&str> = readers.iter().map(|tool| tool.spec().name.as_str()).collect();
    let mut resources = DefaultHasher::new();
    for one in upstream.list().iter().filter(|one| readers.contains(one.tool.as_str())) {
        one.hash(&mut resources);
    }
    Some((prompts.finish(), resources.finish()))
}

/// The name of a prompt for clients: that of its server and its own, without what distinguishes it from a tool.
fn prompt_name(tool: &str) -> String {
    match tool.strip_prefix("mcp.prompt.") {
        Some(of_unprefixed) => of_unprefixed.to_owned(),
        None => tool.replacen("__mcp.prompt.", "__", 1),
    }
}

fn prompt(tool: &dyn Tool) -> Prompt {
    let spec = tool.spec();
    let required = spec.input_schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = spec.input_schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let argument = |(name, about): (&String, &Value)| {
        let mut argument = PromptArgument::new(name.clone());
        argument.description = about.get("description").and_then(Value::as_str).map(str::to_owned);
        argument.required = Some(required.iter().any(|required| required == name.as_str()));
        argument
    };
    let arguments = properties.map(argument).collect();
    let mut prompt =
        Prompt::new(prompt_name(spec.name.as_str()), Some(spec.description.clone()), Some(arguments));
    prompt.title = Some(spec.title.clone());
    prompt.icons = wire_icons(tool.icons());
    prompt
}

/// The messages of a prompt.
fn messages(called: &CallResponse) -> Result<GetPromptResult, ErrorData> {
    let malformed = || ErrorData::internal_error("the prompt may not be shown", None);
    let structured = called.structured().ok_or_else(malformed)?;
    let mut result = GetPromptResult::default();
    result.description = structured.get("description").and_then(Value::as_str).map(str::to_owned);
    let messages = structured.get("messages").cloned().ok_or_else(malformed)?;
    result.messages = serde_json::from_value(messages).map_err(|_| malformed())?;
    Ok(result)
}

/// The contents of a resource.
fn contents(called: CallResponse, uri: &str) -> Result<Vec<ResourceContents>, ErrorData> {
    if let Some((_, failure)) = called.failed {
        return Err(call_error(failure, json!({"uri": uri})));
    }
    let documents = called.attachments.into_iter().filter_map(|attachment| match attachment {
        Attachment::Document { uri, mime_type, content } => {
            let contents = match content {
                DocumentContent::Text(text) => ResourceContents::text(text.into_string(), uri),
                DocumentContent::Base64(data) => ResourceContents::blob(data, uri),
            };
            Some(match mime_type {
                Some(mime_type) => contents.with_mime_type(mime_type),
                None => contents,
            })
        }
        Attachment::Image { .. } | Attachment::Audio { .. } => None,
    });
    let documents: Vec<ResourceContents> = documents.collect();
    match documents.is_empty() {
        true => Err(ErrorData::invalid_params("this resource may not be shown", Some(json!({"uri": uri})))),
        false => Ok(documents),
    }
}

pub(crate) fn call_error(failure: Failure, mut data: Value) -> ErrorData {
    if let Some(fields) = data.as_object_mut() {
        fields.insert("code".to_owned(), failure.code.as_str().into());
        fields.insert("help".to_owned(), json!(failure.help));
    }
    match failure.code {
        ErrorCode::Internal => ErrorData::internal_error(failure.to_string(), Some(data)),
        _ => ErrorData::invalid_params(failure.to_string(), Some(data)),
    }
}
