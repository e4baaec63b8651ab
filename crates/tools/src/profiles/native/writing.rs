//! Tools that change files; every change can be reverted with `toolgate undo`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_gate::Effect;
use toolgate_text::diff::unified;
use toolgate_text::edit::Edit;
use toolgate_text::quoted_name;
use toolgate_types::{ErrorCode, Failure, Sha256, ToolClass};
use toolgate_workspace::{
    DryRun, NoopRecorder, Overwrite, Recorder, Transformed, WorkspaceView, WriteResult,
};

use crate::file_tool::{Answer, ToolDeclaration};
use crate::output_budget::cut_lines;
use crate::preview::{DIFF_CONTEXT, PreviewContent, Verb};
use crate::schemas::leading;

/// The notice for a truncated diff.
const DIFF_CUT: &str = "read the file to see the rest";

pub(super) fn tools() -> [ToolDeclaration; 6] {
    [
        ToolDeclaration::new(
            "write_file",
            "Write a file",
            "Create a file or replace its whole content, in one step. Missing parent directories are made. With if_match_sha256 \
             the file is only replaced if its content still has that digest.",
            ToolClass::Write,
            write_file,
        )
        .with_effect(Effect::Sets)
        .with_preview(|_, WriteArguments { content, .. }| Ok(PreviewContent::Text(Verb::Replace, content))),
        ToolDeclaration::new(
            "append_file",
            "Append to a file",
            "Add text to the end of a file; the file is made if it does not exist.",
            ToolClass::Write,
            append_file,
        )
        .with_effect(Effect::Adds)
        .with_preview(|_, AppendArguments { content, .. }| Ok(PreviewContent::Text(Verb::Append, content))),
        ToolDeclaration::new(
            "edit_file",
            "Edit a file",
            "Replace exact text in a file: old_text must be there exactly once, unless replace_all is true. Several edits are applied in \
             order, all or none. Answers with a diff; with dry_run nothing is changed.",
            ToolClass::Write,
            edit_file,
        )
        .with_preview(preview_edit),
        ToolDeclaration::new(
            "apply_patch",
            "Apply a patch",
            "Apply a unified diff over one or several files: create, change, delete, rename. All files are changed or none. With dry_run \
             nothing is changed.",
            ToolClass::Write,
            apply_patch,
        )
        .with_preview(preview_patch),
        ToolDeclaration::new(
            "move_file",
            "Move a file",
            "Give a file another name or place. The new name must be free unless overwrite is true.",
            ToolClass::Write,
            move_file,
        ),
        ToolDeclaration::new(
            "delete_file",
            "Delete a file",
            "Delete one file. Directories are not deleted.",
            ToolClass::Destructive,
            delete_file,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// Path relative to the workspace, or with a mount alias such as @project/src
    path: String,
    /// The whole new content
    content: String,
    /// SHA-256 that the file must have now
    #[schemars(with = "Option<String>", regex(pattern = "^[0-9a-fA-F]{64}$"))]
    if_match_sha256: Option<Sha256>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = leading(&["path", "created", "bytes", "sha256_before"]))]
struct WriteAnswer {
    path: String,
    created: bool,
    bytes: u64,
    #[schemars(with = "String")]
    sha256: Sha256,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    sha256_before: Option<Sha256>,
}

fn write_file(
    view: &WorkspaceView<'_>,
    arguments: WriteArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<WriteAnswer>, Failure> {
    let WriteArguments { path, content, if_match_sha256 } = arguments;
    let written = view.write(&path, content.as_bytes(), if_match_sha256, recorder)?;
    let verb = if written.created { "created" } else { "replaced" };
    let what = format!("{verb} {}: {} bytes", quoted_name(&written.path), written.bytes);
    Ok(written_answer(written, &what))
}

fn written_answer(written: WriteResult, what: &str) -> Answer<WriteAnswer> {
    let WriteResult { path, created, bytes, sha256_before, sha256_after: sha256, .. } = written;
    Answer::new(
        format!("{what}, sha256 {sha256}\n"),
        WriteAnswer { path, created, bytes, sha256, sha256_before },
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AppendArguments {
    /// Path relative to the workspace, or with a mount alias such as @project/src
    path: String,
    /// The text to add
    content: String,
}

fn append_file(
    view: &WorkspaceView<'_>,
    arguments: AppendArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<WriteAnswer>, Failure> {
    let AppendArguments { path, content } = arguments;
    let written = view.append(&path, content.as_bytes(), recorder)?;
    let what = format!(
        "appended {} bytes to {}: {} bytes now",
        content.len(),
        quoted_name(&written.path),
        written.bytes
    );
    Ok(written_answer(written, &what))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// Path relative to the workspace, or with a mount alias such as @project/src
    path: String,
    /// Text that is there now, exactly
    old_text: Option<String>,
    /// Text to put in its place
    new_text: Option<String>,
    /// Replace every occurrence
    #[serde(default)]
    replace_all: bool,
    /// Several edits, instead of old_text and new_text
    #[schemars(length(min = 1, max = 1000))]
    edits: Option<Vec<OneEdit>>,
    /// Only answer with the diff; change nothing
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditAnswer {
    path: String,
    replacements: usize,
    diff: String,
    truncated: bool,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    sha256_before: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    sha256: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

fn edit_file(
    view: &WorkspaceView<'_>,
    arguments: EditArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<EditAnswer>, Failure> {
    let dry_run = arguments.dry_run;
    let (transformed, replacements) = edit(view, arguments, recorder)?;
    let (diff, truncated) = cut_lines(view, diff_of(&transformed), DIFF_CUT);
    let WriteResult { path, sha256_before, sha256_after, .. } = transformed.written;
    let verb = if dry_run { "would replace" } else { "replaced" };
    let text = format!("{verb} {replacements} in {}\n{diff}", quoted_name(&path));
    let sha256 = sha256_before.map(|_| sha256_after);
    let data =
        EditAnswer { path, replacements, diff, truncated, dry_run, sha256_before, sha256, notice: None };
    Ok(Answer::new(text, data))
}

fn preview_edit(view: &WorkspaceView<'_>, mut arguments: EditArguments) -> Result<PreviewContent, Failure> {
    arguments.dry_run = true;
    let (transformed, _) = edit(view, arguments, &NoopRecorder)?;
    Ok(PreviewContent::Text(Verb::Edit, transformed.after))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatchArguments {
    /// Unified diff, as `git diff` or `diff -u` writes it
    patch: String,
    /// Only answer with the diff; change nothing
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatchAnswer {
    files: Vec<PatchedFileAnswer>,
    dry_run: bool,
    diff: String,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(transform = leading(&["path", "from"]))]
struct PatchedFileAnswer {
    path: String,
    #[schemars(extend("enum" = ["create", "modify", "delete", "rename"]))]
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

fn apply_patch(
    view: &WorkspaceView<'_>,
    arguments: PatchArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<PatchAnswer>, Failure> {
    let PatchArguments { patch, dry_run } = arguments;
    let rehearsal = if dry_run { DryRun::Yes } else { DryRun::No };
    let patched = view.apply_patch(&patch, rehearsal, recorder)?;
    let mut text = String::new();
    let mut files = Vec::new();
    for file in patched.files {
        let would = if dry_run { "would " } else { "" };
        text.push_str(&format!("{would}{} {}\n", file.action.as_str(), quoted_name(&file.path)));
        files.push(PatchedFileAnswer { path: file.path, action: file.action.as_str(), from: file.from });
    }
    let (diff, truncated) = cut_lines(view, patched.diff, DIFF_CUT);
    let (text, _) = cut_lines(view, text + &diff, DIFF_CUT);
    Ok(Answer::new(text, PatchAnswer { files, dry_run, diff, truncated, notice: None }))
}

fn preview_patch(view: &WorkspaceView<'_>, arguments: PatchArguments) -> Result<PreviewContent, Failure> {
    let patched = view.apply_patch(&arguments.patch, DryRun::Yes, &NoopRecorder)?;
    Ok(PreviewContent::Diff(patched.diff))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveArguments {
    /// Path relative to the workspace, or with a mount alias such as @project/src
    from: String,
    /// Path relative to the workspace, or with a mount alias such as @project/src
    to: String,
    /// Replace a file that is there
    #[serde(default)]
    overwrite: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveAnswer {
    from: String,
    to: String,
    replaced: bool,
}

fn move_file(
    view: &WorkspaceView<'_>,
    arguments: MoveArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<MoveAnswer>, Failure> {
    let MoveArguments { from, to, overwrite } = arguments;
    let overwrite = if overwrite { Overwrite::Yes } else { Overwrite::No };
    let moved = view.move_file(&from, &to, overwrite, recorder)?;
    let text = format!("moved {} to {}\n", quoted_name(&moved.from), quoted_name(&moved.to));
    Ok(Answer::new(text, MoveAnswer { from: moved.from, to: moved.to, replaced: moved.replaced }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteArguments {
    /// Path relative to the workspace, or with a mount alias such as @project/src
    path: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteAnswer {
    path: String,
    bytes: u64,
}

fn delete_file(
    view: &WorkspaceView<'_>,
    arguments: DeleteArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<DeleteAnswer>, Failure> {
    let deleted = view.delete(&arguments.path, recorder)?;
    let text = format!("deleted {} ({} bytes)\n", quoted_name(&deleted.path), deleted.bytes);
    Ok(Answer::new(text, DeleteAnswer { path: deleted.path, bytes: deleted.bytes }))
}
