//! `toolgate check`: every problem in configuration, manifests and policies, with file, line and remedy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use toolgate_assembly::ambient::{
    CONFIG_NAME, HostEnvironment, exists, is_symlink, open_directory, read_file, read_regular_file, real_path,
};
use toolgate_assembly::callers;
use toolgate_assembly::config_files::{POLICY_EXTENSIONS, SourceFile, ends_with, parse_config};
use toolgate_assembly::error::BuildError;
use toolgate_assembly::load::{self, LoadError};
use toolgate_assembly::personal_paths::refuse_root;
use toolgate_assembly::program_files::{Interpreter, interpreter};
use toolgate_assembly::protected_paths::GateOwnedPaths;
use toolgate_assembly::sandbox_settings::{self, sandbox_options};
use toolgate_assembly::servers;
use toolgate_assembly::settings::{LoadedConfig, Settings, load_from, merge_settings, reserved_alias};
use toolgate_assembly::trust::{AgreementStore, ConfigOrigin, TrustPrompt, TrustStatus};
use toolgate_assembly::web_search;
use toolgate_manifest::{
    Access, Config, ConfigProblem, ConfigWarning, Located, MountConfig, ServerConfig, ServerProcessConfig,
    ServerTransport, ToolManifest,
};
use toolgate_sandbox::Sandbox;
use toolgate_tools::LoadedTools;
use toolgate_types::Trust;
use toolgate_workspace::Workspace;

use super::{print, print_json};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS, USAGE};
use crate::terminal::warn;

/// The findings so far.
#[derive(Default)]
struct CheckReport {
    files: Vec<String>,
    problems: Vec<ConfigProblem>,
    warnings: Vec<ConfigWarning>,
}

pub(crate) fn run(common: &GlobalOptions, files: &[PathBuf], strict: bool) -> Result<u8, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let origin = ConfigOrigin::choose(&common.overrides(), &surroundings)?;
    let files = match (files.is_empty(), origin.file()) {
        (false, _) => files.to_vec(),
        (true, Some(file)) => vec![file.clone()],
        (true, None) => {
            return Err(CliError::usage("there is no toolgate.yaml here or in a folder above")
                .help("name the file to check"));
        }
    };
    let is_found =
        |file: &PathBuf| surroundings.absolute(file).is_ok_and(|file| origin.file() == Some(&file));
    let is_about_found = files.iter().any(is_found);
    let mut report = CheckReport::default();
    let (mut manifests, mut policies) = (Vec::new(), Vec::new());
    for file in &files {
        let content = read(file, &surroundings)?;
        match detect_kind(&content) {
            CheckedFileKind::Policy => policies.push(content),
            CheckedFileKind::Manifest => manifests.push(content),
            CheckedFileKind::Config => report.config(common, &content)?,
        }
    }
    if !(manifests.is_empty() && policies.is_empty()) {
        // The local configuration gives these files their context, agreed to or not: it is only parsed.
        let loaded = match origin.file() {
            Some(file) => parse_only(&read(file, &surroundings)?, &surroundings)?,
            None => load_from(ConfigOrigin::Defaults, &surroundings, TrustPrompt::Never)?,
        };
        let settings = merge_settings(&common.overrides(), Trust::Guided, loaded, surroundings.clone())?;
        report.check_standalone(&settings, &manifests, &policies)?;
    }
    if let (ConfigOrigin::Found(file), true) = (&origin, is_about_found) {
        warn_unless_agreed(file, &surroundings);
    }
    report.print(common.json, strict)
}

/// A configuration that is only parsed: nothing in it takes effect, so it needs no agreement.
fn parse_only(content: &SourceFile, surroundings: &HostEnvironment) -> Result<LoadedConfig, CliError> {
    Ok(LoadedConfig::read(ConfigOrigin::Named(content.path.clone()), &content.bytes, surroundings)?)
}

