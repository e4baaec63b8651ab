//! Tools that change files; every change can be reverted with `toolgate undo`.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_gate::Effect;
use toolgate_text::diff::unified;
use toolgate_text::edit::Edit;
use toolgate_text::quoted_name;
use toolgate_types::{Category, ErrorCode, Failure, Sha256, ToolClass, ToolOutput};
use toolgate_workspace::{
    DryRun, NoopRecorder, Overwrite, Recorder, Transformed, WorkspaceView, WriteResult,
};

use crate::arguments::{PathAndContent, show_append, show_write};
use crate::file_tool::{ToolDeclaration, decode};
use crate::output_budget::cut_lines;
use crate::preview::{DIFF_CONTEXT, PreviewContent, Verb};
use crate::schemas::{described, list_of, notice, object, of_type};

/// The notice for a truncated diff.
const DIFF_CUT: &str = "read the file to see the rest";

pub(crate) fn tools() -> Vec<ToolDeclaration> {
    let path =
        described("string", "Path relative to the workspace, or with a mount alias such as @project/src");
    let dry_run = described("boolean", "Only answer with the diff; change nothing");
    let written = object(
        [
            ("path", of_type("string")),
            ("created", of_type("boolean")),
            ("bytes", of_type("integer")),
            ("sha256_before", of_type("string")),
            ("sha256", of_type("string")),
        ],
        &["path", "created", "bytes", "sha256"],
    );
    vec![
        ToolDeclaration {
            name: "write_file",
            title: "Write a file",
            description: "Create a file or replace its whole content, in one step. Missing parent directories are made. With if_match_sha256 \
                          the file is only replaced if its content still has that digest.",
            class: ToolClass::Write,
            category: Category::File,
            effect: Effect::Sets,
            input: object(
                [
                    ("path", path.clone()),
                    ("content", described("string", "The whole new content")),
                    (
                        "if_match_sha256",
                        json!({"type": "string", "pattern": "^[0-9a-fA-F]{64}$", "description": "SHA-256 that the file must have now"}),
                    ),
                ],
                &["path", "content"],
            ),
            output: written.clone(),
            work: write_file,
            show: Some(show_write),
            resource: None,
        },
        ToolDeclaration {
            name: "append_file",
            title: "Append to a file",
            description: "Add text to the end of a file; the file is made if it does not exist.",
            class: ToolClass::Write,
            category: Category::File,
            effect: Effect::Adds,
            input: object(
                [("path", path.clone()), ("content", described("string", "The text to add"))],
                &["path", "content"],
            ),
            output: written,
            work: append_file,
            show: Some(show_append),
            resource: None,
        },
        ToolDeclaration {
            name: "edit_file",
            title: "Edit a file",
            description: "Replace exact text in a file: old_text must be there exactly once, unless replace_all is true. Several edits are applied in \
                          order, all or none. Answers with a diff; with dry_run nothing is changed.",
            class: ToolClass::Write,
            category: Category::File,
            effect: Effect::Any,
            input: object(
                [
                    ("path", path.clone()),
                    ("old_text", described("string", "Text that is there now, exactly")),
                    ("new_text", described("string", "Text to put in its place")),
                    ("replace_all", described("boolean", "Replace every occurrence")),
                    (
                        "edits",
                        json!({"type": "array", "minItems": 1, "maxItems": 1000, "description": "Several edits, instead of old_text and new_text", "items": {
                            "type": "object",
                            "properties": {"old_text": {"type": "string"}, "new_text": {"type": "string"}, "replace_all": {"type": "boolean"}},
                            "required": ["old_text", "new_text"], "additionalProperties": false,
                        }}),
                    ),
                    ("dry_run", dry_run.clone()),
                ],
                &["path"],
            ),
            output: object(
                [
                    ("path", of_type("string")),
                    ("replacements", of_type("integer")),
                    ("diff", of_type("string")),
                    ("truncated", of_type("boolean")),
                    ("dry_run", of_type("boolean")),
                    ("sha256_before", of_type("string")),
                    ("sha256", of_type("string")),
                    notice(),
                ],
                &["path", "replacements", "diff", "truncated", "dry_run"],
            ),
            work: edit_file,
            show: Some(show_edit),
            resource: None,
        },
        ToolDeclaration {
            name: "apply_patch",
            title: "Apply a patch",
            description: "Apply a unified diff over one or several files: create, change, delete, rename. All files are changed or none. With dry_run \
                          nothing is changed.",
            class: ToolClass::Write,
            category: Category::File,
            effect: Effect::Any,
            input: object(
                [
                    ("patch", described("string", "Unified diff, as `git diff` or `diff -u` writes it")),
                    ("dry_run", dry_run),
                ],
                &["patch"],
            ),
            output: object(
                [
                    (
                        "files",
                        list_of(json!({"type": "object", "properties": {
                            "path": {"type": "string"}, "from": {"type": "string"}, "action": {"enum": ["create", "modify", "delete", "rename"]},
                        }, "required": ["path", "action"]})),
                    ),
                    ("dry_run", of_type("boolean")),
                    ("diff", of_type("string")),
                    ("truncated", of_type("boolean")),
                    notice(),
                ],
                &["files", "dry_run", "diff", "truncated"],
            ),
            work: apply_patch,
            show: Some(show_patch),
            resource: None,
        },
        ToolDeclaration {
            name: "move_file",
            title: "Move a file",
            description: "Give a file another name or place. The new name must be free unless overwrite is true.",
            class: ToolClass::Write,
            category: Category::File,
            effect: Effect::Any,
            input: object(
                [
                    ("from", path.clone()),
                    ("to", path.clone()),
                    ("overwrite", described("boolean", "Replace a file that is there")),
                ],
                &["from", "to"],
            ),
            output: object(
                [("from", of_type("string")), ("to", of_type("string")), ("replaced", of_type("boolean"))],
                &["from", "to", "replaced"],
            ),
            work: move_file,
            show: None,
            resource: None,
        },
        ToolDeclaration {
            name: "delete_file",
            title: "Delete a file",
            description: "Delete one file. Directories are not deleted.",
            class: ToolClass::Destructive,
            category: Category::File,
            effect: Effect::Any,
            input: object([("path", path)], &["path"]),
            output: object([("path", of_type("string")), ("bytes", of_type("integer"))], &["path", "bytes"]),
            work: delete_file,
            show: None,
            resource: None,
        },
    ]
}

