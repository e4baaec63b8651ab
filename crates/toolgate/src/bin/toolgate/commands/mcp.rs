//! `toolgate mcp`: the gate as an MCP server on standard input and output.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolgate_assembly::ambient::open_private_directory;
use toolgate_assembly::callers;
use toolgate_assembly::gate_builder::{self, AssembledGate, GateBuildOptions};
use toolgate_assembly::personal_paths::warn_of_homes;
use toolgate_assembly::reload::{Reloader, fingerprints, watch_files};
use toolgate_assembly::servers::{ServerSelection, Servers};
use toolgate_assembly::settings::Settings;
use toolgate_connect::BridgedResource;
use toolgate_gate::{BlockingStrategy, Credential, Gate};
use toolgate_identity::TokenError;
use toolgate_serve::{
    HeldResource, OutputStore, Service, ServiceOptions, UpstreamResource, UpstreamResources, resume_stdio,
};
use toolgate_types::{CallId, SessionId, Trust};

use super::{mcp_roots, mcp_startup_error, token_verification};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::interrupt::Interrupt;
use crate::startup::resolve_settings;
use crate::state_usage::{output_bounds, state_usage};
use crate::terminal::warn;

/// Delay before `madvise_dontneed_text`: by then the client has its first response, and the memory that only the start needed can be released.
const MEMORY_TRIM_DELAY: Duration = Duration::from_millis(150);

pub(crate) fn run(common: &GlobalOptions, roots_below: Option<&Path>) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided).inspect_err(mcp_startup_error::answer)?;
    let runtime = super::serving_runtime()?;
    let begun = mcp_roots::open(common, settings, roots_below, &runtime)?;
    let mcp_roots::BegunSession { common, mut settings, opening } = begun;
    let common = &common;
    if common.run.is_none() {
        settings.caller.session = session()?;
    }
    let credential = settings.credential(&common.overrides())?;
    let interrupt = Interrupt::install();
    let seen = fingerprints(&settings);
    let built = gate_builder::build_gate(
        &settings,
        GateBuildOptions {
            blocking: BlockingStrategy::InlineFirst,
            servers: Some((ServerSelection::All, runtime.handle().clone())),
            ..GateBuildOptions::without_servers(super::no_approver(), token_verification(common))
        },
    )?;
    settings.warn_of_unknown_tools(&built.tools);
    warn_of_homes(&built.workspace);
    let gate = Arc::clone(built.gate.gate());
    let reloader = Reloader::new(&common.overrides(), &settings, &built, seen);
    let servers = built.servers.clone();
    let service = service(&settings, built, reloader.pending());
    let (input, output) = standard_streams()?;
    let served = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        let keeping_up = tokio::spawn(watch_files(reloader));
        let settled = tokio::spawn(async {
            tokio::time::sleep(MEMORY_TRIM_DELAY).await;
            toolgate_sandbox::madvise_dontneed_text();
        });
        let ending = interrupt.token().child_token();
        let useless = unusable_token(common, &settings, &gate, credential.clone());
        let serving = async {
            let served = resume_stdio(
                Arc::clone(&service),
                credential.clone(),
                (input, output),
                opening,
                ending.clone(),
            )
            .await;
            served.map_err(|error| CliError::error(error.to_string()))
        };
        let served = serve_unless(useless, serving, &ending).await;
        keeping_up.abort();
        settled.abort();
        super::close_servers(servers.as_deref()).await;
        served
    });
    served.map(|()| SUCCESS)
}

/// The descriptors of standard input and output.
pub(super) fn standard_streams() -> Result<(OwnedFd, OwnedFd), CliError> {
    let own = |descriptor: io::Result<_>| {
        descriptor.map_err(|error| CliError::error(format!("the standard streams cannot be used: {error}")))
    };
    Ok((own(io::stdin().as_fd().try_clone_to_owned())?, own(io::stdout().as_fd().try_clone_to_owned())?))
}

/// Serves until `useless` completes. Even then the server shuts down gracefully: requests that were read are answered and recorded.
async fn serve_unless(
    useless: impl Future<Output = CliError>,
    serving: impl Future<Output = Result<(), CliError>>,
    ending: &CancellationToken,
) -> Result<(), CliError> {
    tokio::pin!(serving);
    tokio::select! {
        biased;
        failed = useless => {
            ending.cancel();
            // The reason for the end is more useful than an error during the shutdown.
            let _ = serving.await;
            Err(failed)
        }
        served = &mut serving => served,
    }
}