/// Warns that a correct file is not yet in effect without an agreement.
fn warn_unless_agreed(file: &Path, surroundings: &HostEnvironment) {
    let standing = AgreementStore::of(surroundings)
        .and_then(|agreements| TrustStatus::of(file, &agreements, surroundings));
    match standing {
        Ok(TrustStatus::Agreed(_)) => {}
        Ok(TrustStatus::New(_) | TrustStatus::Changed(..)) => {
            let file = surroundings.display_path(file);
            warn(&format!("{file} does not count before you agree to it as it is: run `toolgate trust`"));
        }
        Err(failed) => warn(&failed.message),
    }
}

enum CheckedFileKind {
    Config,
    Manifest,
    Policy,
}

/// A policy by its extension; a manifest by the key `tool`, which every manifest has and no configuration.
fn detect_kind(content: &SourceFile) -> CheckedFileKind {
    if ends_with(&content.path, POLICY_EXTENSIONS) {
        return CheckedFileKind::Policy;
    }
    let text = String::from_utf8_lossy(&content.bytes);
    let names_a_tool =
        |line: &str| ["tool:", "\"tool\":", "'tool':", "{tool:"].iter().any(|key| line.starts_with(key));
    if text.lines().any(names_a_tool) { CheckedFileKind::Manifest } else { CheckedFileKind::Config }
}

fn read(file: &Path, surroundings: &HostEnvironment) -> Result<SourceFile, CliError> {
    let path = surroundings.absolute(file)?;
    // A named file may be a pipe; a FIFO that was found would block for ever.
    let is_found = path.file_name().is_some_and(|name| name == CONFIG_NAME);
    let bytes = if is_found { read_regular_file(&path) } else { read_file(&path) };
    let bytes = bytes.map_err(|error| {
        CliError::usage(format!("`{}` cannot be read: {error}", file.display())).help("name an existing file")
    })?;
    Ok(SourceFile { name: surroundings.display_path(&path), path, bytes })
}

impl CheckReport {
    /// Checks a configuration with everything that it names.
    fn config(&mut self, common: &GlobalOptions, content: &SourceFile) -> Result<(), CliError> {
        self.files.push(content.name.clone());
        let config = match parse_config(&content.name, &content.bytes) {
            Ok(config) => config,
            Err(problems) => {
                self.problems.extend(problems);
                return Ok(());
            }
        };
        let taken: Vec<ConfigProblem> =
            config.mounts.iter().filter_map(|mount| reserved_alias_problem(&config, mount)).collect();
        if !taken.is_empty() {
            self.problems.extend(taken);
            return Ok(());
        }
        let surroundings = HostEnvironment::detect()?;
        let loaded = parse_only(content, &surroundings)?;
        let settings = merge_settings(&common.overrides(), Trust::Guided, loaded, surroundings)?;
        let config = &settings.loaded.config;
        self.problems.extend(sandbox_settings::problems(config));
        self.servers(&settings)?;
        self.collect(load::refuse_servers_where_full(&settings))?;
        self.problems.extend(unfit_mounts(&settings)?);
        self.warnings.extend(missing_directories(&settings)?);
        self.warnings.extend(callers::warnings(&settings)?);
        self.collect(web_search::tool(&settings))?;
        self.warnings.extend(web_search::warnings(&settings));
        if config.callers.is_some() {
            self.collect(callers::verifier(&settings))?;
        }
        let manifests = self.collect(load::manifest_files(&settings))?;
        let policies = self.collect(load::policy_files(&settings))?.unwrap_or_default();
        // Policies and permissions of agents cannot be checked against an incomplete list of tools.
        let Some(manifests) = manifests else { return Ok(()) };
        self.files.extend(file_names(&manifests).filter(|_| !config.tools.is_empty()));
        self.files.extend(file_names(&policies));
        let Some(declared) = self.manifests(&settings, &manifests)? else { return Ok(()) };
        let mut known: Vec<&str> = settings.profile.tool_names();
        known.extend(web_search::names(&settings));
        known.extend(declared.specs().map(|spec| spec.name.as_str()));
        self.problems.extend(config.check_tools(&known));
        self.policies(&settings, &declared, &policies)
    }