#[derive(Deserialize)]
struct WriteArguments {
    path: String,
    content: String,
    if_match_sha256: Option<Sha256>,
}

fn write_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let WriteArguments { path, content, if_match_sha256 } = decode(arguments)?;
    let written = view.write(&path, content.as_bytes(), if_match_sha256, recorder)?;
    let verb = if written.created { "created" } else { "replaced" };
    Ok(written_output(&written, &format!("{verb} {}: {} bytes", quoted_name(&written.path), written.bytes)))
}

fn written_output(written: &WriteResult, what: &str) -> ToolOutput {
    let mut structured = json!({
        "path": written.path, "created": written.created, "bytes": written.bytes, "sha256": written.sha256_after.to_string(),
    });
    if let (Some(before), Value::Object(fields)) = (written.sha256_before, &mut structured) {
        fields.insert("sha256_before".to_owned(), json!(before.to_string()));
    }
    ToolOutput::new(format!("{what}, sha256 {}\n", written.sha256_after), structured)
}

fn append_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let PathAndContent { path, content } = decode(arguments)?;
    let written = view.append(&path, content.as_bytes(), recorder)?;
    let what = format!(
        "appended {} bytes to {}: {} bytes now",
        content.len(),
        quoted_name(&written.path),
        written.bytes
    );
    Ok(written_output(&written, &what))
}

