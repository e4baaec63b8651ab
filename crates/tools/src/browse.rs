//! Files for doors that show them by address: the tools that find and read them, with answers for programs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_types::{DocumentContent, Failure, ResourceContent, Structured, ToolOutput};
use toolgate_workspace::{EntireContent, EntireFile, FilePage, WorkspaceView};

use crate::file_tool::decode;

/// What of a tool can be shown by address.
#[derive(Clone, Copy)]
pub(crate) enum Browsable {
    /// The files that it finds.
    Files,
    /// The file that it reads.
    File(About),
}

/// What a tool tells programs about a file beside what is in it. A tool that reads text alone refuses everything else.
pub(crate) type About = fn(&EntireFile) -> Result<Structured, Failure>;

#[derive(Deserialize)]
struct Beneath {
    path: String,
    max_results: usize,
}

/// A page of files.
pub(crate) fn page(
    view: &WorkspaceView<'_>,
    arguments: Value,
    after: Option<&str>,
) -> Result<ToolOutput, Failure> {
    let Beneath { path, max_results } = decode(arguments)?;
    let FilePage { files, next } = view.page(&path, after, max_results)?;
    let structured = json!({"paths": [], "truncated": next.is_some()});
    Ok(ToolOutput::from_resource(ResourceContent::Page { files, next }, structured))
}

#[derive(Deserialize)]
struct Named {
    path: String,
}

/// A whole file.
pub(crate) fn whole(
    view: &WorkspaceView<'_>,
    arguments: Value,
    most: u64,
    about: About,
) -> Result<ToolOutput, Failure> {
    let Named { path } = decode(arguments)?;
    let file = view.read_entire(&path, most)?;
    let structured = about(&file)?;
    let browsed = match file.content {
        EntireContent::Text(text) => {
            ResourceContent::File { content: DocumentContent::Text(text), sha256: Some(file.sha256) }
        }
        EntireContent::Bytes(bytes) => {
            ResourceContent::File { content: DocumentContent::Base64(STANDARD.encode(bytes)), sha256: None }
        }
    };
    Ok(ToolOutput::from_resource(browsed, structured))
}
