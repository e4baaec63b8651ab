//! Files for doors that show them by address: the tools that find and read them, with answers for programs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_types::{Attachment, DocumentContent, ErrorCode, Failure, Limits, Sha256, ToolOutput};
use toolgate_workspace::{Forgetful, View, WorkspaceError};

use crate::file_tool::{Work, decode};

#[derive(Deserialize)]
struct Beneath {
    path: String,
    max_results: usize,
}

/// A page of files. The text is a list of `[path, bytes]`; the structured answer says whether there are more, and of paths only the one to go on after.
pub(crate) fn page(view: &View<'_>, arguments: Value, after: Option<&str>) -> Result<ToolOutput, Failure> {
    let Beneath { path, max_results } = decode(arguments)?;
    let page = view.page(&path, after, max_results)?;
    let text = serde_json::to_string(&page.files).unwrap_or_default();
    let structured = json!({"truncated": page.next.is_some(), "paths": Vec::from_iter(page.next)});
    Ok(ToolOutput::new(text, structured))
}

/// A whole file: what the tool that reads says of it, with more room, and its bytes beside that where it is not text.
pub(crate) fn whole(view: &View<'_>, arguments: Value, most: u64, read: Work) -> Result<ToolOutput, Failure> {
    let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
    let limits = Limits { max_read_bytes: most, ..*view.limits };
    let view = View { limits: &limits, ..*view };
    let mut output = read(&view, arguments, &Forgetful)?;
    let about: Value = output.structured.value().into_owned();
    let bytes = about.get("bytes").and_then(Value::as_u64);
    if about.get("truncated") == Some(&json!(true)) {
        let bytes = bytes.unwrap_or(most);
        return Err(WorkspaceError::ReadLimit { path, bytes, limit: most }.into());
    }
    if about.get("binary") == Some(&json!(true)) {
        let told = about.get("sha256").and_then(Value::as_str).map(str::to_owned);
        let bytes = view.read_bytes(&path, most)?;
        // What is said about a file is said about these bytes.
        if told != Some(Sha256::of(&bytes).to_string()) {
            let message = format!("`{path}` changed while it was read");
            return Err(Failure::new(ErrorCode::PreconditionFailed, message).help("read it again"));
        }
        let content = DocumentContent::Base64(STANDARD.encode(bytes));
        output.attachments = vec![Attachment::Document { uri: path, mime_type: None, content }];
    }
    Ok(output)
}