    /// Checks the upstream servers without starting them.
    fn servers(&mut self, settings: &Settings) -> Result<(), CliError> {
        // Only whether a variable is set matters here; its value may be a secret and is discarded.
        let is_set = |name: &str| {
            let value = settings.environment.var(name);
            value.map(|value| if value.is_empty() { String::new() } else { "set".to_owned() })
        };
        let Some((_, unusable)) = self.collect(servers::declared_servers(settings, &is_set))? else {
            return Ok(());
        };
        self.warnings.extend(unusable.into_iter().map(|server| ConfigWarning::from(server.problem)));
        self.warnings.extend(settings.loaded.config.warnings());
        self.warnings.extend(missing_servers(settings)?);
        Ok(())
    }

    /// Checks manifests and policies on their own.
    fn check_standalone(
        &mut self,
        settings: &Settings,
        manifests: &[SourceFile],
        policies: &[SourceFile],
    ) -> Result<(), CliError> {
        self.files.extend(file_names(manifests));
        self.files.extend(file_names(policies));
        self.manifests(settings, manifests)?;
        if policies.is_empty() {
            return Ok(());
        }
        let declared =
            load::manifest_files(settings).and_then(|files| load::declared_tools_in(settings, &files));
        let declared = declared.map_err(LoadError::from)?;
        self.policies(settings, &declared, policies)
    }

    fn manifests(
        &mut self,
        settings: &Settings,
        files: &[SourceFile],
    ) -> Result<Option<LoadedTools>, CliError> {
        let declared = self.collect(load::declared_tools_in(settings, files))?;
        if let Some(declared) = &declared {
            self.warnings.extend(declared.warnings.iter().cloned());
            self.warnings.extend(missing_programs(settings, files)?);
        }
        Ok(declared)
    }

    fn policies(
        &mut self,
        settings: &Settings,
        declared: &LoadedTools,
        files: &[SourceFile],
    ) -> Result<(), CliError> {
        if files.is_empty() {
            return Ok(());
        }
        // Tools are only inspected, so they need no workspace.
        let nowhere = Workspace::new(Vec::new()).map_err(|error| CliError::usage(error.to_string()))?;
        let nowhere = Arc::new(nowhere);
        let Some(runner) =
            self.collect(sandbox_settings::runner(settings, &GateOwnedPaths::of(settings), &nowhere))?
        else {
            return Ok(());
        };
        let registry = self.collect(load::registry(settings, &nowhere, declared, runner))?;
        if let Some(registry) = registry {
            self.collect(load::policies(settings, &registry, files))?;
        }
        Ok(())
    }

    /// The loaded value; problems are collected.
    fn collect<Loaded>(
        &mut self,
        loaded: Result<Loaded, impl Into<LoadError>>,
    ) -> Result<Option<Loaded>, CliError> {
        match loaded.map_err(Into::into) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(LoadError::Failed(failed)) => Err(failed.into()),
            Err(LoadError::Problems(problems)) => {
                // A problem that two checks found is reported once.
                let fresh = problems.into_iter().filter(|problem| !self.problems.contains(problem));
                let fresh: Vec<ConfigProblem> = fresh.collect();
                self.problems.extend(fresh);
                Ok(None)
            }
        }
    }

    fn print(self, as_json: bool, strict: bool) -> Result<u8, CliError> {
        let Self { files, problems, warnings } = self;
        if as_json {
            print_json(&json!({"files": files, "problems": problems, "warnings": warnings}))?;
        } else {
            let told =
                problems.iter().map(ConfigProblem::render).chain(warnings.iter().map(ConfigWarning::render));
            let mut told: Vec<String> = told.collect();
            if problems.is_empty() {
                let besides = match warnings.len() {
                    0 => String::new(),
                    1 => ", 1 warning".to_owned(),
                    more => format!(", {more} warnings"),
                };
                told.push(format!("ok: {} checked, no problems{besides}\n", files.join(", ")));
            }
            print(&told.join("\n"))?;
        }
        let bad = !problems.is_empty() || (strict && !warnings.is_empty());
        Ok(if bad { USAGE } else { SUCCESS })
    }
}

