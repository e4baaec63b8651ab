//! What a server offers besides tools: prompts and resources. Each is a definition like that of a tool, under a name that no tool can have, so that
//! it is pinned, permitted, asked about and recorded in the same way.

use std::sync::Arc;

use rmcp::model::{Prompt, Resource, ResourceTemplate};
use serde_json::{Map, Value, json};
use toolgate_gate::ToolIcon;
use toolgate_text::{is_invisible, sanitize};

use crate::definition::{Definition, truncate};
use crate::icon::{DefinitionIcon, usable_icons};

/// The names of tools do not begin with it.
pub(crate) const RESERVED_PREFIX: &str = "mcp.";

const PROMPT_PREFIX: &str = "mcp.prompt.";
/// Reading a resource.
pub(crate) const READ_RESOURCE: &str = "mcp.resource.read";

/// Subscribing to a resource.
pub(crate) const SUBSCRIBE_RESOURCE: &str = "mcp.resource.subscribe";

/// Completing an argument.
pub(crate) const COMPLETE: &str = "mcp.complete";

/// The maximum length of a URI.
const MAX_URI_BYTES: usize = 2_048;

/// The maximum length of a text in a request for completion.
const MAX_COMPLETED_BYTES: usize = 2_048;

/// The maximum length of a name or a title.
const MAX_LINE_BYTES: usize = 200;

/// The maximum length of a description.
const MAX_DESCRIPTION_BYTES: usize = 2_048;

/// What a definition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionKind<'d> {
    Tool,
    /// A prompt of this name.
    Prompt(&'d str),
    /// Reading any of the server's resources.
    ReadResource,
    /// Subscribing to any of them.
    SubscribeResource,
    /// Completing an argument of a prompt or a URI template.
    Complete,
}

impl<'d> DefinitionKind<'d> {
    pub(crate) fn of(name: &'d str) -> Self {
        match name.strip_prefix(PROMPT_PREFIX) {
            Some(prompt) => Self::Prompt(prompt),
            None if name == READ_RESOURCE => Self::ReadResource,
            None if name == SUBSCRIBE_RESOURCE => Self::SubscribeResource,
            None if name == COMPLETE => Self::Complete,
            None => Self::Tool,
        }
    }
}

/// A prompt as a definition: its arguments are texts.
pub(crate) fn prompt_definition(prompt: Prompt) -> Definition {
    let arguments = prompt.arguments.unwrap_or_default();
    let required: Vec<Value> = arguments
        .iter()
        .filter(|argument| argument.required == Some(true))
        .map(|argument| Value::from(argument.name.as_str()))
        .collect();
    let property = |argument: rmcp::model::PromptArgument| {
        let mut about = json!({"type": "string"});
        if let (Some(fields), Some(description)) = (about.as_object_mut(), argument.description) {
            fields.insert("description".to_owned(), description.into());
        }
        (argument.name, about)
    };
    let properties: Map<String, Value> = arguments.into_iter().map(property).collect();
    Definition {
        name: format!("{PROMPT_PREFIX}{}", prompt.name),
        title: prompt.title,
        description: prompt.description,
        input_schema: json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }),
        output_schema: None,
        annotations: None,
        icons: usable_icons(prompt.icons),
    }
}

/// Reading a resource as a definition.
pub(crate) fn read_resource_definition() -> Definition {
    definition_of_gate(
        READ_RESOURCE,
        "Read a resource",
        "Reads a resource of the server by its URI.",
        uri_schema(),
    )
}

/// Subscribing to a resource as a definition.
pub(crate) fn subscribe_definition() -> Definition {
    let description = "Notifies the client when a resource of the server changes.";
    definition_of_gate(SUBSCRIBE_RESOURCE, "Subscribe to a resource", description, uri_schema())
}

/// Completing an argument as a definition.
pub(crate) fn complete_definition() -> Definition {
    let text = json!({"type": "string", "maxLength": MAX_COMPLETED_BYTES});
    let schema = json!({
        "type": "object",
        "properties": {
            "prompt": text, "template": text, "argument": text, "value": text,
            "context": {"type": "object", "maxProperties": 64, "additionalProperties": text},
        },
        "required": ["argument", "value"],
        "additionalProperties": false,
    });
    let description = "Asks the server for values of an argument of a prompt or a URI template.";
    definition_of_gate(COMPLETE, "Complete an argument", description, schema)
}

fn uri_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"uri": {"type": "string", "minLength": 1, "maxLength": MAX_URI_BYTES}},
        "required": ["uri"],
        "additionalProperties": false,
    })
}

/// A definition in which nothing comes from a server.
fn definition_of_gate(name: &str, title: &str, description: &str, input_schema: Value) -> Definition {
    Definition {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: Some(description.to_owned()),
        input_schema,
        output_schema: None,
        annotations: None,
        icons: Vec::new(),
    }
}

/// A resource of a server, or the template of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgedResource {
    /// The tool that reads it.
    pub tool: String,
    /// Its URI, or the URI template (RFC 6570).
    pub uri: String,
    /// Whether it is a template.
    pub is_template: bool,
    /// Its name.
    pub name: String,
    /// Its display name.
    pub title: Option<String>,
    /// What the server says about it.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: Option<String>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its icons.
    pub icons: Vec<ToolIcon>,
}

