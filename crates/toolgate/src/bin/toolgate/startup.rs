//! From the command line to settings: the environment of the process, the overrides, and the question about a found configuration.

use std::io::{self, IsTerminal as _};

use toolgate_assembly::ambient::HostEnvironment;
use toolgate_assembly::settings::{self, LoadedConfig, Settings};
use toolgate_assembly::trust::{Agreement, CoveredConfig, EffectGroup, TrustPrompt};
use toolgate_types::Trust;

use crate::arguments::GlobalOptions;
use crate::exit::CliError;
use crate::telemetry;
use crate::terminal::confirm;
use crate::trust_screen::overview;

/// The question about a found configuration.
pub(crate) const TRUST_QUESTION: &str = "Agree to this configuration?";

/// Joins command line and configuration; the command line takes precedence. Asks about a found configuration if standard input and standard error are
/// terminals.
pub(crate) fn resolve_settings(common: &GlobalOptions, default_trust: Trust) -> Result<Settings, CliError> {
    let environment = HostEnvironment::detect()?;
    let settings =
        settings::resolve_settings(&common.overrides(), default_trust, environment, trust_prompt())?;
    telemetry::start_configured(&settings.loaded.config);
    Ok(settings)
}

fn trust_prompt() -> TrustPrompt<'static> {
    match io::stdin().is_terminal() && io::stderr().is_terminal() {
        true => TrustPrompt::Ask(&ask_on_terminal),
        false => TrustPrompt::Never,
    }
}

fn ask_on_terminal(covered: &CoveredConfig, effects: &[EffectGroup], before: Option<&Agreement>) -> bool {
    confirm(|screen| overview(covered, effects, before, screen), TRUST_QUESTION) == Some(true)
}

/// Reads the configuration in use; asks as [`resolve_settings`] does.
pub(crate) fn load_config(
    common: &GlobalOptions,
    environment: &HostEnvironment,
) -> Result<LoadedConfig, CliError> {
    Ok(settings::load(&common.overrides(), environment, trust_prompt())?)
}

/// An environment variable of this process, if it is UTF-8: for what starts before the surroundings are known (logs, traces). Everything else asks
/// `HostEnvironment::var`.
pub(crate) fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