fn file_names(files: &[SourceFile]) -> impl Iterator<Item = String> {
    files.iter().map(|file| file.name.clone())
}

fn reserved_alias_problem(config: &Config, mount: &MountConfig) -> Option<ConfigProblem> {
    let help = reserved_alias(&mount.alias.value)?;
    let message = format!("`{}` cannot be mounted by hand", mount.alias.value);
    Some(config.problem_at(&mount.alias, message, Some(help.to_owned())))
}

/// Mounts with which no gate starts: `/`, the gate's own directories, and files.
fn unfit_mounts(settings: &Settings) -> Result<Vec<ConfigProblem>, CliError> {
    let (config, own) = (&settings.loaded.config, GateOwnedPaths::of(settings));
    let mut problems = Vec::new();
    for mount in &config.mounts {
        let (alias, path) = (&mount.alias.value, settings.resolve(&mount.path.value)?);
        let refused = own.refuse_mount(alias, &path).and_then(|()| match open_directory(&path) {
            Ok(directory) => refuse_root(alias, &path, &directory),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let message =
                    format!("`{}` is no directory and cannot be mounted as `{alias}`", path.display());
                Err(BuildError::usage(message).help("name a directory"))
            }
            // A missing directory is created or warned of elsewhere; one that this user cannot open may be accessible to another.
            Err(_) => Ok(()),
        });
        if let Err(BuildError { message, help, .. }) = refused {
            problems.push(config.problem_at(&mount.path, message, help));
        }
    }
    Ok(problems)
}

/// Named directories that do not exist.
fn missing_directories(settings: &Settings) -> Result<Vec<ConfigWarning>, CliError> {
    let config = &settings.loaded.config;
    let sandbox = &config.sandbox;
    let folders = sandbox.read.iter().chain(sandbox.path.iter().flatten());
    // A writable mount is created when the gate starts.
    let mounts = config.mounts.iter().filter(|mount| mount.access == Access::ReadOnly);
    let mounts = mounts.map(|mount| &mount.path);
    let servers = processes(config).flat_map(|process| &process.read);
    let mut warnings = Vec::new();
    for at in mounts.chain(folders).chain(servers) {
        if !exists(&settings.resolve(&at.value)?) {
            let message = format!("`{}` does not exist", at.value.as_str());
            let help = Some("make it, or correct the path".to_owned());
            warnings.push(config.problem_at(at, message, help).into());
        }
    }
    Ok(warnings)
}

/// The processes of enabled servers.
fn processes(config: &Config) -> impl Iterator<Item = &ServerProcessConfig> {
    let started = config.mcp_servers.iter().filter(|server| !server.disabled);
    started.filter_map(|server| match &server.transport {
        ServerTransport::Process(process) => Some(&**process),
        ServerTransport::Remote(_) => None,
    })
}

/// Servers whose program does not exist in the sandbox.
fn missing_servers(settings: &Settings) -> Result<Vec<ConfigWarning>, CliError> {
    let config = &settings.loaded.config;
    let processes: Vec<_> = processes(config).filter(|process| process.package.is_none()).collect();
    let others = not_startable(settings);
    if processes.is_empty() {
        return Ok(others);
    }
    let Ok(sandbox) = Sandbox::prepare(sandbox_options(settings, &GateOwnedPaths::of(settings))?) else {
        return Ok(others);
    };
    let problem = |process: &&ServerProcessConfig| {
        let (message, help) = program_problem(settings, &sandbox, process)?;
        Some(config.problem_at(&process.program, message, Some(help.to_owned())).into())
    };
    Ok(others.into_iter().chain(processes.iter().filter_map(problem)).collect())
}

