//! MCP resources: files of the workspace, stored outputs, and those of other sources.
//!
//! Reading a file is a call of the tool that reads files, and listing is a call of the tool that finds them: checked, approved and recorded like
//! every other call. A caller that may not use the tool sees no files.

use std::sync::Arc;

use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};
use toolgate_gate::ResourceRequest;
use toolgate_tools::{CallResponse, FileTools};
use toolgate_types::{DocumentContent, ErrorCode, Failure, ResourceContent, Stage};

use crate::admission::{CallWeight, ConcurrencyPermit};
use crate::mcp::call::{CallRequest, CallState};
use crate::mcp::handler::cache_hint;
use crate::mcp::outputs::OUTPUT_URI_PREFIX;
use crate::mcp::request::RequestContext;
use crate::mcp::resource_uris::{
    FILE_URI_PREFIX, FileCursor, file_resource, mime_type_of, path_of, strip_at,
};
use crate::mcp::{ClientIdentity, McpHandler};

/// Files per page.
const PAGE_SIZE: usize = 200;

/// Maximum size of a file that is read as a resource, if none is configured: the same as for a stored output.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Resources in addition to the workspace. Every admitted caller may read them.
pub trait ResourceSource: Send + Sync {
    /// The resources that can be listed.
    fn list(&self) -> Vec<Resource>;

    /// The templates of those that cannot.
    fn templates(&self) -> Vec<ResourceTemplate>;

    /// The contents of a URI, if this source has it.
    fn read(&self, uri: &str) -> Option<Vec<ResourceContents>>;
}

/// Files of one mount, and the path after which there are more.
#[derive(Default)]
struct MountFiles {
    files: Vec<Resource>,
    next: Option<String>,
}

impl McpHandler {
    /// The file tools, if this caller may use the one that reads.
    async fn file_tools(&self, visitor: &ClientIdentity) -> Result<Option<FileTools>, ErrorData> {
        let Some(files) = self.service.front().file_tools().filter(|_| !self.service.aliases.is_empty())
        else {
            return Ok(None);
        };
        let tools = self.tools(visitor).await?;
        Ok(tools.iter().any(|tool| tool.name == files.read).then_some(files))
    }

    pub(crate) async fn resource_templates(
        &self,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut templates: Vec<ResourceTemplate> =
            self.service.resources.iter().flat_map(|source| source.templates()).collect();
        templates.extend(self.upstream_templates(visitor).await?);
        if self.file_tools(visitor).await?.is_some() {
            let aliases: Vec<&str> = self.service.aliases.iter().map(|alias| strip_at(alias)).collect();
            let description = format!("A file of the workspace; the mounts are {}", aliases.join(", "));
            let template = ResourceTemplate::new(format!("{FILE_URI_PREFIX}{{alias}}/{{+path}}"), "file");
            templates.push(template.with_title("File").with_description(description));
        }
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        (result.ttl_ms, result.cache_scope) = cache_hint(context);
        Ok(result)
    }

    pub(crate) async fn resources(
        &self,
        cursor: Option<String>,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = match cursor {
            None => None,
            Some(cursor) => {
                let read = FileCursor::read(&cursor, &self.service.aliases);
                Some(read.ok_or_else(|| {
                    ErrorData::invalid_params("unknown cursor; begin again without one", None)
                })?)
            }
        };
        // Other sources have few resources, so all of them are on the first page.
        let handed_in = self.service.resources.iter().filter(|_| cursor.is_none());
        let mut told: Vec<Resource> = handed_in.flat_map(|source| source.list()).collect();
        if cursor.is_none() {
            told.extend(self.upstream_resources(visitor).await?);
        }
        let mut next = None;
        if let Some(FileTools { find: Some(find), .. }) = self.file_tools(visitor).await? {
            (next, told) = self.files_from(find, cursor, told, context, visitor).await?;
        }
        let mut result = ListResourcesResult::with_all_items(told);
        result.next_cursor = next.map(|next| next.write());
        (result.ttl_ms, result.cache_scope) = cache_hint(context);
        Ok(result)
    }

