//! A server's tool as a tool of the gate.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_gate::{
    AbsentTool, ApprovedCall, CallContext, FailedServer, Preview, PreviewBody, Surface, Tool, ToolFuture,
    ToolIcon, ToolSpec,
};
use toolgate_policy::Requirements;
use toolgate_text::confusables::quote_value;
use toolgate_text::escape_control_chars;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{
    Category, ErrorCode, Failure, FlowDeclaration, FlowMounts, Sha256, ToolName, ToolOutput,
};

use crate::definition::Definition;
use crate::icon::DefinitionIcon;
use crate::server::{CatalogueEntry, Server, UpstreamAnswer, UpstreamCall};
use crate::settings::{ServerSettings, ToolSettings};
use crate::surface::DefinitionKind;
use crate::tool_result::{AnswerContext, read, read_completion, read_contents, read_prompt};
use crate::untrusted_schema::{PatternBudget, any_value_schema};

/// A tool that a server offers.
pub(crate) struct BridgedTool {
    spec: ToolSpec,
    server: Arc<Server>,
    definition: Arc<Definition>,
    digest: Sha256,
    fingerprint: Sha256,
    declared_output: bool,
    leaves_the_machine: bool,
    flow: FlowDeclaration,
}

impl BridgedTool {
    /// The tool; `None` if the operator disallows it; or why it is invalid.
    pub(crate) fn build(
        server: &Arc<Server>,
        settings: &ServerSettings,
        entry: &CatalogueEntry,
        room: &mut PatternBudget,
    ) -> Result<Option<Self>, String> {
        let definition = &entry.definition;
        let unsaid = ToolSettings::default();
        let about = settings.settings_for(&definition.name).unwrap_or(&unsaid);
        if about.allowed == Some(false) {
            return Ok(None);
        }
        let spec = spec(settings, about, entry, room)?;
        let leaves_the_machine = settings.transport.leaves_the_machine();
        let mounts = FlowMounts::Named(settings.transport.mounts());
        let flow = about.flow.over(spec.default_flow(leaves_the_machine).reading(mounts));
        let mut fingerprint = Sha256Hasher::new();
        fingerprint.update(entry.digest.as_bytes());
        fingerprint.update(settings.transport.digest().as_bytes());
        Ok(Some(Self {
            spec,
            server: Arc::clone(server),
            definition: Arc::clone(definition),
            digest: entry.digest,
            fingerprint: fingerprint.finish(),
            declared_output: definition.output_schema.is_some(),
            leaves_the_machine,
            flow,
        }))
    }
}

fn spec(
    settings: &ServerSettings,
    about: &ToolSettings,
    entry: &CatalogueEntry,
    room: &mut PatternBudget,
) -> Result<ToolSpec, String> {
    let definition = &entry.definition;
    if settings.is_unprefixed && definition.name.contains("__") {
        return Err("its name could be one of another server's tool".to_owned());
    }
    let name: ToolName = settings
        .tool_name(&definition.name)
        .parse()
        .map_err(|_| "its name is not one that a tool can have".to_owned())?;
    let (input_schema, output_schema) = entry.schemas(room)?;
    let output_schema = output_schema.unwrap_or_else(|| any_value_schema().into());
    let class = about.class.unwrap_or(settings.default_class);
    let remedy = format!("see it with `toolgate mcp approve {} {}`", settings.name, definition.name);
    Ok(ToolSpec {
        name,
        title: definition.title_for_people(),
        description: definition.description_for_models(),
        class,
        category: Category::Mcp,
        input_schema,
        output_schema,
        requirements: Some(Requirements { permissions: about.permissions.clone(), elevated: None, class }),
        output_policy: about.policy.clone(),
        timeout: Some(about.timeout.unwrap_or(settings.timeout)),
        suspended: entry.suspended.as_ref().map(|reason| format!("{reason}; {remedy}")),
    })
}

/// The tool of this name, if it would be one of this server, which is not up; with what its declaration alone decides.
pub(crate) fn absent_tool(server: &Server, name: &str) -> Option<AbsentTool> {
    let settings = server.settings();
    let own_name = settings.own_tool_name(name)?;
    let failure = server.not_up()?;
    Some(AbsentTool { spec: declared_spec(&settings, own_name)?, failure })
}

