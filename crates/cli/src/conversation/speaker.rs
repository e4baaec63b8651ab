//! Somebody to speak with: a real model behind its wire, or a script behind the same wire.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use toolgate_llm::{
    ApiKey, Capabilities, Endpoint, ModelName, Provider, ProviderError, StepEvents, StepRequest,
    StreamRecorder, Timeouts, Wire, installed_models, provider,
};
use toolgate_scripted::{DEMO, Script, ScriptServer, ServerOptions};

use super::declared::timeouts;
use super::keys;
use super::model::{Chosen, Route, SCRIPTED, ScriptName};
use crate::ambient::{Surroundings, read_regular_file, variable};
use crate::exit::Failed;
use crate::settings::Settings;

/// The name of the script that came along, in messages about it.
const DEMONSTRATION: &str = "demo";

/// How long an Ollama is waited for that nobody asked for.
const GLANCE: Duration = Duration::from_secs(1);

/// A model that can be asked.
pub(crate) struct Speaker {
    pub(crate) provider: Arc<dyn Provider>,
    /// How much it may say in one step, where the operator says so.
    pub(crate) max_output_tokens: Option<u32>,
    /// The server that plays the script, for as long as it is spoken with.
    _script: Option<ScriptServer>,
}

impl Speaker {
    /// Finds out how to reach a model. Nothing is sent yet; a script begins to be served. Called within a runtime.
    pub(crate) async fn find(
        chosen: Chosen,
        settings: &Settings,
        recorder: Option<StreamRecorder>,
    ) -> Result<Self, Failed> {
        let timeouts = timeouts(settings);
        match chosen {
            Chosen::Route(route) => Self::at(route, timeouts, recorder),
            Chosen::Script(name) => Self::playing(name, &settings.surroundings, timeouts, recorder).await,
        }
    }

    fn at(route: Route, timeouts: Timeouts, recorder: Option<StreamRecorder>) -> Result<Self, Failed> {
        let (wire, model, stated) = (route.wire, route.model.clone(), route.stated);
        let endpoint = Endpoint { recorder, timeouts, ..endpoint(route)? };
        let max_output_tokens = stated.max_output_tokens.and_then(|most| u32::try_from(most).ok());
        Ok(Self { provider: provider(wire, endpoint, model), max_output_tokens, _script: None })
    }

    async fn playing(
        name: ScriptName,
        surroundings: &Surroundings,
        timeouts: Timeouts,
        recorder: Option<StreamRecorder>,
    ) -> Result<Self, Failed> {
        let script = script(name.file.as_deref(), surroundings)?;
        // A script may answer to one name only, whatever its file is called.
        let asked = ModelName { provider: SCRIPTED.to_owned(), name: script.model_name().to_owned() };
        let shown = ModelName { provider: SCRIPTED.to_owned(), name: name.written };
        let wire = name.wire.unwrap_or_else(|| script.wire().map_or(Wire::Anthropic, spoken));
        let server = serve(script, ServerOptions::default()).await?;
        // Some wires are not spoken without a key, and a script takes any.
        let endpoint = Endpoint::new(server.base_url(played(wire))).key(Some(ApiKey::new(SCRIPTED)));
        let provider = provider(wire, Endpoint { recorder, timeouts, ..endpoint }, asked);
        let provider = Arc::new(Called { provider, name: shown });
        Ok(Self { provider, max_output_tokens: None, _script: Some(server) })
    }
}

/// Where a model is asked, with its key.
pub(super) fn endpoint(route: Route) -> Result<Endpoint, Failed> {
    let Route { base_url, key, headers, stated, tool_names, .. } = route;
    let key = keys::read(&key, &set)?;
    let headers = headers.into_iter().map(|(name, value)| (name, ApiKey::new(value))).collect();
    Ok(Endpoint { headers, stated, tool_names, ..Endpoint::new(base_url) }.key(key))
}

/// The model of an Ollama that runs, where one does: the one that was last changed.
pub(crate) async fn installed(route: Route) -> Option<String> {
    let patience = Timeouts { connect: GLANCE, first_byte: GLANCE, idle: GLANCE };
    let endpoint = Endpoint { timeouts: patience, ..endpoint(route).ok()? };
    installed_models(&endpoint).await.ok()?.into_iter().next()
}

/// A variable that says something.
pub(crate) fn set(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.trim().is_empty())
}

/// The script of a file, or the one that came along.
pub(crate) fn script(file: Option<&std::path::Path>, surroundings: &Surroundings) -> Result<Script, Failed> {
    let Some(file) = file else {
        return Script::parse(DEMONSTRATION, DEMO).map_err(|problems| Failed::error(problems.to_string()));
    };
    let path = surroundings.absolute(file)?;
    let shown = surroundings.shown(&path);
    let unreadable = |reason: String| {
        Failed::usage(format!("the script `{shown}` cannot be read: {reason}"))
            .help("name an existing file, or demo for the script that came along")
    };
    let bytes = read_regular_file(&path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
    Script::parse(&shown, &text).map_err(|problems| Failed::usage(problems.to_string()))
}

/// Plays a script to whoever asks.
pub(crate) async fn serve(script: Script, options: ServerOptions) -> Result<ScriptServer, Failed> {
    ScriptServer::start(script, options)
        .await
        .map_err(|error| Failed::error(format!("the script cannot be served: {error}")))
}

fn spoken(wire: toolgate_scripted::Wire) -> Wire {
    match wire {
        toolgate_scripted::Wire::Anthropic => Wire::Anthropic,
        toolgate_scripted::Wire::Openai => Wire::Openai,
        toolgate_scripted::Wire::OpenaiChat => Wire::OpenaiChat,
        toolgate_scripted::Wire::Ollama => Wire::Ollama,
    }
}

fn played(wire: Wire) -> toolgate_scripted::Wire {
    match wire {
        Wire::Anthropic => toolgate_scripted::Wire::Anthropic,
        Wire::Openai => toolgate_scripted::Wire::Openai,
        Wire::OpenaiChat => toolgate_scripted::Wire::OpenaiChat,
        Wire::Ollama => toolgate_scripted::Wire::Ollama,
    }
}

/// A model under another name than the one that it is asked by.
struct Called {
    provider: Arc<dyn Provider>,
    name: ModelName,
}

impl Provider for Called {
    fn model(&self) -> &ModelName {
        &self.name
    }

    fn step<'p>(
        &'p self,
        request: StepRequest<'p>,
    ) -> Pin<Box<dyn Future<Output = Result<StepEvents, ProviderError>> + Send + 'p>> {
        self.provider.step(request)
    }

    fn capabilities(&self) -> Pin<Box<dyn Future<Output = Result<Capabilities, ProviderError>> + Send + '_>> {
        self.provider.capabilities()
    }
}