    /// Adds a page of files, mount by mount, and returns the cursor of the next.
    async fn files_from(
        &self,
        find: &str,
        cursor: Option<FileCursor>,
        mut told: Vec<Resource>,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<(Option<FileCursor>, Vec<Resource>), ErrorData> {
        let is_before = |alias: &&String| cursor.as_ref().is_some_and(|cursor| cursor.alias != **alias);
        let mut last = cursor.as_ref().map(|cursor| cursor.after.clone());
        let mut room = PAGE_SIZE;
        for alias in self.service.aliases.iter().skip_while(is_before) {
            // At least one file is requested of every mount: whether there is one decides whether there is another page.
            let most = room.max(1);
            let MountFiles { files, next } =
                self.files_of(find, alias, last.take(), most, context, visitor).await?;
            room = room.saturating_sub(files.len());
            told.extend(files);
            if let Some(after) = next {
                return Ok((Some(FileCursor { alias: alias.clone(), after }), told));
            }
        }
        Ok((None, told))
    }

    async fn files_of(
        &self,
        find: &str,
        alias: &str,
        after: Option<String>,
        most: usize,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<MountFiles, ErrorData> {
        let arguments = json!({"glob": "**/*", "path": alias, "max_results": most});
        let page = CallRequest {
            resource: Some(ResourceRequest::ListPage { after }),
            ..call_request(find, arguments)
        };
        // A listing that would need approval is not offered.
        let unasked = CallRequest { may_ask: false, ..page };
        let CallState::Ended(called, _) = self.advance(unasked, context, visitor).await? else {
            return Ok(MountFiles::default());
        };
        match called.failed {
            Some((_, failure)) if hides_files(failure.code) => return Ok(MountFiles::default()),
            Some((stage, failure)) => return Err(list_error(stage, failure, alias)),
            None => {}
        }
        // What a policy removed is treated as absent.
        let Some(ResourceContent::Page { files, next }) = called.resource else {
            return Ok(MountFiles::default());
        };
        let files = files.iter().map(|(path, bytes)| file_resource(alias, path, *bytes)).collect();
        Ok(MountFiles { files, next })
    }

    /// A stored output. It counts against the response memory like any long response.
    async fn stored_output(
        &self,
        uri: &str,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<Option<String>, ErrorData> {
        let bytes = self.service.outputs.bytes(visitor.binding, uri).unwrap_or_default();
        self.acquire_response_memory(usize::try_from(bytes).unwrap_or(usize::MAX), context, visitor).await?;
        let room =
            ConcurrencyPermit::acquire(&self.connection.limit, CallWeight::Large, self.cancelled(context))
                .await;
        let (service, owner, uri) = (Arc::clone(&self.service), visitor.binding, uri.to_owned());
        let read = tokio::task::spawn_blocking(move || service.outputs.read(owner, &uri)).await;
        context.hold_permit(&room);
        Ok(read.ok().flatten())
    }

    pub(crate) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let here = self.service.resources.iter().find_map(|source| source.read(&uri));
        if let Some(contents) = here {
            return Ok(contents_of(contents, context));
        }
        if let Some(read) = Box::pin(self.upstream_resource(&request, context, visitor)).await {
            return read;
        }
        if uri.starts_with(OUTPUT_URI_PREFIX) {
            let kept = self.stored_output(&uri, context, visitor).await?.ok_or_else(|| not_found(&uri))?;
            return Ok(contents_of(vec![ResourceContents::text(kept, uri)], context));
        }
        let files = self.file_tools(visitor).await?;
        let (Some(files), Some(path)) = (files, path_of(&uri)) else { return Err(not_found(&uri)) };
        let mut wanted = call_request(files.read, json!({"path": &path}));
        wanted.resource = Some(ResourceRequest::ReadWhole { max_bytes: MAX_FILE_BYTES });
        (wanted.state, wanted.responses) = (request.request_state, request.input_responses);
        match self.advance(wanted, context, visitor).await? {
            CallState::Ended(called, _) => {
                file_contents(*called, uri, &path).map(|contents| contents_of(contents, context))
            }
            CallState::InputRequired(question) => Ok(ReadResourceResponse::InputRequired(*question)),
        }
    }
}

fn call_request(tool: &str, arguments: Value) -> CallRequest {
    let (browse, timeout, state, responses) = (None, None, None, None);
    CallRequest {
        tool: tool.to_owned(),
        arguments,
        may_ask: true,
        resource: browse,
        timeout,
        state,
        responses,
    }
}

pub(crate) fn contents_of(contents: Vec<ResourceContents>, context: &RequestContext) -> ReadResourceResponse {
    let mut result = ReadResourceResult::new(contents);
    (result.ttl_ms, result.cache_scope) = cache_hint(context);
    result.into()
}

/// The contents of a file: text, or base64 if it is not text.
fn file_contents(called: CallResponse, uri: String, path: &str) -> Result<Vec<ResourceContents>, ErrorData> {
    if let Some((_, failure)) = called.failed {
        return Err(read_error(failure, &uri));
    }
    let Some(ResourceContent::File(content)) = called.resource else {
        return Err(ErrorData::invalid_params("this file may not be shown", Some(json!({"uri": uri}))));
    };
    let kind = mime_type_of(path);
    Ok(vec![match content {
        DocumentContent::Text(text) => {
            ResourceContents::text(text.into_string(), uri).with_mime_type(kind.unwrap_or("text/plain"))
        }
        DocumentContent::Base64(bytes) => {
            let kind = kind.filter(|kind| !kind.starts_with("text/")).unwrap_or("application/octet-stream");
            ResourceContents::blob(bytes, uri).with_mime_type(kind)
        }
    }])
}

/// Whether a listing failed because the caller may not see the files, or only after an approval: then they are treated as absent. Any other failure
/// is reported, because a listing that silently ends there would look complete.
fn hides_files(code: ErrorCode) -> bool {
    let is_asked_about = matches!(
        code,
        ErrorCode::ApprovalDenied | ErrorCode::ApprovalExpired | ErrorCode::ApprovalUnavailable
    );
    matches!(code, ErrorCode::NotPermitted | ErrorCode::UnknownTool) || is_asked_about || code.is_violation()
}

/// Why the files of a mount cannot be listed.
fn list_error(stage: Stage, failure: Failure, alias: &str) -> ErrorData {
    let told = format!("the files of {alias} could not be listed: {failure}");
    let data = Some(json!({"mount": alias, "code": failure.code.as_str(), "help": failure.help}));
    match stage < Stage::Execution {
        true => ErrorData::invalid_request(told, data),
        false => ErrorData::internal_error(told, data),
    }
}

/// Why a file cannot be read.
fn read_error(failure: Failure, uri: &str) -> ErrorData {
    match failure.code {
        ErrorCode::NotFound | ErrorCode::UnknownAlias | ErrorCode::NotAFile => not_found(uri),
        code => {
            let help = "read it in parts, with the tool that reads files and `start_line`";
            let failure = if code == ErrorCode::ReadLimit { failure.help(help) } else { failure };
            let data = json!({"uri": uri, "code": code.as_str(), "help": failure.help});
            ErrorData::invalid_params(failure.to_string(), Some(data))
        }
    }
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": uri})))
}