/// A server that failed, with what its declaration alone says about its tools: those that it had, those that are declared, and any other.
pub(crate) fn failed_server(server: &Server) -> Option<FailedServer> {
    let (settings, catalogue) = (server.settings(), server.catalogue());
    let failure = server.failure()?;
    let known = catalogue.entries().map(|entry| entry.definition.name.as_str());
    let declared = settings.tools.iter().map(|(name, _)| name.as_str());
    let names = known.chain(declared).chain([UNDECLARED_TOOL]);
    Some(FailedServer { tools: names.filter_map(|name| declared_spec(&settings, name)).collect(), failure })
}

/// Stands for the tools that a declaration does not name.
const UNDECLARED_TOOL: &str = "mcp.undeclared";

/// What the declaration of a server says about one of its tools; `None` if it is disallowed.
fn declared_spec(settings: &ServerSettings, own_name: &str) -> Option<ToolSpec> {
    let unsaid = ToolSettings::default();
    let about = settings.settings_for(own_name).unwrap_or(&unsaid);
    if about.allowed == Some(false) {
        return None;
    }
    let class = about.class.unwrap_or(settings.default_class);
    Some(ToolSpec {
        // A glob stands for a name that it matches.
        name: settings.tool_name(own_name).replace(['*', '?'], "x").parse().ok()?,
        title: String::new(),
        description: String::new(),
        class,
        category: Category::Mcp,
        input_schema: any_value_schema().into(),
        output_schema: any_value_schema().into(),
        requirements: Some(Requirements { permissions: about.permissions.clone(), elevated: None, class }),
        output_policy: None,
        timeout: None,
        suspended: None,
    })
}

impl Tool for BridgedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn fingerprint(&self) -> Option<Sha256> {
        Some(self.fingerprint)
    }

    fn surface(&self) -> Surface {
        match DefinitionKind::of(&self.definition.name) {
            DefinitionKind::Tool => Surface::Tool,
            DefinitionKind::Prompt(_) => Surface::Prompt,
            DefinitionKind::ReadResource => Surface::Resource,
            DefinitionKind::SubscribeResource => Surface::Subscription,
            DefinitionKind::Complete => Surface::Completion,
        }
    }

    fn icons(&self) -> Vec<ToolIcon> {
        self.definition.icons.iter().map(DefinitionIcon::shown).collect()
    }

    fn leaves_the_machine(&self) -> bool {
        self.leaves_the_machine
    }

    fn information_flow(&self) -> FlowDeclaration {
        self.flow.clone()
    }

    /// The server, its description and the arguments, with hidden characters escaped.
    fn preview(&self, arguments: &Value, _context: &CallContext) -> Result<Preview, Failure> {
        let digest: String = self.digest.to_string().chars().take(16).collect();
        let summary = vec![
            format!("call `{}` of the MCP server `{}`", quote_value(&self.definition.name), self.server.name),
            format!("the server says: {}", self.definition.escaped_first_line()),
            format!("definition {digest}"),
        ];
        let body = serde_json::to_string_pretty(arguments).unwrap_or_default();
        Ok(Preview { summary, body: PreviewBody::Text(body), expected_changes: None, would_fail: None })
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let Value::Object(arguments) = call.into_arguments() else {
                return Err(Failure::new(ErrorCode::InvalidArguments, "the arguments are not an object"));
            };
            let request =
                UpstreamCall { tool: self.definition.name.clone(), definition: self.digest, arguments };
            let result =
                self.server.call(request, &context).await.map_err(|failure| self.filtered(failure))?;
            let reading = AnswerContext {
                server: self.server.name.as_str(),
                limits: &context.limits,
                declared: self.declared_output,
                filtered: self.spec.output_policy.is_some(),
            };
            match result {
                UpstreamAnswer::Tool(result) => read(result, reading),
                UpstreamAnswer::Prompt(result) => read_prompt(result, reading),
                UpstreamAnswer::Resource(result) => read_contents(result, reading),
                UpstreamAnswer::Completion(result) => Ok(read_completion(result)),
                UpstreamAnswer::Subscribed => Ok(ToolOutput::new(String::new(), json!({}))),
            }
        })
    }
}

impl BridgedTool {
    /// A server's error message bypasses the output policy, so it is withheld from the caller if
    /// the tool has one.
    fn filtered(&self, failure: Failure) -> Failure {
        if self.spec.output_policy.is_none() || failure.code != ErrorCode::CommandFailed {
            return failure;
        }
        let message = format!("the server `{}` refused the call", self.server.name);
        let words = escape_control_chars(&failure.message);
        Failure { message, ..failure.terminal_note(words) }
    }
}
