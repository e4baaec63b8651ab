//! `toolgate serve`: the gate over HTTP.

mod application;

use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use toolgate_assembly::ambient::exists;
use toolgate_assembly::callers::local_secret;
use toolgate_assembly::gate_builder::{self, GateBuildOptions};
use toolgate_assembly::load::TokenVerification;
use toolgate_assembly::personal_paths::warn_of_homes;
use toolgate_assembly::reload::{Reloader, fingerprints, watch_files};
use toolgate_assembly::secrets;
use toolgate_assembly::servers::{ServerSelection, Servers};
use toolgate_assembly::settings::Settings;
use toolgate_gate::BlockingStrategy;
use toolgate_manifest::{Config, Located, OnAuditFailure, ServeAuth};
use toolgate_serve::{
    Application, Auth, AuthRequirement, HttpError, HttpLimits, HttpOptions, ReadyCheck, RejectedHosts,
    serve_http,
};
use toolgate_types::{Sha256, Trust};

use self::application::{ApplicationParts, application};
use super::{SHUTDOWN_TIMEOUT, print};
use crate::arguments::{GlobalOptions, ServeArguments};
use crate::exit::{CliError, SUCCESS};
use crate::interrupt::Interrupt;
use crate::startup::resolve_settings;
use crate::terminal::warn;

/// The default address.
pub(super) const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8420);
/// How long cancelled turns may take to end: as long as a process may take after its termination signal.
const TURN_TIMEOUT: Duration = Duration::from_secs(7);
/// Descriptors that connections leave for files, processes, the record and the database.
const RESERVED_DESCRIPTORS: u64 = 256;
/// The most descriptors that are asked for. Linux keeps a table of this size for the process.
const MAX_DESCRIPTORS: u64 = 1 << 16;
/// The most async worker threads. Blocking work uses its own pool.
const MAX_WORKERS: usize = 4;

pub(crate) fn run(common: &GlobalOptions, arguments: &ServeArguments) -> Result<u8, CliError> {
    let mut settings = resolve_settings(common, Trust::Guided)?;
    prepare(common, &mut settings)?;
    let how = auth_mode(arguments, &settings)?;
    let interrupt = Interrupt::install();
    let tokens = if how == ServeAuth::Jwt { TokenVerification::Enabled } else { TokenVerification::Disabled };
    let (demand, token) = demand(how, &settings)?;
    let mut options = options(arguments, &settings, demand);
    let listener = listen(arguments, &settings.loaded.config, how)?;
    let address = listener.local_addr().map_err(|error| CliError::error(error.to_string()))?;
    options.check(address).map_err(http_failure)?;
    let runtime = workers()?;
    let seen = fingerprints(&settings);
    let built = gate_builder::build_gate(
        &settings,
        GateBuildOptions {
            blocking: BlockingStrategy::ThreadPool,
            servers: Some((ServerSelection::All, runtime.handle().clone())),
            ..GateBuildOptions::without_servers(super::no_approver(), tokens)
        },
    )?;
    settings.warn_of_unknown_tools(&built.tools);
    warn_of_homes(&built.workspace);
    let reloader = Reloader::new(&common.overrides(), &settings, &built, seen);
    let (servers, workspace) = (built.servers.clone(), Arc::clone(&built.workspace));
    options.ready = ready(servers.clone());
    let agents = reloader.agents();
    let service = super::mcp::service(&settings, built, reloader.pending());
    let parts = ApplicationParts {
        service: &service,
        settings: Arc::new(settings),
        workspace,
        servers: servers.clone(),
        agent: &arguments.agent,
        agents,
        auth: how.as_str(),
    };
    let (conversations, application) = application(parts, &runtime)?;
    options.application = application;
    let served = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        let keeping_up = tokio::spawn(watch_files(reloader));
        announce(common, address, how, &options, token.as_deref())?;
        let served = serve_http(options, Arc::clone(&service), listener, interrupt.token()).await;
        keeping_up.abort();
        // Turns that still run are cancelled, and what they did is stored.
        let _ = tokio::time::timeout(TURN_TIMEOUT, conversations.close()).await;
        super::close_servers(servers.as_deref()).await;
        served.map_err(http_failure)
    });
    // Calls that still run are dropped here, and recorded as abandoned.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    drop(service);
    served.map(|()| SUCCESS)
}

