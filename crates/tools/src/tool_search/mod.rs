//! `find_tools` and `call_tool`: where there are many tools, a model finds them instead of being offered all of them.
//!
//! `find_tools` searches what its caller may use, and nothing else is in its index: neither a name nor the frequency of a word shows other tools.
//! `call_tool` is never run: the gate replaces its call by the one that it names before anything is decided.

mod index;
mod tokens;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_gate::{
    ApprovedCall, CALL_TOOL, CallContext, FIND_TOOLS, Preview, PreviewBody, Tool, ToolFuture, ToolSchema,
    ToolSpec,
};
use toolgate_types::{Category, ErrorCode, Failure, ToolClass, ToolOutput};

use self::index::ToolIndex;
use crate::file_tool::{coerce_integers, decode};
use crate::schemas::of_arguments;

/// The default number of tools in an answer.
const DEFAULT_RESULTS: u64 = 8;

/// The maximum number of tools in an answer.
const MAX_RESULTS: u64 = 50;

/// The maximum length of a query.
const MAX_QUERY_CHARS: usize = 1_000;

/// How many indexes are kept, one for each set of visible tools.
const MAX_INDEXES: usize = 8;

/// A longer schema of arguments is left out of an answer.
const MAX_SCHEMA_BYTES: usize = 32 << 10;

/// Both tools.
#[must_use]
pub fn tool_search_tools() -> Vec<Arc<dyn Tool>> {
    let find = spec(
        FIND_TOOLS,
        "Find tools",
        "Find tools by what they do: answers with the names, descriptions and argument schemas of those that fit best. There are many more tools than \
         the ones listed; look here before saying that something cannot be done, then use call_tool.",
        ToolClass::Read,
        of_arguments::<FindArguments>(),
    );
    let call = spec(
        CALL_TOOL,
        "Call a tool that was found",
        "Call a tool that find_tools answered with, by its name and with arguments that fit its schema.",
        // The tool behind it may do anything.
        ToolClass::Destructive,
        of_arguments::<IndirectArguments>(),
    );
    let find = find.map(|spec| Arc::new(FindTools { spec, indexes: Mutex::default() }) as Arc<dyn Tool>);
    let call = call.map(|spec| Arc::new(CallTool { spec }) as Arc<dyn Tool>);
    find.into_iter().chain(call).collect()
}

/// The specification; `None` if the name is not a valid tool name, which a test excludes.
fn spec(
    name: &str,
    title: &str,
    description: &str,
    class: ToolClass,
    input_schema: ToolSchema,
) -> Option<ToolSpec> {
    Some(ToolSpec {
        name: name.parse().ok()?,
        title: title.to_owned(),
        description: description.to_owned(),
        class,
        category: Category::Search,
        input_schema,
        output_schema: json!({}).into(),
        requirements: None,
        output_policy: None,
        timeout: None,
        suspended: None,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindArguments {
    /// What the tool should do, in a few words, such as `create an issue`
    #[schemars(length(min = 1, max = MAX_QUERY_CHARS))]
    query: String,
    /// How many tools at most; 8 when absent
    #[schemars(range(min = 1, max = MAX_RESULTS))]
    max_results: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IndirectArguments {
    /// The name of the tool, as find_tools answered
    name: String,
    /// Its arguments, an object that fits its schema
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// `find_tools`.
struct FindTools {
    spec: ToolSpec,
    /// The latest indexes. They end with this tool, which is made anew when the configuration is replaced.
    indexes: Mutex<Vec<Arc<ToolIndex>>>,
}

impl FindTools {
    fn index(&self, tools: &Arc<[Arc<dyn Tool>]>) -> Arc<ToolIndex> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = indexes.iter().position(|index| index.is_of(tools)) {
            let known = indexes.remove(place);
            indexes.push(Arc::clone(&known));
            return known;
        }
        drop(indexes);
        let built = Arc::new(ToolIndex::build(Arc::clone(tools)));
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if indexes.len() >= MAX_INDEXES {
            indexes.remove(0);
        }
        indexes.push(Arc::clone(&built));
        built
    }

    fn find(&self, arguments: &FindArguments, context: &CallContext) -> ToolOutput {
        let most = arguments.max_results.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let found = self.index(&context.visible).search(&arguments.query, most);
        answer(&found, context.visible.len(), context.limits.max_output_bytes)
    }
}

impl Tool for FindTools {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn lists_tools(&self) -> bool {
        true
    }

    fn preview(&self, arguments: &Value, _context: &CallContext) -> Result<Preview, Failure> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let body = PreviewBody::Text(query.to_owned());
        let summary = vec!["look for tools".to_owned()];
        Ok(Preview { summary, body, expected_changes: None, would_fail: None })
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let arguments: FindArguments =
                decode(coerce_integers(&self.spec.input_schema, call.into_arguments()))?;
            let blocking = context.blocking;
            blocking.run(move || Ok(self.find(&arguments, &context))).await
        })
    }
}

/// The tools that were found, as text and as JSON, within this many bytes.
fn answer(found: &[Arc<dyn Tool>], visible: usize, most: u64) -> ToolOutput {
    let most = usize::try_from(most).unwrap_or(usize::MAX) / 2;
    let (mut text, mut tools) = (String::new(), Vec::new());
    for spec in found.iter().map(|tool| tool.spec()) {
        let schema = serde_json::to_string(&*spec.input_schema).unwrap_or_default();
        let is_told = schema.len() <= MAX_SCHEMA_BYTES;
        let arguments = if is_told { schema.as_str() } else { "(too long to be shown)" };
        if text.len() + spec.description.len() + arguments.len() > most && !tools.is_empty() {
            break;
        }
        let _ = writeln!(text, "{}\n{}\narguments: {arguments}\n", spec.name, spec.description.trim());
        let mut told = json!({"name": spec.name, "description": spec.description, "class": spec.class});
        if let (Some(fields), true) = (told.as_object_mut(), is_told) {
            fields.insert("inputSchema".to_owned(), Value::Object((*spec.input_schema).clone()));
        }
        tools.push(told);
    }
    match tools.is_empty() {
        true => text = format!("None of the {visible} tools fits these words. Try others.\n"),
        false => {
            let _ =
                writeln!(text, "{} of {visible} tools. Use call_tool with one of these names.", tools.len());
        }
    }
    ToolOutput::new(text, json!({"tools": tools, "searched": visible}))
}

/// `call_tool`.
struct CallTool {
    spec: ToolSpec,
}

impl Tool for CallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn target(&self, arguments: &Value) -> Option<Result<(String, Value), Failure>> {
        let named = decode::<IndirectArguments>(arguments.clone());
        Some(named.map(|IndirectArguments { name, arguments }| (name, Value::Object(arguments))))
    }

    fn run(self: Arc<Self>, _call: ApprovedCall, _context: CallContext) -> ToolFuture {
        // The gate makes the call that is named in its place.
        Box::pin(async { Err(Failure::new(ErrorCode::Internal, "an indirect call was not replaced")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tools_are_there() {
        let names: Vec<String> =
            tool_search_tools().iter().map(|tool| tool.spec().name.to_string()).collect();
        assert_eq!(names, [FIND_TOOLS, CALL_TOOL]);
    }
}
