//! The tools that the MCP conformance suite calls by name.
//!
//! Those that need elicitation are tools with an effect, called by a guided caller: the approval request is the gate's own, and none of the tools
//! knows of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_gate::{ApprovedCall, CallContext, Tool, ToolFuture, ToolSpec};
use toolgate_types::{Attachment, Category, DocumentContent, ErrorCode, Failure, ToolClass, ToolOutput};

/// An image of one red pixel.
pub(crate) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound without samples.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// What a tool does.
#[derive(Clone)]
enum Deed {
    /// Returns this text.
    Say(&'static str),
    /// Returns this text and attachments.
    Hand(&'static str, Vec<Attachment>),
    /// Fails with this message.
    Fail(&'static str),
    /// Reports progress three times.
    Report,
    /// Adds a tool to the gate, or removes it again.
    Change(Arc<Changing>),
}

/// Adds a tool to the gate, or removes it again.
pub(crate) struct Changing {
    added: AtomicBool,
    change: Box<dyn Fn(bool) + Send + Sync>,
}

impl Changing {
    pub(crate) fn new(change: impl Fn(bool) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { added: AtomicBool::new(false), change: Box::new(change) })
    }

    fn turn(&self) {
        let added = !self.added.fetch_xor(true, Ordering::SeqCst);
        (self.change)(added);
    }
}

/// One tool of the suite.
struct Fixture {
    spec: ToolSpec,
    deed: Deed,
}

impl Tool for Fixture {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(self: Arc<Self>, _call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let said = |text: &str| ToolOutput::new(text, json!({"said": text}));
            match &self.deed {
                Deed::Say(text) => Ok(said(text)),
                Deed::Hand(text, attachments) => {
                    Ok(ToolOutput { attachments: attachments.clone(), ..said(text) })
                }
                Deed::Fail(text) => Err(Failure::new(ErrorCode::CommandFailed, *text)),
                Deed::Report => {
                    report(&context).await;
                    Ok(said("three reports were made"))
                }
                Deed::Change(changing) => {
                    changing.turn();
                    Ok(said("the tools were changed"))
                }
            }
        })
    }
}

/// The suite expects separate progress notifications, so there is time between them.
async fn report(context: &CallContext) {
    for words in ["begun", "half way", "done"] {
        if let Some(progress) = &context.progress {
            progress(words.into());
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

/// Every tool that the suite calls and that the gate can have.
pub(crate) fn all(changing: &Arc<Changing>) -> Vec<Arc<dyn Tool>> {
    use Deed::{Change, Fail, Hand, Report, Say};
    use ToolClass::{Read, Write};
    let picture = || Attachment::Image { mime_type: "image/png".to_owned(), data: PICTURE.to_owned() };
    let sound = Attachment::Audio { mime_type: "audio/wav".to_owned(), data: SOUND.to_owned() };
    let embedded =
        document("test://embedded-resource", "text/plain", "This is an embedded resource content.");
    let mixed =
        document("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
    let rows = vec![
        ("test_simple_text", Read, Say("This is a simple text response for testing.")),
        ("test_image_content", Read, Hand("a picture", vec![picture()])),
        ("test_audio_content", Read, Hand("a sound", vec![sound])),
        ("test_embedded_resource", Read, Hand("a document", vec![embedded])),
        ("test_multiple_content_types", Read, Hand("Multiple content types test:", vec![picture(), mixed])),
        ("test_error_handling", Read, Fail("This tool intentionally returns an error for testing")),
        ("test_tool_with_progress", Read, Report),
        ("test_tool_with_logging", Read, Say("nothing is logged to clients")),
        ("test_logging_tool", Read, Say("nothing is logged to clients")),
        ("test_trigger_tool_change", Read, Change(Arc::clone(changing))),
        ("test_streaming_elicitation", Write, Say("somebody agreed")),
        ("test_elicitation", Write, Say("somebody agreed")),
        ("test_input_required_result_elicitation", Write, Say("somebody agreed")),
        ("test_input_required_result_request_state", Write, Say("state-ok")),
        ("test_input_required_result_tampered_state", Write, Say("state-ok")),
        ("test_input_required_result_capabilities", Write, Say("somebody agreed")),
        ("json_schema_2020_12_tool", Read, Say("a schema with everything in it")),
    ];
    rows.into_iter().map(|(name, class, deed)| tool(name, class, deed)).collect()
}

/// The tool that is added and removed.
pub(crate) fn passing() -> Arc<dyn Tool> {
    tool("test_passing", ToolClass::Read, Deed::Say("still there"))
}

fn document(uri: &str, mime_type: &str, text: &str) -> Attachment {
    Attachment::Document {
        uri: uri.to_owned(),
        mime_type: Some(mime_type.to_owned()),
        content: DocumentContent::Text(text.into()),
    }
}

fn tool(name: &str, class: ToolClass, deed: Deed) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.parse().unwrap(),
        title: name.replace('_', " "),
        description: format!("What the conformance suite calls `{name}`."),
        class,
        category: Category::Mcp,
        input_schema: input_schema(name).into(),
        output_schema: json!({
            "type": "object",
            "properties": {"said": {"type": "string"}},
            "required": ["said"],
            "additionalProperties": false,
        })
        .into(),
        requirements: None,
        output_policy: None,
        timeout: None,
        suspended: None,
    };
    Arc::new(Fixture { spec, deed })
}

fn input_schema(name: &str) -> Value {
    match name {
        "test_elicitation" => json!({
            "type": "object",
            "properties": {"message": {"type": "string"}},
            "required": ["message"],
            "additionalProperties": false,
        }),
        "json_schema_2020_12_tool" => everything(),
        _ => json!({"type": "object", "properties": {}, "additionalProperties": false}),
    }
}

/// A schema with keywords that a careless server would lose.
fn everything() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
