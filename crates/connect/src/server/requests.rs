//! The requests that calls are sent as.

use rmcp::model::{
    ArgumentInfo, CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest,
    CompleteRequestParams, CompletionContext, GetPromptRequest, GetPromptRequestParams, InputResponses,
    JsonObject, ReadResourceRequest, ReadResourceRequestParams, Reference,
};
use serde_json::Value;
use toolgate_types::{ErrorCode, Failure};

use super::UpstreamCall;
use crate::surface::{DefinitionKind, usable_uri};

/// The request for a definition of this name.
pub(super) fn request_of(call: UpstreamCall) -> Result<ClientRequest, Failure> {
    let UpstreamCall { tool, arguments, .. } = call;
    Ok(match DefinitionKind::of(&tool) {
        DefinitionKind::Tool => {
            let params = CallToolRequestParams::new(tool).with_arguments(arguments);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        }
        DefinitionKind::Prompt(prompt) => {
            let params = GetPromptRequestParams::new(prompt).with_arguments(arguments);
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        }
        DefinitionKind::ReadResource | DefinitionKind::SubscribeResource => {
            let uri = usable_uri_of(&arguments)?;
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(uri)))
        }
        DefinitionKind::Complete => {
            ClientRequest::CompleteRequest(CompleteRequest::new(completion_of(&arguments)?))
        }
    })
}

pub(super) fn usable_uri_of(arguments: &JsonObject) -> Result<String, Failure> {
    arguments.get("uri").and_then(Value::as_str).and_then(usable_uri).ok_or_else(|| {
        Failure::new(ErrorCode::InvalidArguments, "`uri` is not one of a server's resource")
            .help("use a URI that is listed, or one of a listed template")
    })
}

fn completion_of(arguments: &JsonObject) -> Result<CompleteRequestParams, Failure> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    let reference = match (text("prompt"), text("template")) {
        (Some(prompt), None) => Reference::for_prompt(prompt),
        (None, Some(template)) => Reference::for_resource(template),
        _ => {
            return Err(Failure::new(
                ErrorCode::InvalidArguments,
                "an argument of a prompt or of a template is completed",
            )
            .help("pass either `prompt` or `template`"));
        }
    };
    let argument = ArgumentInfo::new(text("argument").unwrap_or_default(), text("value").unwrap_or_default());
    let mut params = CompleteRequestParams::new(reference, argument);
    if let Some(Value::Object(known)) = arguments.get("context") {
        let known = known.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        params = params.with_context(CompletionContext::with_arguments(known.collect()));
    }
    Ok(params)
}

/// Adds answers to a repeated request (stateless protocol).
pub(super) fn add_responses(request: &mut ClientRequest, responses: InputResponses, state: Option<String>) {
    let (given, echoed) = match request {
        ClientRequest::CallToolRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        ClientRequest::GetPromptRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        ClientRequest::ReadResourceRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        _ => return,
    };
    (*given, *echoed) = (Some(responses), state);
}