/// Completes if no call can ever succeed with the token: clients show that their server ended and its last message. Otherwise every call would be
/// refused without a visible reason. A token that may become valid later only causes a warning.
async fn unusable_token(
    common: &GlobalOptions,
    settings: &Settings,
    gate: &Gate,
    credential: Credential,
) -> CliError {
    let refused = match &common.token {
        Some(token) => gate.identify(credential).await.err().map(|failure| (token, failure)),
        None => None,
    };
    if let Some((token, failure)) = refused {
        let reason = failure.operator_note.unwrap_or(failure.message);
        if is_permanently_invalid(settings, &token.0).await {
            let failed = CliError::error(format!("the token was rejected: {reason}"));
            return CliError {
                code: DENIED,
                ..failed.help("give a good one with --token or the variable TOOLGATE_TOKEN; `toolgate token mint` makes one")
            };
        }
        warn(&format!("calls are refused for now: {reason}"));
    }
    std::future::pending().await
}

/// Whether neither time nor new keys of the issuer can make a token valid. The accepted issuers may change with the configuration, which is read
/// again here.
async fn is_permanently_invalid(settings: &Settings, token: &str) -> bool {
    let Ok(Some(verifier)) = callers::verifier(settings) else { return true };
    verifier.verify(token).await.is_err_and(|error| {
        !matches!(
            error,
            TokenError::KeysUnavailable { .. }
                | TokenError::UnknownKey
                | TokenError::NotYetValid
                | TokenError::IssuedInFuture
                | TokenError::ClockUnusable
        )
    })
}

/// The service behind the transports of this process.
pub(crate) fn service(
    settings: &Settings,
    built: AssembledGate,
    pending: watch::Receiver<Vec<String>>,
) -> Arc<Service> {
    let outputs = gate_builder::outputs_directory(settings);
    let retention = settings.loaded.config.retention;
    let outputs =
        OutputStore::new(move || open_private_directory(&outputs)).with_bounds(output_bounds(&retention));
    let (state_dir, journal) = (settings.state_dir.clone(), Arc::clone(built.gate.gate().journal()));
    let measure = move || state_usage(&state_dir, &retention, Some(&journal));
    Service::new(ServiceOptions {
        aliases: aliases(settings),
        pending: Some(pending),
        upstream: upstream(settings, built.servers.as_ref()),
        state: Some(Arc::new(measure)),
        ..ServiceOptions::new(Arc::new(built.gate), outputs)
    })
}

/// What the declared servers offer besides tools.
struct Upstream(Arc<Servers>);

impl UpstreamResources for Upstream {
    fn list(&self) -> Vec<UpstreamResource> {
        let listed = self.0.resources().into_iter();
        let resource = |one: BridgedResource| UpstreamResource {
            tool: one.tool,
            uri: one.uri,
            is_template: one.is_template,
            name: one.name,
            title: one.title,
            description: one.description,
            mime_type: one.mime_type,
            size: one.size,
            icons: one.icons,
        };
        listed.map(resource).collect()
    }

    fn reader(&self, uri: &str) -> Option<String> {
        self.0.resource_reader(uri)
    }

    fn updates(&self) -> broadcast::Receiver<Arc<str>> {
        self.0.resource_updates()
    }

    fn hold(&self, uri: &str) -> Option<HeldResource> {
        Some(Box::new(self.0.hold_subscription(uri)?))
    }
}

fn upstream(settings: &Settings, servers: Option<&Arc<Servers>>) -> Option<Arc<dyn UpstreamResources>> {
    let servers = servers.filter(|_| !settings.loaded.config.mcp_servers.is_empty())?;
    Some(Arc::new(Upstream(Arc::clone(servers))))
}

/// The aliases of the mounts, in order.
fn aliases(settings: &Settings) -> Vec<String> {
    let more = settings.mounts.iter().map(|mount| mount.alias.clone());
    std::iter::once("@project".to_owned()).chain(more).collect()
}

/// Every process is a session of its own.
fn session() -> Result<SessionId, CliError> {
    let id = CallId::fresh().to_string();
    let last = id.rsplit('-').next().unwrap_or_default();
    format!("mcp-{last}").parse().map_err(|error| CliError::error(format!("{error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A request in flight when the token turns out to be invalid is still answered.
    #[tokio::test]
    async fn whoever_is_served_no_more_still_gets_what_was_asked_for() {
        let (ending, is_settled) = (CancellationToken::new(), AtomicBool::new(false));
        let serving = async {
            ending.cancelled().await;
            tokio::task::yield_now().await;
            is_settled.store(true, Ordering::SeqCst);
            Err(CliError::error("another reason"))
        };
        let useless = async {
            tokio::task::yield_now().await;
            CliError::error("useless")
        };
        let served = serve_unless(useless, serving, &ending).await;
        assert_eq!(served.unwrap_err().message, "useless");
        assert!(is_settled.load(Ordering::SeqCst));
    }
}