/// Why the program of a server cannot be started in the sandbox, and what to do about it.
fn program_problem(
    settings: &Settings,
    sandbox: &Sandbox,
    process: &ServerProcessConfig,
) -> Option<(String, &'static str)> {
    let program = Path::new(&process.program.value);
    // A mount has another path in the sandbox, or its own one.
    if program.starts_with("/mnt") || is_in_own_mount(settings, process, program) {
        return None;
    }
    let read: Vec<PathBuf> =
        process.read.iter().filter_map(|path| settings.resolve(&path.value).ok()).collect();
    if !sandbox.shows_program(program.as_os_str(), &read) {
        let is_link = is_symlink(program) && real_path(program) != program;
        let message = match is_link && exists(program) {
            true => {
                let target = real_path(program);
                format!(
                    "the sandbox lacks `{}`, or `{}`, where it leads",
                    program.display(),
                    target.display()
                )
            }
            false => format!("there is no program `{}` in the sandbox", program.display()),
        };
        return Some((message, "install it, or name it by its absolute path and its folder under `read`"));
    }
    let needed = match program.is_absolute().then(|| interpreter(program)).flatten()? {
        Interpreter::At(path) => path.into_os_string(),
        Interpreter::Named(name) => name.into(),
    };
    (!sandbox.shows_program(&needed, &read)).then(|| {
        let message =
            format!("the sandbox lacks `{}`, which runs `{}`", needed.to_string_lossy(), program.display());
        (message, "install it in the system, or name what it is installed in under `read`")
    })
}

/// Whether a program lies in a mount that its server sees at its path on the host.
fn is_in_own_mount(settings: &Settings, process: &ServerProcessConfig, program: &Path) -> bool {
    let is_named = |alias: &str| process.mounts.iter().any(|mount| mount.alias.value == alias);
    let project = ("@project", &settings.workspace);
    let mounts = settings.mounts.iter().map(|mount| (mount.alias.as_str(), &mount.path));
    let mut seen = std::iter::once(project).chain(mounts).filter(|(alias, _)| is_named(alias));
    process.host_paths && exists(program) && seen.any(|(_, root)| program.starts_with(real_path(root)))
}

/// What a start of each enabled server would say.
fn not_startable(settings: &Settings) -> Vec<ConfigWarning> {
    let config = &settings.loaded.config;
    let warning = |server: &ServerConfig| {
        let (message, help) = servers::start_problem(settings, server)?;
        Some(config.problem_at(&server.name, message, Some(help)).into())
    };
    config.mcp_servers.iter().filter(|server| !server.disabled).filter_map(warning).collect()
}

/// Programs of manifests that do not exist in the sandbox.
fn missing_programs(settings: &Settings, files: &[SourceFile]) -> Result<Vec<ConfigWarning>, CliError> {
    let Ok(sandbox) = Sandbox::prepare(sandbox_options(settings, &GateOwnedPaths::of(settings))?) else {
        return Ok(Vec::new());
    };
    let is_there = |program: &Located<String>| {
        sandbox.find_program(program.value.as_ref()).is_some_and(|place| exists(&place))
    };
    let manifests =
        files.iter().filter_map(|file| ToolManifest::parse_all_bytes(&file.name, &file.bytes).ok());
    let missing =
        manifests.flat_map(|(manifests, _)| manifests).filter(|tool| !is_there(&tool.command.program));
    let warning = |tool: ToolManifest| {
        let program = &tool.command.program;
        let message = format!("there is no program `{}` in the sandbox", program.value);
        let help = "install it, or add its folder to `sandbox.read` and `sandbox.path`".to_owned();
        tool.warning_at(program, message, Some(help))
    };
    Ok(missing.map(warning).collect())
}
