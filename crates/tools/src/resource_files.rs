//! Files as resources, read by URI: the tools that find and read them, with answers for programs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_types::{DocumentContent, Failure, ResourceContent, Structured, ToolOutput};
use toolgate_workspace::{EntireContent, EntireFile, FilePage, WorkspaceView};

use crate::file_tool::decode;

/// The kind of resource request that a tool supports.
#[derive(Clone, Copy)]
pub(crate) enum ResourceKind {
    /// Lists the files that it finds.
    Files,
    /// Reads a whole file.
    File(DescribeFile),
}

/// The metadata that a tool reports about a file besides its content. A tool that only reads text rejects everything else.
pub(crate) type DescribeFile = fn(&EntireFile) -> Result<Structured, Failure>;

#[derive(Deserialize)]
struct ListFilesArguments {
    path: String,
    max_results: usize,
}

/// A page of files.
pub(crate) fn list_page(
    view: &WorkspaceView<'_>,
    arguments: Value,
    after: Option<&str>,
) -> Result<ToolOutput, Failure> {
    let ListFilesArguments { path, max_results } = decode(arguments)?;
    let FilePage { files, next } = view.page(&path, after, max_results)?;
    let structured = json!({"paths": [], "truncated": next.is_some()});
    Ok(ToolOutput::from_resource(ResourceContent::Page { files, next }, structured))
}

#[derive(Deserialize)]
struct ReadFileArguments {
    path: String,
}

/// A whole file.
pub(crate) fn read_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    most: u64,
    about: DescribeFile,
) -> Result<ToolOutput, Failure> {
    let ReadFileArguments { path } = decode(arguments)?;
    let file = view.read_entire(&path, most)?;
    let structured = about(&file)?;
    let content = match file.content {
        EntireContent::Text(text) => DocumentContent::Text(text),
        EntireContent::Bytes(bytes) => DocumentContent::Base64(STANDARD.encode(bytes)),
    };
    Ok(ToolOutput::from_resource(ResourceContent::File(content), structured))
}
