//! What can be read by address: files of the workspace, kept outputs, and whatever else was handed in.
//!
//! Reading a file is a call of the tool that reads files, and listing them is one of the tool that finds them: permitted, denied, asked about and recorded
//! like every other. Whoever may not use the tool is offered no files.

use std::sync::Arc;

use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use toolgate_tools::{Called, FileTools};
use toolgate_types::{ErrorCode, Structured};

use crate::mcp::call::{Step, Wanted};
use crate::mcp::connection::{Room, Size};
use crate::mcp::handler::freshness;
use crate::mcp::outputs::OUTPUTS;
use crate::mcp::{McpHandler, Visitor};

/// What the address of every file begins with.
const FILES: &str = "toolgate://files/";

/// Files told at once.
const PAGE: usize = 200;

/// Files told in all: a listing is for a first look, and the tools find the rest.
const MOST: usize = 1000;

/// Resources that somebody hands in beside the workspace. Everybody who may come in may read them.
pub trait ResourceSource: Send + Sync {
    /// Those that can be listed.
    fn list(&self) -> Vec<Resource>;

    /// The forms of those that cannot.
    fn templates(&self) -> Vec<ResourceTemplate>;

    /// What is at an address, if anything is.
    fn read(&self, uri: &str) -> Option<Vec<ResourceContents>>;
}

impl McpHandler {
    /// The tools for files, where this visitor may use the one that reads.
    async fn file_tools(&self, visitor: &Visitor) -> Result<Option<FileTools>, ErrorData> {
        let Some(files) = self.service.front().file_tools().filter(|_| !self.service.aliases.is_empty())
        else {
            return Ok(None);
        };
        let tools = self.tools(visitor).await?;
        Ok(tools.iter().any(|tool| tool.name == files.read).then_some(files))
    }

    pub(crate) async fn resource_templates(
        &self,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut templates: Vec<ResourceTemplate> =
            self.service.resources.iter().flat_map(|source| source.templates()).collect();
        if self.file_tools(visitor).await?.is_some() {
            let aliases: Vec<&str> = self.service.aliases.iter().map(|alias| bare(alias)).collect();
            let description = format!("A text file of the workspace; the mounts are {}", aliases.join(", "));
            let template = ResourceTemplate::new(format!("{FILES}{{alias}}/{{+path}}"), "file");
            templates.push(template.with_title("File").with_description(description));
        }
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        (result.ttl_ms, result.cache_scope) = freshness(context);
        Ok(result)
    }

