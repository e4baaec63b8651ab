//! A request of a client: its method with typed parameters, and what is known about it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, CompleteRequestParams, ErrorData, GetPromptRequestParams,
    InitializeRequestParams, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, RequestId,
    RequestMetaObject, SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::admission::{ConcurrencyPermit, ResponseBytesPermit};
use crate::mcp::ClientIdentity;
use crate::mcp::client_sink::ClientSink;
use crate::mcp::log_messages::LogLevelRequest;
use crate::mcp::message::IncomingMessage;
use crate::mcp::object_json::ObjectJson;

/// The first protocol version without sessions.
pub(crate) const STATELESS: &ProtocolVersion = &ProtocolVersion::V_2026_07_28;

/// A method that is served, with its parameters.
#[derive(Debug)]
pub(crate) enum McpRequest {
    Initialize(Box<InitializeRequestParams>),
    Ping,
    Discover,
    ListTools(PaginatedRequestParams),
    CallTool(Box<CallToolRequestParams>),
    ListResources(PaginatedRequestParams),
    ListResourceTemplates,
    ReadResource(Box<ReadResourceRequestParams>),
    Subscribe(SubscribeRequestParams),
    Unsubscribe(UnsubscribeRequestParams),
    Listen(Box<SubscriptionsListenRequestParams>),
    SetLevel(LogLevelRequest),
    ListPrompts(PaginatedRequestParams),
    GetPrompt(Box<GetPromptRequestParams>),
    Complete(Box<CompleteRequestParams>),
    /// The parameters are not those of the method.
    Unreadable {
        method: &'static str,
        params: Value,
    },
    /// No method of this server.
    Unknown(String),
}

/// The methods of requests.
pub(crate) mod method {
    pub(crate) const INITIALIZE: &str = "initialize";
    pub(crate) const PING: &str = "ping";
    pub(crate) const DISCOVER: &str = "server/discover";
    pub(crate) const LIST_TOOLS: &str = "tools/list";
    pub(crate) const CALL_TOOL: &str = "tools/call";
    pub(crate) const LIST_RESOURCES: &str = "resources/list";
    pub(crate) const LIST_RESOURCE_TEMPLATES: &str = "resources/templates/list";
    pub(crate) const READ_RESOURCE: &str = "resources/read";
    pub(crate) const SUBSCRIBE: &str = "resources/subscribe";
    pub(crate) const UNSUBSCRIBE: &str = "resources/unsubscribe";
    pub(crate) const LISTEN: &str = "subscriptions/listen";
    pub(crate) const SET_LEVEL: &str = "logging/setLevel";
    pub(crate) const LIST_PROMPTS: &str = "prompts/list";
    pub(crate) const GET_PROMPT: &str = "prompts/get";
    pub(crate) const COMPLETE: &str = "completion/complete";
}

/// The one part that all parameters share.
#[derive(Deserialize)]
struct SharedParams {
    #[serde(rename = "_meta", default)]
    meta: Option<RequestMetaObject>,
}

impl McpRequest {
    /// Reads the parameters of a method, and their `_meta`.
    pub(crate) fn read(named: &str, params: Option<&RawValue>) -> (Self, RequestMetaObject) {
        let params = params.map_or("{}", RawValue::get);
        let request = match named {
            // The most common one: its `_meta` is read with the rest.
            method::CALL_TOOL => match ObjectJson::of(params).and_then(|object| object.parse()) {
                Some(call) => {
                    let mut call: CallToolRequestParams = call;
                    let meta = call.meta.take().unwrap_or_default();
                    return (Self::CallTool(Box::new(call)), meta);
                }
                None => Self::unreadable(method::CALL_TOOL, params),
            },
            method::INITIALIZE => Self::typed(method::INITIALIZE, params, Self::Initialize),
            method::PING => Self::typed(method::PING, params, |_: IgnoredAny| Self::Ping),
            method::DISCOVER => Self::typed(method::DISCOVER, params, |_: IgnoredAny| Self::Discover),
            method::LIST_TOOLS => Self::typed(method::LIST_TOOLS, params, Self::ListTools),
            method::LIST_RESOURCES => Self::typed(method::LIST_RESOURCES, params, Self::ListResources),
            method::LIST_RESOURCE_TEMPLATES => {
                Self::typed(method::LIST_RESOURCE_TEMPLATES, params, |_: PaginatedRequestParams| {
                    Self::ListResourceTemplates
                })
            }
            method::READ_RESOURCE => Self::typed(method::READ_RESOURCE, params, Self::ReadResource),
            method::SUBSCRIBE => Self::typed(method::SUBSCRIBE, params, Self::Subscribe),
            method::UNSUBSCRIBE => Self::typed(method::UNSUBSCRIBE, params, Self::Unsubscribe),
            method::LISTEN => Self::typed(method::LISTEN, params, Self::Listen),
            method::SET_LEVEL => Self::typed(method::SET_LEVEL, params, Self::SetLevel),
            method::LIST_PROMPTS => Self::typed(method::LIST_PROMPTS, params, Self::ListPrompts),
            method::GET_PROMPT => Self::typed(method::GET_PROMPT, params, Self::GetPrompt),
            method::COMPLETE => Self::typed(method::COMPLETE, params, Self::Complete),
            other => Self::Unknown(other.to_owned()),
        };
        let shared: Option<SharedParams> = ObjectJson::of(params).and_then(|object| object.parse());
        (request, shared.and_then(|shared| shared.meta).unwrap_or_default())
    }

