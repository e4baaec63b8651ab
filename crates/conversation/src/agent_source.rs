//! Builds the agent of a conversation.

use std::sync::Arc;

use toolgate_agent::Agent;
use toolgate_assembly::settings::Settings;
use toolgate_assembly::trust::ProjectInstructions;
use toolgate_llm::{ModelName, StreamRecorder};
use toolgate_tools::ProfiledGate;
use toolgate_types::AgentName;
use toolgate_workspace::Workspace;

use crate::agent_settings::{self, AgentOverrides};
use crate::model_error::ModelError;
use crate::models::{
    ModelHandle, ModelSource, ProviderCatalogue, SCRIPTED, installed_model, no_model, nonempty_variable,
};

/// What the agents of a process are built from.
#[derive(Clone, Copy)]
pub struct AgentSource<'a> {
    /// The gate that their calls go through.
    pub gate: &'a Arc<ProfiledGate>,
    /// The mounts that the system prompt names.
    pub workspace: &'a Workspace,
    /// The configuration.
    pub settings: &'a Settings,
    /// What takes precedence over the configuration.
    pub overrides: &'a AgentOverrides,
    /// The project's instructions that the user agreed to.
    pub instructions: &'a [ProjectInstructions],
    /// Records what the model's server sends.
    pub recorder: Option<&'a StreamRecorder>,
    /// The declared agent that the model runs as.
    pub agent: Option<&'a AgentName>,
}

/// An agent, and the model that it keeps running.
pub struct ReadyAgent {
    /// The agent.
    pub agent: Agent,
    _model: ModelHandle,
}

impl AgentSource<'_> {
    /// An agent with the named model, else with the configured or suggested one.
    ///
    /// # Errors
    /// There is no such model, or its key cannot be used.
    pub async fn build(&self, model: Option<&str>) -> Result<ReadyAgent, ModelError> {
        let chosen = self.choose(model).await?;
        let timeouts = agent_settings::timeouts(self.settings, self.agent);
        let handle = ModelHandle::find(chosen, self.settings, timeouts, self.recorder.cloned()).await?;
        let settings = agent_settings::agent_settings(self, &handle)?;
        let agent = Agent::new(Arc::clone(self.gate), Arc::clone(&handle.provider), settings);
        Ok(ReadyAgent { agent, _model: handle })
    }

    /// The name of the model that [`Self::build`] would use. Nothing is sent to it, unless only a running server can say.
    ///
    /// # Errors
    /// There is no such model.
    pub async fn model_name(&self, model: Option<&str>) -> Result<ModelName, ModelError> {
        Ok(match self.choose(model).await? {
            ModelSource::Route(route) => route.model,
            ModelSource::Script(script) => ModelName { provider: SCRIPTED.to_owned(), name: script.written },
        })
    }

    async fn choose(&self, model: Option<&str>) -> Result<ModelSource, ModelError> {
        let variable = |name: &str| nonempty_variable(&self.settings.environment, name);
        let declared = agent_settings::providers(self.settings)?;
        let keyless = {
            let offer = ProviderCatalogue { declared: &declared, variable: &variable };
            let named = model.map(str::to_owned);
            let named = named.or_else(|| agent_settings::model(self.settings, self.agent));
            if let Some(name) = named.or_else(|| offer.suggested()) {
                return offer.find(&name);
            }
            offer.keyless()
        };
        // A server that needs no key may run here.
        for route in keyless {
            let provider = route.model.provider.clone();
            if let Some(name) = installed_model(route, &self.settings.environment).await {
                let offer = ProviderCatalogue { declared: &declared, variable: &variable };
                return offer.find(&format!("{provider}/{name}"));
            }
        }
        Err(no_model())
    }
}