/// Settings for a gate with many callers.
fn prepare(common: &GlobalOptions, settings: &mut Settings) -> Result<(), CliError> {
    if common.token.is_some() {
        return Err(CliError::usage("whoever calls over HTTP brings its own token")
            .help("leave out --token and the variable TOOLGATE_TOKEN"));
    }
    if settings.loaded.config.audit.on_failure.is_none() {
        settings.on_audit_failure = OnAuditFailure::Deny;
    }
    if common.run.is_none() {
        settings.caller.session = "http".parse().map_err(|error| CliError::error(format!("{error}")))?;
    }
    Ok(())
}

/// The authentication method: as requested, else `jwt` if an issuer is configured, else the local user's token.
fn auth_mode(arguments: &ServeArguments, settings: &Settings) -> Result<ServeAuth, CliError> {
    let config = &settings.loaded.config;
    let asked = arguments.auth.map(ServeAuth::from).or(config.serve.auth.as_ref().map(|auth| auth.value));
    let usual = if config.callers.is_some() { ServeAuth::Jwt } else { ServeAuth::Token };
    let how = asked.unwrap_or(usual);
    if how == ServeAuth::Jwt && config.callers.is_none() && !exists(&local_secret(settings)) {
        return Err(CliError::usage("nobody is known whose tokens could be believed")
            .help("declare an issuer under `callers:`, or make a token with `toolgate token mint` first"));
    }
    Ok(how)
}

/// The authentication that callers need; for the local user's token, also its file.
fn demand(how: ServeAuth, settings: &Settings) -> Result<(AuthRequirement, Option<PathBuf>), CliError> {
    match how {
        ServeAuth::None => Ok((AuthRequirement::None, None)),
        ServeAuth::Jwt => {
            let issuer = settings.loaded.config.callers.as_ref().map(|callers| callers.issuer.value.clone());
            // Clients discover the issuer by its URL, so only a URL is of use to them.
            let issuer =
                issuer.filter(|issuer| issuer.starts_with("https://") || issuer.starts_with("http://"));
            Ok((AuthRequirement::Issued { issuer }, None))
        }
        ServeAuth::Token => {
            let file = settings.state_dir.join("keys/serve.token");
            let text = secrets::read_or_create_hex(&file)?;
            Ok((AuthRequirement::Token(Sha256::of(text.as_bytes())), Some(file)))
        }
    }
}

/// Command line and configuration joined; the command line takes precedence, and host names are combined.
fn options(arguments: &ServeArguments, settings: &Settings, demand: AuthRequirement) -> HttpOptions {
    let config = &settings.loaded.config.serve;
    let usual = HttpLimits::default();
    let joined = |given: &[String], declared: &[Located<String>]| {
        given.iter().cloned().chain(declared.iter().map(|one| one.value.clone())).collect()
    };
    let count = |count: Option<u64>| count.and_then(|count| usize::try_from(count).ok());
    let max_body_bytes = count(config.max_body_bytes).unwrap_or(usual.max_body_bytes);
    let limits = HttpLimits {
        max_body_bytes,
        max_all_bodies_bytes: usual.max_all_bodies_bytes.max(max_body_bytes.saturating_mul(2)),
        max_connections: count(config.max_connections).unwrap_or(usual.max_connections).min(max_sockets()),
        requests_per_second: config.requests_per_second.and_then(|most| {
            // A number that does not fit is no limit.
            NonZeroU32::new(u32::try_from(most).ok()?)
        }),
        grace: arguments.grace.or(config.grace).unwrap_or(usual.grace),
        ..usual
    };
    HttpOptions {
        auth: Auth { requirement: demand, person: settings.caller.clone() },
        allowed_hosts: joined(&arguments.allow_host, &config.allowed_hosts),
        allowed_origins: joined(&arguments.allow_origin, &config.allowed_origins),
        public_url: arguments.public_url.clone().or(config.public_url.as_ref().map(|url| url.value.clone())),
        limits,
        ready: ReadyCheck(Arc::new(|| true)),
        rejected_hosts: refused_hosts(),
        application: Application::default(),
    }
}

/// How many connections there may be before a tool could open no file any more (`EMFILE`). Raises the soft `RLIMIT_NOFILE`, often 1024, as far as
/// allowed; commands in the sandbox have a limit of their own.
fn max_sockets() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
    let before = limit.current.unwrap_or(MAX_DESCRIPTORS);
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    let descriptors = match wanted > before && setrlimit(Resource::Nofile, raised).is_ok() {
        true => wanted,
        false => before,
    };
    usize::try_from(descriptors.saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(usize::MAX).max(1)
}