    pub(crate) async fn resources(
        &self,
        cursor: Option<String>,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<ListResourcesResult, ErrorData> {
        let start = match cursor {
            None => 0,
            Some(cursor) => cursor
                .parse::<usize>()
                .ok()
                .filter(|start| *start < MOST)
                .ok_or_else(|| ErrorData::invalid_params("this cursor was not handed out", None))?,
        };
        let mut found: Vec<Resource> =
            self.service.resources.iter().flat_map(|source| source.list()).collect();
        let enough = start + PAGE + 1;
        if let Some(FileTools { find: Some(find), .. }) = self.file_tools(visitor).await? {
            for alias in &self.service.aliases {
                let missing = enough.min(MOST).saturating_sub(found.len());
                if missing > 0 {
                    found.extend(self.files_of(find, alias, missing, context, visitor).await?);
                }
            }
        }
        let more = found.len() >= enough && start + PAGE < MOST;
        let page = found.into_iter().skip(start).take(PAGE).collect();
        let mut result = ListResourcesResult::with_all_items(page);
        result.next_cursor = more.then(|| (start + PAGE).to_string());
        (result.ttl_ms, result.cache_scope) = freshness(context);
        Ok(result)
    }

    async fn files_of(
        &self,
        find: &str,
        alias: &str,
        most: usize,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<Vec<Resource>, ErrorData> {
        let arguments = json!({"glob": "**/*", "path": alias, "max_results": most});
        // A list that would have to be asked about is not offered.
        let unasked = Wanted { may_ask: false, ..wanted(find, arguments) };
        let Step::Ended(called, _) = self.advance(unasked, context, visitor).await? else {
            return Ok(Vec::new());
        };
        let found = called.answer.structured.map(Structured::into_value).unwrap_or_default();
        let paths = found.get("paths").and_then(Value::as_array);
        let paths = paths.into_iter().flatten().filter_map(Value::as_str);
        Ok(paths.filter_map(|path| file_resource(alias, path)).collect())
    }

    /// What is kept under an address. It takes room like any other long answer.
    async fn kept_output(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Option<String> {
        let room = Room::among(&self.connection, Size::Large, self.given_up(context)).await;
        let (service, owner, uri) = (Arc::clone(&self.service), visitor.binding, uri.to_owned());
        let read = tokio::task::spawn_blocking(move || service.outputs.read(owner, &uri)).await;
        Self::leave_with_answer(context, &room);
        read.ok().flatten()
    }

    pub(crate) async fn resource(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let here = self.service.resources.iter().find_map(|source| source.read(&uri));
        if let Some(contents) = here {
            return Ok(contents_of(contents, context));
        }
        if uri.starts_with(OUTPUTS) {
            let kept = self.kept_output(&uri, context, visitor).await.ok_or_else(|| not_found(&uri))?;
            return Ok(contents_of(vec![ResourceContents::text(kept, uri)], context));
        }
        let files = self.file_tools(visitor).await?;
        let (Some(files), Some(path)) = (files, path_of(&uri)) else { return Err(not_found(&uri)) };
        let mut wanted = wanted(files.read, json!({"path": path}));
        (wanted.state, wanted.responses) = (request.request_state, request.input_responses);
        match self.advance(wanted, context, visitor).await? {
            Step::Ended(called, _) => {
                file_contents(*called, uri).map(|contents| contents_of(contents, context))
            }
            Step::Asks(question) => Ok(ReadResourceResponse::InputRequired(*question)),
        }
    }
}

fn wanted(tool: &str, arguments: Value) -> Wanted {
    Wanted { tool: tool.to_owned(), arguments, may_ask: true, state: None, responses: None }
}

fn contents_of(
    contents: Vec<ResourceContents>,
    context: &RequestContext<RoleServer>,
) -> ReadResourceResponse {
    let mut result = ReadResourceResult::new(contents);
    (result.ttl_ms, result.cache_scope) = freshness(context);
    result.into()
}

fn file_contents(called: Called, uri: String) -> Result<Vec<ResourceContents>, ErrorData> {
    if let Some((_, failure)) = &called.failed {
        return Err(match failure.code {
            ErrorCode::NotFound | ErrorCode::UnknownAlias | ErrorCode::NotAFile => not_found(&uri),
            _ => ErrorData::invalid_params(failure.to_string(), Some(json!({"uri": uri}))),
        });
    }
    if called.text_as.is_some() {
        return Ok(vec![ResourceContents::text(called.answer.text, uri)]);
    }
    let about = called.answer.structured.map(Structured::into_value).unwrap_or_default();
    match about.get("content").and_then(Value::as_str) {
        // The text, with what it says about having been cut.
        Some(content) if called.answer.text.starts_with(content) => {
            Ok(vec![ResourceContents::text(called.answer.text, uri)])
        }
        Some(content) => Ok(vec![ResourceContents::text(content, uri)]),
        None => Err(ErrorData::invalid_params("this file is not text", Some(json!({"uri": uri})))),
    }
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": uri})))
}

/// A file as the tool that finds them names it: relative to the workspace, or behind an alias.
fn file_resource(alias: &str, path: &str) -> Option<Resource> {
    let (alias, path) = match path.strip_prefix('@') {
        Some(rest) => rest.split_once('/')?,
        None => (bare(alias), path),
    };
    Some(Resource::new(format!("{FILES}{alias}/{}", encoded(path)), path))
}

fn bare(alias: &str) -> &str {
    alias.strip_prefix('@').unwrap_or(alias)
}

/// The path that an address stands for, with its alias.
fn path_of(uri: &str) -> Option<String> {
    let (alias, path) = uri.strip_prefix(FILES)?.split_once('/')?;
    Some(format!("@{}/{}", decoded(alias)?, decoded(path)?))
}

/// Whatever has a meaning in an address is written as its bytes.
fn encoded(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The reverse; nothing where it is not text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit(rest.next()?)? << 4 | digit(rest.next()?)?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_has_an_address(path in "[^\0]{1,40}") {
            let resource = file_resource("@project", path.trim_start_matches('@')).unwrap();
            let plain = resource.uri.strip_prefix(FILES).unwrap();
            prop_assert!(plain.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(path_of(&resource.uri).unwrap(), format!("@project/{}", path.trim_start_matches('@')));
        }
    }

    #[test]
    fn addresses_that_are_none_name_no_path() {
        for uri in [
            "",
            "file:///etc/passwd",
            "toolgate://files/",
            "toolgate://files/project",
            "toolgate://files/p/%zz",
            "toolgate://files/p/%f",
        ] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
        assert_eq!(path_of("toolgate://files/project/%ff"), None);
        assert_eq!(path_of("toolgate://files/project/../x").as_deref(), Some("@project/../x"));
    }
}
