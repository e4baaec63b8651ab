//! A usable model: a real one or a script, behind the same wire format.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use toolgate_assembly::ambient::{HostEnvironment, read_regular_file};
use toolgate_assembly::settings::Settings;
use toolgate_llm::{
    ApiKey, Capabilities, Endpoint, ModelName, Provider, ProviderError, StepEvents, StepRequest,
    StreamRecorder, Timeouts, Wire, provider,
};
use toolgate_scripted::{DEMO, Script, ScriptServer, ServerOptions};

use super::catalogue::{DEMO_SCRIPT, ModelRoute, ModelSource, SCRIPTED, ScriptName};
use super::keys;
use crate::model_error::ModelError;

/// The timeout for probing a server that was not explicitly selected.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A model that can be used.
pub struct ModelHandle {
    pub(crate) provider: Arc<dyn Provider>,
    /// The limit of output tokens per step, if the operator set one.
    pub(crate) max_output_tokens: Option<u32>,
    /// The server of the script, kept alive with this handle.
    _script: Option<ScriptServer>,
}

impl ModelHandle {
    /// Prepares the access to a model. No request is sent yet; a script starts to be served. Must be called within a runtime.
    pub(crate) async fn find(
        chosen: ModelSource,
        settings: &Settings,
        timeouts: Timeouts,
        recorder: Option<StreamRecorder>,
    ) -> Result<Self, ModelError> {
        match chosen {
            ModelSource::Route(route) => Self::connect(route, &settings.environment, timeouts, recorder),
            ModelSource::Script(name) => {
                Self::play_script(name, &settings.environment, timeouts, recorder).await
            }
        }
    }

    fn connect(
        route: ModelRoute,
        environment: &HostEnvironment,
        timeouts: Timeouts,
        recorder: Option<StreamRecorder>,
    ) -> Result<Self, ModelError> {
        let (wire, model, stated) = (route.wire, route.model.clone(), route.stated);
        let endpoint = Endpoint { recorder, timeouts, ..endpoint(route, environment)? };
        let max_output_tokens = stated.max_output_tokens.and_then(|most| u32::try_from(most).ok());
        Ok(Self { provider: provider(wire, endpoint, model), max_output_tokens, _script: None })
    }

    async fn play_script(
        name: ScriptName,
        surroundings: &HostEnvironment,
        timeouts: Timeouts,
        recorder: Option<StreamRecorder>,
    ) -> Result<Self, ModelError> {
        let script = load_script(name.file.as_deref(), surroundings)?;
        // A script may accept only one model name, whatever its file is called.
        let asked = ModelName { provider: SCRIPTED.to_owned(), name: script.model_name().to_owned() };
        let shown = ModelName { provider: SCRIPTED.to_owned(), name: name.written };
        let wire = name.wire.or_else(|| Wire::named(script.wire()?.as_str())).unwrap_or(Wire::Anthropic);
        let served = served_wire(wire)?;
        let server = serve(script, ServerOptions::default()).await?;
        // Some wire formats require a key, and the script server accepts any.
        let endpoint = Endpoint::new(server.base_url(served)).key(Some(ApiKey::new(SCRIPTED)));
        let provider = provider(wire, Endpoint { recorder, timeouts, ..endpoint }, asked);
        let provider = Arc::new(RenamedProvider { provider, name: shown });
        Ok(Self { provider, max_output_tokens: None, _script: Some(server) })
    }
}

/// The endpoint of a model, with its key.
pub(crate) fn endpoint(route: ModelRoute, environment: &HostEnvironment) -> Result<Endpoint, ModelError> {
    let ModelRoute { base_url, key, headers, stated, tool_names, .. } = route;
    let key = keys::read(&key, &|name| nonempty_variable(environment, name))?;
    let headers = headers.into_iter().map(|(name, value)| (name, ApiKey::new(value))).collect();
    Ok(Endpoint { headers, stated, tool_names, ..Endpoint::new(base_url) }.key(key))
}

/// The newest model of a server, if one answers and says which it has.
pub(crate) async fn installed_model(route: ModelRoute, environment: &HostEnvironment) -> Option<String> {
    let timeouts = Timeouts { connect: PROBE_TIMEOUT, first_byte: PROBE_TIMEOUT, idle: PROBE_TIMEOUT };
    let wire = route.wire;
    let endpoint = Endpoint { timeouts, ..endpoint(route, environment).ok()? };
    wire.installed_models(&endpoint).await?.ok()?.into_iter().next()
}

/// An environment variable that is not blank.
pub(crate) fn nonempty_variable(environment: &HostEnvironment, name: &str) -> Option<String> {
    environment.var(name).filter(|value| !value.trim().is_empty())
}

/// The script of a file, or the built-in one.
pub fn load_script(
    file: Option<&std::path::Path>,
    surroundings: &HostEnvironment,
) -> Result<Script, ModelError> {
    let Some(file) = file else {
        return Script::parse(DEMO_SCRIPT, DEMO).map_err(|problems| ModelError::error(problems.to_string()));
    };
    let path = surroundings.absolute(file)?;
    let shown = surroundings.display_path(&path);
    let unreadable = |reason: String| {
        ModelError::usage(format!("the script `{shown}` cannot be read: {reason}"))
            .help("name an existing file, or demo for the script that came along")
    };
    let bytes = read_regular_file(&path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
    Script::parse(&shown, &text).map_err(|problems| ModelError::usage(problems.to_string()))
}

/// Serves a script.
pub async fn serve(script: Script, options: ServerOptions) -> Result<ScriptServer, ModelError> {
    ScriptServer::start(script, options)
        .await
        .map_err(|error| ModelError::error(format!("the script cannot be served: {error}")))
}

/// The wire of the script server that has the name of this one.
fn served_wire(wire: Wire) -> Result<toolgate_scripted::Wire, ModelError> {
    toolgate_scripted::Wire::named(wire.name())
        .ok_or_else(|| ModelError::usage(format!("no script is served over `{}`", wire.name())))
}

/// A provider that shows another model name than it sends.
struct RenamedProvider {
    provider: Arc<dyn Provider>,
    name: ModelName,
}

impl Provider for RenamedProvider {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_served_over_every_wire_that_is_spoken() {
        for &wire in Wire::ALL {
            assert_eq!(served_wire(wire).unwrap().as_str(), wire.name());
        }
        assert_eq!(toolgate_scripted::Wire::ALL.len(), Wire::ALL.len());
    }
}