/// The resources of one server, as last listed.
pub(crate) type ListedResources = Arc<[BridgedResource]>;

pub(crate) fn listed_resource(reader: &str, resource: Resource) -> Option<BridgedResource> {
    let uri = usable_uri(&resource.uri)?;
    Some(BridgedResource {
        tool: reader.to_owned(),
        uri,
        is_template: false,
        name: line(&resource.name),
        title: resource.title.as_deref().map(line),
        description: resource.description.as_deref().map(text),
        mime_type: resource.mime_type.as_deref().map(line),
        size: resource.size,
        icons: shown_icons(resource.icons),
    })
}

pub(crate) fn listed_template(reader: &str, template: ResourceTemplate) -> Option<BridgedResource> {
    let uri = usable_uri(&template.uri_template)?;
    Some(BridgedResource {
        tool: reader.to_owned(),
        uri,
        is_template: true,
        name: line(&template.name),
        title: template.title.as_deref().map(line),
        description: template.description.as_deref().map(text),
        mime_type: template.mime_type.as_deref().map(line),
        size: None,
        icons: shown_icons(template.icons),
    })
}

fn shown_icons(icons: Option<Vec<rmcp::model::Icon>>) -> Vec<ToolIcon> {
    usable_icons(icons).iter().map(DefinitionIcon::shown).collect()
}

impl BridgedResource {
    /// Whether it is this resource, or one that its template may stand for.
    #[must_use]
    pub fn is_at(&self, uri: &str) -> bool {
        if self.is_template { template_matches(&self.uri, uri) } else { self.uri == uri }
    }
}

/// A URI that a server may give to a resource: with a scheme, printable, and none of the gate's own.
pub(crate) fn usable_uri(uri: &str) -> Option<String> {
    let is_printable =
        |character: char| !character.is_control() && !character.is_whitespace() && !is_invisible(character);
    let (scheme, rest) = uri.split_once(':')?;
    let has_scheme = scheme.chars().next().is_some_and(|first| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    let is_own = scheme.eq_ignore_ascii_case("toolgate");
    let fits = uri.len() <= MAX_URI_BYTES && !rest.is_empty() && uri.chars().all(is_printable);
    (has_scheme && !is_own && fits).then(|| uri.to_owned())
}

/// Whether a URI has the literal parts of a template in their order, with something in place of each expression. Which values an expression takes is
/// for the server to decide; here it only chooses the server.
fn template_matches(template: &str, uri: &str) -> bool {
    let mut pieces = template.split('{');
    let Some(rest) = pieces.next().and_then(|first| uri.strip_prefix(first)) else { return false };
    let mut rest = rest;
    for piece in pieces {
        let Some((_, literal)) = piece.split_once('}') else { return false };
        let end = if literal.is_empty() { Some(rest.len()) } else { rest.find(literal) };
        match end {
            Some(end) if end > 0 => rest = rest.get(end + literal.len()..).unwrap_or_default(),
            _ => return false,
        }
    }
    rest.is_empty()
}

fn line(words: &str) -> String {
    truncate(&sanitize(words).replace('\n', " "), MAX_LINE_BYTES)
}

fn text(words: &str) -> String {
    truncate(&sanitize(words), MAX_DESCRIPTION_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_deceive_or_are_the_gates_own_are_not_listed() {
        for good in ["test://static-text", "file:///a/b%20c", "https://example.com/x?y=1", "memo:1"] {
            assert_eq!(usable_uri(good).as_deref(), Some(good));
        }
        for bad in [
            "",
            "x",
            "://x",
            "toolgate://files/project/a",
            "TOOLGATE:x",
            "a b://c",
            "test://a b",
            "test://a\nb",
            "test://a\u{202e}b",
            "1a://x",
            "test:",
            &format!("test://{}", "x".repeat(3000)),
        ] {
            assert_eq!(usable_uri(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_template_stands_for_addresses_with_its_literal_parts() {
        for (template, uri, fits) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template//data", false),
            ("test://template/{id}/data", "test://template/1/data/more", false),
            ("test://template/{id}", "test://other/1", false),
            ("test://{a}/{+b}", "test://x/y/z", true),
            ("test://{a", "test://x", false),
            ("test://plain", "test://plain", true),
            ("test://plain", "test://plainer", false),
        ] {
            assert_eq!(template_matches(template, uri), fits, "{template} {uri}");
        }
    }

    #[test]
    fn a_prompt_is_defined_with_its_arguments() {
        let prompt: Prompt = serde_json::from_value(json!({
            "name": "review", "description": "Reviews", "arguments": [{"name": "code", "required": true}, {"name": "style", "description": "how"}],
        }))
        .unwrap();
        let definition = prompt_definition(prompt);
        assert_eq!(DefinitionKind::of(&definition.name), DefinitionKind::Prompt("review"));
        assert_eq!(definition.input_schema["required"], json!(["code"]));
        assert_eq!(definition.input_schema["properties"]["style"]["description"], "how");
        assert!(definition.check().is_ok() && read_resource_definition().check().is_ok());
    }
}