    fn typed<Params: DeserializeOwned>(
        named: &'static str,
        params: &str,
        request: impl FnOnce(Params) -> Self,
    ) -> Self {
        let read = ObjectJson::of(params).and_then(|object| object.parse());
        read.map_or_else(|| Self::unreadable(named, params), request)
    }

    fn unreadable(named: &'static str, params: &str) -> Self {
        // The codec has read it as JSON already.
        Self::Unreadable { method: named, params: serde_json::from_str(params).unwrap_or_default() }
    }

    /// The name of what a request is about, as a header repeats it (SEP-2243).
    pub(crate) fn subject(named: &str, params: &RawValue) -> Option<String> {
        #[derive(Deserialize)]
        struct Subject {
            #[serde(default)]
            name: Option<Value>,
            #[serde(default)]
            uri: Option<Value>,
        }
        let Subject { name, uri } = ObjectJson::of(params.get())?.parse()?;
        let subject = match named {
            method::CALL_TOOL | method::GET_PROMPT => name,
            method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => uri,
            _ => None,
        };
        subject.and_then(|subject| subject.as_str().map(str::to_owned))
    }

    /// The tool that it calls.
    pub(crate) fn tool(&self) -> Option<&str> {
        match self {
            Self::CallTool(call) => Some(&call.name),
            _ => None,
        }
    }
}

/// A message of a client, with typed parameters.
pub(crate) enum ReceivedMessage {
    Request {
        id: RequestId,
        request: McpRequest,
        meta: RequestMetaObject,
    },
    /// The client does not wait for this request any more.
    Cancelled(RequestId),
    /// The session is established.
    Initialized,
    /// The response to a request of the gate.
    Reply {
        id: RequestId,
        reply: Result<Box<RawValue>, ErrorData>,
    },
    /// Any other notification.
    Ignored,
}

impl From<IncomingMessage<'_>> for ReceivedMessage {
    fn from(message: IncomingMessage<'_>) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CancelledParams {
            request_id: RequestId,
        }
        match message {
            IncomingMessage::Request { id, method, params } => {
                let (request, meta) = McpRequest::read(&method, params);
                Self::Request { id, request, meta }
            }
            IncomingMessage::Reply { id, reply } => Self::Reply { id, reply: reply.map(ToOwned::to_owned) },
            IncomingMessage::Notification { method, params } => match (&*method, params) {
                ("notifications/initialized", _) => Self::Initialized,
                ("notifications/cancelled", Some(params)) => {
                    let named = ObjectJson::of(params.get()).and_then(|object| object.parse());
                    named.map_or(Self::Ignored, |CancelledParams { request_id }| Self::Cancelled(request_id))
                }
                _ => Self::Ignored,
            },
        }
    }
}

/// What is held for a request until its response is written.
#[derive(Debug, Default)]
pub(crate) struct HeldPermits {
    /// Of the connection.
    pub(crate) connection: Option<OwnedSemaphorePermit>,
    /// Of the memory for long responses.
    pub(crate) memory: Option<ResponseBytesPermit>,
}

/// A request that is being answered.
pub(crate) struct RequestContext {
    pub(crate) id: RequestId,
    /// `_meta` of its parameters.
    pub(crate) meta: RequestMetaObject,
    pub(crate) identity: Arc<ClientIdentity>,
    /// Cancelled by the client: with a notification, or by leaving.
    pub(crate) cancelled: CancellationToken,
    /// Reaches the client while the request is answered.
    pub(crate) client: ClientSink,
    /// Whether other requests wait for the thread that answers this one.
    pub(crate) is_contended: bool,
    /// What was negotiated with `initialize`.
    pub(crate) session: Option<Arc<InitializeRequestParams>>,
    is_stateless: bool,
    held: Mutex<HeldPermits>,
}

