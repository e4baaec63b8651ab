//! `toolgate check`: every problem of configuration, manifests and policies, with file, line and remedy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use toolgate_manifest::{
    Access, Config, ConfigProblem, ConfigWarning, Located, MountConfig, ServerProcessConfig, ServerTransport,
    ToolManifest,
};
use toolgate_sandbox::Sandbox;
use toolgate_tools::LoadedTools;
use toolgate_types::Trust;
use toolgate_workspace::Workspace;

use super::{print, print_json};
use crate::ambient::{
    CONFIG_NAME, Surroundings, exists, open_folder, read_file, read_regular_file, variable,
};
use crate::arguments::Common;
use crate::callers;
use crate::confined::{self, sandbox_options};
use crate::exit::{DONE, Failed, USAGE};
use crate::files::{Content, POLICIES, ends_with};
use crate::load::{self, Fault};
use crate::own::Own;
use crate::personal::refuse_root;
use crate::servers;
use crate::settings::{Loaded, Settings, join, load_from, reserved};
use crate::terminal::complain;
use crate::trust::{Agreements, Asking, Origin, Standing};
use crate::web_search;

/// What was found so far.
#[derive(Default)]
struct Report {
    files: Vec<String>,
    problems: Vec<ConfigProblem>,
    warnings: Vec<ConfigWarning>,
}

pub(crate) fn run(common: &Common, files: &[PathBuf], strict: bool) -> Result<u8, Failed> {
    let surroundings = Surroundings::look()?;
    let origin = Origin::choose(common, &surroundings)?;
    let files = match (files.is_empty(), origin.file()) {
        (false, _) => files.to_vec(),
        (true, Some(file)) => vec![file.clone()],
        (true, None) => {
            return Err(Failed::usage("there is no toolgate.yaml here or in a folder above")
                .help("name the file to check"));
        }
    };
    let is_found =
        |file: &PathBuf| surroundings.absolute(file).is_ok_and(|file| origin.file() == Some(&file));
    let is_about_found = files.iter().any(is_found);
    let mut report = Report::default();
    let (mut manifests, mut policies) = (Vec::new(), Vec::new());
    for file in &files {
        let content = read(file, &surroundings)?;
        match kind(&content) {
            Kind::Policy => policies.push(content),
            Kind::Manifest => manifests.push(content),
            Kind::Config => report.config(common, &content)?,
        }
    }
    if !(manifests.is_empty() && policies.is_empty()) {
        // What these are about is said by the configuration that lies here, agreed to or not: it is only looked at.
        let loaded = match origin.file() {
            Some(file) => looked_at(&read(file, &surroundings)?, &surroundings)?,
            None => load_from(Origin::Defaults, &surroundings, Asking::Never)?,
        };
        let settings = join(common, Trust::Guided, loaded, surroundings.clone())?;
        report.loose(&settings, &manifests, &policies)?;
    }
    if let (Origin::Found(file), true) = (&origin, is_about_found) {
        warn_unless_agreed(file, &surroundings);
    }
    report.tell(common.json, strict)
}

/// A configuration that is only looked at: nothing of it has an effect, so that it need not be agreed to.
fn looked_at(content: &Content, surroundings: &Surroundings) -> Result<Loaded, Failed> {
    Loaded::read(Origin::Named(content.path.clone()), &content.bytes, surroundings)
}

/// A file without mistakes is not a file that counts.
fn warn_unless_agreed(file: &Path, surroundings: &Surroundings) {
    let standing =
        Agreements::of(surroundings).and_then(|agreements| Standing::of(file, &agreements, surroundings));
    match standing {
        Ok(Standing::Agreed(_)) => {}
        Ok(Standing::New(_) | Standing::Changed(..)) => {
            let file = surroundings.shown(file);
            complain(&format!("{file} does not count before you agree to it as it is: run `toolgate trust`"));
        }
        Err(failed) => complain(&failed.message),
    }
}

enum Kind {
    Config,
    Manifest,
    Policy,
}

/// A policy by its name; a manifest by the key that every manifest has and no configuration.
fn kind(content: &Content) -> Kind {
    if ends_with(&content.path, POLICIES) {
        return Kind::Policy;
    }
    let text = String::from_utf8_lossy(&content.bytes);
    let names_a_tool =
        |line: &str| ["tool:", "\"tool\":", "'tool':", "{tool:"].iter().any(|key| line.starts_with(key));
    if text.lines().any(names_a_tool) { Kind::Manifest } else { Kind::Config }
}