fn listen(arguments: &ServeArguments, config: &Config, how: ServeAuth) -> Result<TcpListener, CliError> {
    let declared = config.serve.listen.as_ref().map(|listen| listen.value);
    let address = arguments.listen.or(declared).unwrap_or(DEFAULT_ADDRESS);
    if how == ServeAuth::None && !address.ip().to_canonical().is_loopback() {
        return Err(http_failure(HttpError::OpenToOthers(address)));
    }
    TcpListener::bind(address).map_err(|error| {
        CliError::error(format!("`{address}` cannot be listened on: {error}"))
            .help("choose another address with --listen; port 0 takes any that is free")
    })
}

fn http_failure(error: HttpError) -> CliError {
    let help = match &error {
        HttpError::OpenToOthers(_) => "listen on 127.0.0.1, or use --auth token or --auth jwt",
        other => other.help(),
    };
    CliError::usage(error.to_string()).help(help)
}

/// Ready once every upstream server has listed its tools or has failed its start: a broken server does not block readiness.
fn ready(servers: Option<Arc<Servers>>) -> ReadyCheck {
    let servers = move || servers.iter().flat_map(|servers| servers.health()).all(|server| server.is_settled);
    ReadyCheck(Arc::new(servers))
}

/// Prints the addresses, how to authenticate, and the restrictions. On a terminal the address of the page has the token in its fragment, which a browser
/// does not send. Elsewhere, where a journal may keep it for other readers, a token is shown only by the path of its file.
fn announce(
    common: &GlobalOptions,
    address: SocketAddr,
    how: ServeAuth,
    options: &HttpOptions,
    token: Option<&Path>,
) -> Result<(), CliError> {
    let own = format!("http://{}", reachable(address));
    let base = options.public_url.as_ref().map_or(own, |url| url.trim_end_matches('/').to_owned());
    let mcp = format!("{base}/mcp");
    if common.json {
        let told = json!({
            "listen": address, "mcp": mcp, "page": format!("{base}/"), "api": format!("{base}/api/v1"),
            "auth": how.as_str(), "tokenFile": token,
        });
        print(&format!("{told}\n"))?;
    }
    warn(&format!("MCP is served at {mcp}"));
    if let Some(file) = token {
        warn(&format!(
            "clients send the token in `{}` as `Authorization: Bearer TOKEN`, and the page asks for it",
            file.display()
        ));
    }
    caveats(address, how, options).iter().for_each(|caveat| warn(caveat));
    let own_token = token.filter(|_| io::stderr().is_terminal()).and_then(|file| secrets::read(file).ok());
    let fragment =
        own_token.map(|token| format!("#token={}", String::from_utf8_lossy(token.expose()).trim()));
    warn(&format!("the page is at {base}/{}", fragment.unwrap_or_default()));
    Ok(())
}

/// An address that clients can use: the unspecified address is replaced by the loopback one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, address.port())
}

/// Warnings about callers from other machines.
fn caveats(address: SocketAddr, how: ServeAuth, options: &HttpOptions) -> Vec<&'static str> {
    let HttpOptions { allowed_hosts, public_url, .. } = options;
    let is_open = !address.ip().to_canonical().is_loopback();
    let is_plain = !public_url.as_ref().is_some_and(|url| url.starts_with("https://"));
    let is_nameless =
        address.ip().to_canonical().is_unspecified() && allowed_hosts.is_empty() && public_url.is_none();
    let nameless = "callers from other machines are refused: say by which name they reach this one, with --allow-host NAME";
    let plain = "this is plain HTTP, and so are the tokens that come over it; put a proxy with TLS before it, and name it with --public-url";
    let caveats = [(is_nameless, nameless), (is_open && is_plain && how != ServeAuth::None, plain)];
    caveats.into_iter().filter_map(|(holds, caveat)| holds.then_some(caveat)).collect()
}

/// Reports rejected `Host` headers to the operator.
fn refused_hosts() -> RejectedHosts {
    RejectedHosts::report_to(|host| {
        warn(&format!(
            "a request for the host `{host}` was refused; if that is a name of this gate, allow it with --allow-host {host}"
        ));
    })
}

fn workers() -> Result<tokio::runtime::Runtime, CliError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, MAX_WORKERS))
        .enable_all()
        .build()
        .map_err(|error| CliError::error(format!("no runtime could be made: {error}")))
}