impl RequestContext {
    pub(crate) fn new(
        id: RequestId,
        meta: RequestMetaObject,
        identity: Arc<ClientIdentity>,
        client: ClientSink,
        session: Option<Arc<InitializeRequestParams>>,
    ) -> Self {
        let (cancelled, held) = (CancellationToken::new(), Mutex::default());
        let is_stateless =
            meta.protocol_version().is_some_and(|version| version.as_str() >= STATELESS.as_str());
        Self { id, meta, identity, cancelled, client, is_contended: false, session, is_stateless, held }
    }

    /// What the client can do, as this request or its session says.
    pub(crate) fn client_capabilities(&self) -> Option<Cow<'_, ClientCapabilities>> {
        let of_session = || self.session.as_ref().map(|session| Cow::Borrowed(&session.capabilities));
        self.meta.client_capabilities().map(Cow::Owned).or_else(of_session)
    }

    /// Whether it uses the stateless protocol (2026-07-28 or later). A session never does.
    pub(crate) fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    /// Checks the version that a request names, and that one without a session brings what it must.
    ///
    /// # Errors
    /// The response.
    pub(crate) fn check_version(&self, request: &McpRequest) -> Result<(), ErrorData> {
        if matches!(request, McpRequest::Initialize(_)) {
            return Ok(());
        }
        let known = ProtocolVersion::KNOWN_VERSIONS;
        if let Some(named) = self.meta.protocol_version().filter(|named| !known.contains(named)) {
            return Err(ErrorData::unsupported_protocol_version(named, known));
        }
        let is_ping = matches!(request, McpRequest::Ping);
        let needs_meta = self.is_stateless()
            || matches!(request, McpRequest::Discover)
            || (self.session.is_none() && !is_ping);
        if !needs_meta {
            return Ok(());
        }
        let missing = self.meta.missing_required_keys(STATELESS);
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        let mut message = format!("request _meta is missing or has malformed required fields: {missing}");
        if self.session.is_none() {
            message.push_str("; or begin a session with `initialize` first");
        }
        Err(ErrorData::invalid_params(message, None))
    }

    /// Holds a permit of the connection until the response is written.
    pub(crate) fn hold_permit(&self, permit: &ConcurrencyPermit) {
        self.held().connection = permit.take();
    }

    /// Holds memory until the response is written.
    pub(crate) fn hold_memory(&self, memory: ResponseBytesPermit) {
        self.held().memory = Some(memory);
    }

    /// What is held, for the transport that writes the response.
    pub(crate) fn take_held(&self) -> HeldPermits {
        std::mem::take(&mut self.held())
    }

    fn held(&self) -> MutexGuard<'_, HeldPermits> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: [&str; 15] = [
        method::INITIALIZE,
        method::PING,
        method::DISCOVER,
        method::LIST_TOOLS,
        method::CALL_TOOL,
        method::LIST_RESOURCES,
        method::LIST_RESOURCE_TEMPLATES,
        method::READ_RESOURCE,
        method::SUBSCRIBE,
        method::UNSUBSCRIBE,
        method::LISTEN,
        method::SET_LEVEL,
        method::LIST_PROMPTS,
        method::GET_PROMPT,
        method::COMPLETE,
    ];

    fn read(named: &str, params: &str) -> McpRequest {
        McpRequest::read(named, Some(&RawValue::from_string(params.to_owned()).unwrap())).0
    }

    #[test]
    fn parameters_that_are_no_object_are_unreadable_for_every_method_and_for_no_other() {
        for params in ["[]", r#"[null,"delete_file",{}]"#, "7", "null", r#""{""#] {
            for named in METHODS {
                let refused = read(named, params);
                let is_named = |method: &str| method == named;
                assert!(
                    matches!(refused, McpRequest::Unreadable { method, .. } if is_named(method)),
                    "{named} {params}: {refused:?}"
                );
            }
            assert!(
                matches!(read("tools/steal", params), McpRequest::Unknown(named) if named == "tools/steal")
            );
        }
        assert!(matches!(read(method::PING, "{}"), McpRequest::Ping));
        assert!(matches!(read(method::DISCOVER, r#"{"_meta":{}}"#), McpRequest::Discover));
    }

    #[test]
    fn a_subject_and_a_cancellation_are_named_by_an_object_alone() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let subject = |json: &str| McpRequest::subject(method::CALL_TOOL, &raw(json));
        assert_eq!(subject(r#"{"name":"a","uri":"b"}"#).as_deref(), Some("a"));
        assert_eq!(subject(r#"["a","b"]"#), None);
        let cancelled = |json: &str| {
            let params = raw(json);
            let method = "notifications/cancelled".into();
            ReceivedMessage::from(IncomingMessage::Notification { method, params: Some(&params) })
        };
        assert!(matches!(cancelled(r#"{"requestId":7}"#), ReceivedMessage::Cancelled(RequestId::Number(7))));
        assert!(matches!(cancelled("[7]"), ReceivedMessage::Ignored));
    }
}
