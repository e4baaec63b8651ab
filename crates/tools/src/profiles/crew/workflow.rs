//! `@state/workflow.md`: the schema of its frontmatter, and the allowed transitions.
//!
//! The package provides both, as files that the model cannot write: `@pkg/workflow.schema.json` (JSON Schema of the frontmatter; a built-in one when
//! absent) and `@pkg/workflow.graph.json` (`nodes` and `edges`; without it every transition is allowed). If one of them exists but cannot be used,
//! every change is refused.

use std::collections::BTreeSet;

use jsonschema::Validator;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_text::frontmatter;
use toolgate_types::{ErrorCode, Failure, Limits, Sha256};
use toolgate_workspace::{
    DryRun, FileContent, ReadRequest, Recorder, WorkspaceError, WorkspaceView, WriteResult,
};

/// A run's position in the workflow.
pub(crate) const WORKFLOW: &str = "@state/workflow.md";
const SCHEMA: &str = "@pkg/workflow.schema.json";
const GRAPH: &str = "@pkg/workflow.graph.json";

/// Graphs and schemas belong to the package; the agent's read limit does not apply to them.
const MAX_PACKAGE_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The same view, allowed to change the workflow's state; the caller must consult the guard too.
pub(crate) fn with_workflow_unlocked<'a>(view: &WorkspaceView<'a>) -> WorkspaceView<'a> {
    WorkspaceView { unlocked: Some(WORKFLOW), ..*view }
}

/// The schema and the graph of one package.
pub(crate) struct WorkflowGuard {
    schema: Validator,
    graph: Option<Graph>,
}

#[derive(Deserialize)]
struct Graph {
    #[serde(default, rename = "entryNodeId", alias = "entry", alias = "start")]
    entry: Option<String>,
    nodes: Vec<WorkflowNode>,
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WorkflowNode {
    Id(String),
    Described { id: String },
}

impl WorkflowNode {
    fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Described { id } => id,
        }
    }
}

#[derive(Deserialize)]
struct Edge {
    #[serde(alias = "source")]
    from: String,
    #[serde(alias = "target")]
    to: String,
}

fn default_schema() -> Value {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "currentNodeId": {"type": "string", "minLength": 1},
            "stepsCompleted": strings,
            "variables": {"type": "object"},
            "decisionLog": {"type": "array", "items": {"type": "object"}},
            "artifacts": strings,
            "updatedAt": {"type": "string", "minLength": 1},
        },
    })
}

impl WorkflowGuard {
    pub(crate) fn load(view: &WorkspaceView<'_>) -> Result<Self, Failure> {
        let schema = package_json(view, SCHEMA)?.unwrap_or_else(default_schema);
        let schema = toolgate_schema::validator(&schema)
            .map_err(|error| unusable(SCHEMA, &toolgate_schema::schema_problem(&error)))?;
        let graph = match package_json(view, GRAPH)? {
            None => None,
            Some(graph) => {
                Some(serde_json::from_value(graph).map_err(|error| unusable(GRAPH, &error.to_string()))?)
            }
        };
        Ok(Self { schema, graph })
    }

    /// Fails unless the document may become `after`.
    pub(crate) fn check(&self, before: Option<&str>, after: &str) -> Result<(), Failure> {
        let after = Value::Object(frontmatter::parse(after).map_err(Failure::from)?.value);
        if let Some(error) = self.schema.iter_errors(&after).next() {
            let place = error.instance_path().to_string();
            let message = format!("the workflow's frontmatter does not fit its schema at `{place}`: {error}");
            return Err(Failure::new(ErrorCode::SchemaViolation, message).detail("path", place));
        }
        // A document that was already invalid gives no previous node.
        let before = before
            .and_then(|before| frontmatter::parse(before).ok())
            .map(|before| Value::Object(before.value));
        match &self.graph {
            None => Ok(()),
            Some(graph) => graph.check(before.as_ref().and_then(current_node), current_node(&after)),
        }
    }
}

fn current_node(frontmatter: &Value) -> Option<&str> {
    frontmatter.get("currentNodeId").and_then(Value::as_str)
}

impl Graph {
    fn check(&self, from: Option<&str>, to: Option<&str>) -> Result<(), Failure> {
        if from == to {
            return Ok(());
        }
        let Some(to) = to else {
            return Err(refused("`currentNodeId` cannot be removed", from, None, BTreeSet::new()));
        };
        let known = self.nodes.iter().any(|node| node.id() == to);
        let next: BTreeSet<&str> = match from {
            Some(from) => {
                self.edges.iter().filter(|edge| edge.from == from).map(|edge| edge.to.as_str()).collect()
            }
            None => self.entry.as_deref().into_iter().collect(),
        };
        if known && (next.contains(to) || (from.is_none() && self.entry.is_none())) {
            return Ok(());
        }
        let place = from.map_or("a run that has not begun".to_owned(), |from| format!("`{from}`"));
        Err(refused(&format!("the workflow has no edge from {place} to `{to}`"), from, Some(to), next))
    }
}

fn refused(message: &str, from: Option<&str>, to: Option<&str>, next: BTreeSet<&str>) -> Failure {
    let next: Vec<&str> = next.into_iter().collect();
    let help = match next.is_empty() {
        true => "stay on this node".to_owned(),
        false => format!("go on to one of: {}", next.join(", ")),
    };
    Failure::new(ErrorCode::InvalidTransition, message)
        .help(help)
        .detail("from", from)
        .detail("to", to)
        .detail("allowed", next)
}

fn unusable(path: &str, reason: &str) -> Failure {
    Failure::new(ErrorCode::Internal, format!("`{path}` cannot be used: {reason}"))
        .help("the package is broken; its author has to repair it")
}

fn package_json(view: &WorkspaceView<'_>, path: &str) -> Result<Option<Value>, Failure> {
    if view.workspace.mount("@pkg").is_none() {
        return Ok(None);
    }
    let limits = Limits { max_read_bytes: MAX_PACKAGE_FILE_BYTES, ..*view.limits };
    let view = WorkspaceView { limits: &limits, grant: None, ..*view };
    let request = ReadRequest { refuse_oversize: true, ..ReadRequest::default() };
    match view.read(path, &request) {
        Err(WorkspaceError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(read) => match read.content {
            FileContent::Binary { .. } => Err(unusable(path, "it is not text")),
            FileContent::Text(window) => serde_json::from_str(&window.text)
                .map(Some)
                .map_err(|error| unusable(path, &error.to_string())),
        },
    }
}

/// Replaces the whole document, if the transition is allowed.
pub(crate) fn replace(
    view: &WorkspaceView<'_>,
    path: &str,
    content: String,
    if_match: Option<Sha256>,
    recorder: &dyn Recorder,
) -> Result<WriteResult, Failure> {
    let guard = WorkflowGuard::load(view)?;
    let change = |before: &str| {
        guard.check(Some(before), &content)?;
        Ok(content.clone())
    };
    match view.transform(path, if_match, DryRun::No, &change, recorder) {
        Ok(transformed) => Ok(transformed.written),
        Err(WorkspaceError::NotFound { .. }) => {
            guard.check(None, &content)?;
            Ok(view.write(path, content.as_bytes(), if_match, recorder)?)
        }
        Err(error) => Err(error.into()),
    }
}