fn read(file: &Path, surroundings: &Surroundings) -> Result<Content, Failed> {
    let path = surroundings.absolute(file)?;
    // Somebody may name a pipe; one that is found would be waited for in vain.
    let is_found = path.file_name().is_some_and(|name| name == CONFIG_NAME);
    let bytes = if is_found { read_regular_file(&path) } else { read_file(&path) };
    let bytes = bytes.map_err(|error| {
        Failed::usage(format!("`{}` cannot be read: {error}", file.display())).help("name an existing file")
    })?;
    Ok(Content { name: surroundings.shown(&path), path, bytes })
}

impl Report {
    /// A configuration with everything that it names.
    fn config(&mut self, common: &Common, content: &Content) -> Result<(), Failed> {
        self.files.push(content.name.clone());
        let config = match Config::parse_bytes(&content.name, &content.bytes) {
            Ok(config) => config,
            Err(problems) => {
                self.problems.extend(problems);
                return Ok(());
            }
        };
        let taken: Vec<ConfigProblem> =
            config.mounts.iter().filter_map(|mount| taken(&config, mount)).collect();
        if !taken.is_empty() {
            self.problems.extend(taken);
            return Ok(());
        }
        let surroundings = Surroundings::look()?;
        let loaded = looked_at(content, &surroundings)?;
        let settings = join(common, Trust::Guided, loaded, surroundings)?;
        let config = &settings.loaded.config;
        self.problems.extend(confined::problems(config));
        self.servers(&settings)?;
        self.keep(load::refuse_servers_where_full(&settings))?;
        self.problems.extend(unfit_mounts(&settings)?);
        self.warnings.extend(missing_places(&settings)?);
        self.warnings.extend(callers::warnings(&settings)?);
        self.keep(web_search::tool(&settings))?;
        self.warnings.extend(web_search::warnings(&settings));
        if config.callers.is_some() {
            self.keep(callers::verifier(&settings))?;
        }
        let manifests = self.keep(load::manifest_files(&settings))?;
        let policies = self.keep(load::policy_files(&settings))?.unwrap_or_default();
        // What policies and agents say about tools cannot be judged while not all of these are known.
        let Some(manifests) = manifests else { return Ok(()) };
        self.files.extend(named(&manifests).filter(|_| !config.tools.is_empty()));
        self.files.extend(named(&policies));
        let Some(declared) = self.manifests(&settings, &manifests)? else { return Ok(()) };
        let mut known: Vec<&str> = settings.profile.tool_names();
        known.extend(web_search::names(&settings));
        known.extend(declared.specs().map(|spec| spec.name.as_str()));
        self.problems.extend(config.check_tools(&known));
        self.policies(&settings, &declared, &policies)
    }

    /// The servers behind the gate. Nothing is started.
    fn servers(&mut self, settings: &Settings) -> Result<(), Failed> {
        // Whether a variable is set is worth a warning; what it holds is nobody's business here.
        let is_set = |name: &str| {
            variable(name).map(|value| if value.is_empty() { String::new() } else { "set".to_owned() })
        };
        let Some((_, unusable)) = self.keep(servers::declared(settings, &is_set))? else { return Ok(()) };
        self.warnings.extend(unusable.into_iter().map(|server| ConfigWarning::from(server.problem)));
        self.warnings.extend(settings.loaded.config.warnings());
        self.warnings.extend(missing_servers(settings)?);
        Ok(())
    }

    /// Manifests and policies by themselves.
    fn loose(
        &mut self,
        settings: &Settings,
        manifests: &[Content],
        policies: &[Content],
    ) -> Result<(), Failed> {
        self.files.extend(named(manifests));
        self.files.extend(named(policies));
        self.manifests(settings, manifests)?;
        if policies.is_empty() {
            return Ok(());
        }
        let declared = load::manifest_files(settings).and_then(|files| load::declared_in(settings, &files));
        let declared = declared.map_err(Fault::from)?;
        self.policies(settings, &declared, policies)
    }

    fn manifests(&mut self, settings: &Settings, files: &[Content]) -> Result<Option<LoadedTools>, Failed> {
        let declared = self.keep(load::declared_in(settings, files))?;
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
        files: &[Content],
    ) -> Result<(), Failed> {
        if files.is_empty() {
            return Ok(());
        }
        // Tools are only looked at, so that they need no folder to work in.
        let nowhere = Workspace::new(Vec::new()).map_err(|error| Failed::usage(error.to_string()))?;
        let nowhere = Arc::new(nowhere);
        let Some(runner) = self.keep(confined::runner(settings, &Own::of(settings), &nowhere))? else {
            return Ok(());
        };
        let registry = self.keep(load::registry(settings, &nowhere, declared, runner))?;
        if let Some(registry) = registry {
            self.keep(load::policies(settings, &registry, files))?;
        }
        Ok(())
    }