#[derive(Deserialize)]
struct EditArguments {
    path: String,
    old_text: Option<String>,
    new_text: Option<String>,
    #[serde(default)]
    replace_all: bool,
    edits: Option<Vec<OneEdit>>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
struct OneEdit {
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

impl EditArguments {
    fn edits(&mut self) -> Result<Vec<Edit>, Failure> {
        match (self.old_text.take(), self.new_text.take(), self.edits.take()) {
            (Some(old_text), Some(new_text), None) => {
                Ok(vec![Edit { old_text, new_text, replace_all: self.replace_all }])
            }
            (None, None, Some(edits)) => Ok(edits
                .into_iter()
                .map(|edit| Edit {
                    old_text: edit.old_text,
                    new_text: edit.new_text,
                    replace_all: edit.replace_all,
                })
                .collect()),
            (_, _, edits) => {
                let message = match edits {
                    Some(_) => "`edits` and `old_text`/`new_text` exclude each other",
                    None => "an edit needs `old_text` and `new_text`, or `edits`",
                };
                let help = r#"send {"path", "old_text", "new_text"} or {"path", "edits": [{"old_text", "new_text"}]}"#;
                Err(Failure::new(ErrorCode::InvalidArguments, message).help(help))
            }
        }
    }
}

fn edit(
    view: &WorkspaceView<'_>,
    mut arguments: EditArguments,
    recorder: &dyn Recorder,
) -> Result<(Transformed, usize), Failure> {
    let edits = arguments.edits()?;
    let rehearsal = if arguments.dry_run { DryRun::Yes } else { DryRun::No };
    crate::edit::edit(view, &arguments.path, &edits, rehearsal, recorder)
}

fn diff_of(transformed: &Transformed) -> String {
    let path = &transformed.written.path;
    unified(&transformed.before, &transformed.after, path, path, DIFF_CONTEXT)
}

fn edit_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let arguments: EditArguments = decode(arguments)?;
    let dry_run = arguments.dry_run;
    let (transformed, replacements) = edit(view, arguments, recorder)?;
    let (diff, truncated) = cut_lines(view, diff_of(&transformed), DIFF_CUT);
    let written = &transformed.written;
    let verb = if dry_run { "would replace" } else { "replaced" };
    let text = format!("{verb} {replacements} in {}\n{diff}", quoted_name(&written.path));
    let mut structured = json!({
        "path": written.path, "replacements": replacements, "diff": diff, "truncated": truncated, "dry_run": dry_run,
    });
    if let (Some(before), Value::Object(fields)) = (written.sha256_before, &mut structured) {
        fields.insert("sha256_before".to_owned(), json!(before.to_string()));
        fields.insert("sha256".to_owned(), json!(written.sha256_after.to_string()));
    }
    Ok(ToolOutput::new(text, structured))
}

fn show_edit(view: &WorkspaceView<'_>, arguments: Value) -> Result<PreviewContent, Failure> {
    let mut arguments: EditArguments = decode(arguments)?;
    arguments.dry_run = true;
    let (transformed, _) = edit(view, arguments, &NoopRecorder)?;
    Ok(PreviewContent::Text(Verb::Edit, transformed.after))
}

#[derive(Deserialize)]
struct PatchArguments {
    patch: String,
    #[serde(default)]
    dry_run: bool,
}

fn apply_patch(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let PatchArguments { patch, dry_run } = decode(arguments)?;
    let rehearsal = if dry_run { DryRun::Yes } else { DryRun::No };
    let patched = view.apply_patch(&patch, rehearsal, recorder)?;
    let mut text = String::new();
    let mut files = Vec::new();
    for file in &patched.files {
        text.push_str(&format!(
            "{}{} {}\n",
            if dry_run { "would " } else { "" },
            file.action.as_str(),
            quoted_name(&file.path)
        ));
        let mut entry = json!({"path": file.path, "action": file.action.as_str()});
        if let (Some(from), Value::Object(fields)) = (&file.from, &mut entry) {
            fields.insert("from".to_owned(), json!(from));
        }
        files.push(entry);
    }
    let (diff, truncated) = cut_lines(view, patched.diff, DIFF_CUT);
    let (text, _) = cut_lines(view, text + &diff, DIFF_CUT);
    let structured = json!({"files": files, "dry_run": dry_run, "diff": diff, "truncated": truncated});
    Ok(ToolOutput::new(text, structured))
}

fn show_patch(view: &WorkspaceView<'_>, arguments: Value) -> Result<PreviewContent, Failure> {
    let PatchArguments { patch, .. } = decode(arguments)?;
    Ok(PreviewContent::Diff(view.apply_patch(&patch, DryRun::Yes, &NoopRecorder)?.diff))
}

#[derive(Deserialize)]
struct MoveArguments {
    from: String,
    to: String,
    #[serde(default)]
    overwrite: bool,
}

fn move_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let MoveArguments { from, to, overwrite } = decode(arguments)?;
    let overwrite = if overwrite { Overwrite::Yes } else { Overwrite::No };
    let moved = view.move_file(&from, &to, overwrite, recorder)?;
    let text = format!("moved {} to {}\n", quoted_name(&moved.from), quoted_name(&moved.to));
    Ok(ToolOutput::new(text, json!({"from": moved.from, "to": moved.to, "replaced": moved.replaced})))
}

#[derive(Deserialize)]
struct DeleteArguments {
    path: String,
}

fn delete_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let DeleteArguments { path } = decode(arguments)?;
    let deleted = view.delete(&path, recorder)?;
    let text = format!("deleted {} ({} bytes)\n", quoted_name(&deleted.path), deleted.bytes);
    Ok(ToolOutput::new(text, json!({"path": deleted.path, "bytes": deleted.bytes})))
}