    /// What was loaded; problems are kept for the end.
    fn keep<Loaded>(&mut self, loaded: Result<Loaded, impl Into<Fault>>) -> Result<Option<Loaded>, Failed> {
        match loaded.map_err(Into::into) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(Fault::Failed(failed)) => Err(failed),
            Err(Fault::Problems(problems)) => {
                // What was found twice, by two ways of looking, is one problem.
                let fresh = problems.into_iter().filter(|problem| !self.problems.contains(problem));
                let fresh: Vec<ConfigProblem> = fresh.collect();
                self.problems.extend(fresh);
                Ok(None)
            }
        }
    }

    fn tell(self, as_json: bool, strict: bool) -> Result<u8, Failed> {
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
        Ok(if bad { USAGE } else { DONE })
    }
}

fn named(files: &[Content]) -> impl Iterator<Item = String> {
    files.iter().map(|file| file.name.clone())
}

fn taken(config: &Config, mount: &MountConfig) -> Option<ConfigProblem> {
    let help = reserved(&mount.alias.value)?;
    let message = format!("`{}` cannot be mounted by hand", mount.alias.value);
    Some(config.problem_at(&mount.alias, message, Some(help.to_owned())))
}

/// Mounts with which no gate starts: the root of the filesystem, the gate's own directories, and what is no directory.
fn unfit_mounts(settings: &Settings) -> Result<Vec<ConfigProblem>, Failed> {
    let (config, own) = (&settings.loaded.config, Own::of(settings));
    let mut problems = Vec::new();
    for mount in &config.mounts {
        let (alias, path) = (&mount.alias.value, settings.resolve(&mount.path.value)?);
        let refused = own.refuse_mount(alias, &path).and_then(|()| match open_folder(&path) {
            Ok(directory) => refuse_root(alias, &path, &directory),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let message =
                    format!("`{}` is no directory and cannot be mounted as `{alias}`", path.display());
                Err(Failed::usage(message).help("name a directory"))
            }
            // What is missing is made or warned of; what this user may not open another one may.
            Err(_) => Ok(()),
        });
        if let Err(Failed { message, help, .. }) = refused {
            problems.push(config.problem_at(&mount.path, message, help));
        }
    }
    Ok(problems)
}

/// Folders that are named and are not there.
fn missing_places(settings: &Settings) -> Result<Vec<ConfigWarning>, Failed> {
    let config = &settings.loaded.config;
    let sandbox = &config.sandbox;
    let folders = sandbox.read.iter().chain(sandbox.path.iter().flatten());
    // A directory that may be written is made when the gate starts.
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

/// The processes of servers that are started.
fn processes(config: &Config) -> impl Iterator<Item = &ServerProcessConfig> {
    let started = config.mcp_servers.iter().filter(|server| !server.disabled);
    started.filter_map(|server| match &server.transport {
        ServerTransport::Process(process) => Some(&**process),
        ServerTransport::Remote(_) => None,
    })
}

/// Servers whose program would not be found.
fn missing_servers(settings: &Settings) -> Result<Vec<ConfigWarning>, Failed> {
    let config = &settings.loaded.config;
    let processes: Vec<&ServerProcessConfig> = processes(config).collect();
    if processes.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(sandbox) = Sandbox::prepare(sandbox_options(settings, &Own::of(settings))?) else {
        return Ok(Vec::new());
    };
    let is_there = |process: &&&ServerProcessConfig| {
        let program = Path::new(&process.program.value);
        let found = sandbox.find_program(process.program.value.as_ref()).is_some_and(|place| exists(&place));
        // What lies in a folder of its own is seen there as it is here; what lies in a mount is seen elsewhere.
        found || program.starts_with("/mnt") || (program.is_absolute() && exists(program))
    };
    let missing = processes.iter().filter(|process| !is_there(process));
    let warning = |process: &&ServerProcessConfig| {
        let message = format!("there is no program `{}` in the sandbox", process.program.value);
        let help = "install it, or name it by its absolute path and its folder under `read`".to_owned();
        config.problem_at(&process.program, message, Some(help)).into()
    };
    Ok(missing.map(warning).collect())
}

/// Programs that a command would not find.
fn missing_programs(settings: &Settings, files: &[Content]) -> Result<Vec<ConfigWarning>, Failed> {
    let Ok(sandbox) = Sandbox::prepare(sandbox_options(settings, &Own::of(settings))?) else {
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
