//! Turns manifests into tools, or reports every problem with them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use toolgate_command::{CommandRunner, Reach};
use toolgate_egress::NetworkAllowlist;
use toolgate_gate::{Tool, ToolSpec};
use toolgate_manifest::{ConfigProblem, ConfigWarning, Rate, ToolManifest, Treatment};
use toolgate_policy::{
    Condition, ElevatedPermissions, OutputPolicy, OutputRule, PathInputs, Requirements, ToolTyping,
};
use toolgate_types::{Category, Sha256, ToolName};

use super::{CommandTool, DeclaredTool, examples};

/// What manifests are checked against.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManifestContext<'a> {
    /// The mounts, each with whether it is writable.
    pub mounts: &'a [(&'a str, bool)],
    /// The only programs that manifests may run; `None` allows any.
    pub allowed_commands: Option<&'a [&'a str]>,
    /// Tool names that are already used.
    pub taken: &'a [&'a str],
    /// Whether a manifest must declare its permissions and its input. If not required, an omission is a warning.
    pub says_all: bool,
    /// The profile that has no room for another tool, if so.
    pub full: Option<&'a str>,
}

/// Manifests that were parsed and checked.
#[derive(Default)]
pub struct LoadedTools {
    declared: Vec<Arc<DeclaredTool>>,
    /// Settings that are allowed but probably unintended.
    pub warnings: Vec<ConfigWarning>,
}

impl LoadedTools {
    /// The tools, in the order of their files.
    #[must_use]
    pub fn tools(&self, runner: &Arc<CommandRunner>) -> Vec<Arc<dyn Tool>> {
        let tool = |declared: &Arc<DeclaredTool>| -> Arc<dyn Tool> {
            Arc::new(CommandTool { declared: Arc::clone(declared), runner: Arc::clone(runner) })
        };
        self.declared.iter().map(tool).collect()
    }

    /// The specifications of the tools, in the order of their files.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.declared.iter().map(|declared| &declared.spec)
    }

    /// The rate limits per caller, for tools whose manifest has one.
    pub fn rates(&self) -> impl Iterator<Item = (&ToolName, Rate)> {
        self.declared.iter().filter_map(|declared| Some((&declared.spec.name, declared.manifest.rate?)))
    }

    /// Whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }
}

/// Parses and checks manifests, given as file names and contents. Reports all problems of all files together.
///
/// # Errors
/// Every problem that was found, in the order of the files; never empty.
pub fn load_manifests<Name: AsRef<str>, Bytes: AsRef<[u8]>>(
    files: &[(Name, Bytes)],
    surroundings: &ManifestContext<'_>,
) -> Result<LoadedTools, Vec<ConfigProblem>> {
    let (mut loaded, mut problems) = (LoadedTools::default(), Vec::new());
    let mut places: HashMap<String, String> = HashMap::new();
    for (file, bytes) in files {
        let file = file.as_ref();
        let (manifests, warnings) = match ToolManifest::parse_all_bytes(file, bytes.as_ref()) {
            Ok(read) => read,
            Err(found) => {
                problems.extend(found);
                continue;
            }
        };
        loaded.warnings.extend(warnings);
        for manifest in manifests {
            let name = manifest.name.value.as_str();
            if surroundings.taken.contains(&name) {
                let help = Some("give it another name, or use the profile `proxy`".to_owned());
                problems.push(manifest.problem_at(
                    &manifest.name,
                    format!("there is a tool `{name}` already"),
                    help,
                ));
            }
            if let Some(profile) = surroundings.full {
                problems.push(one_too_many(&manifest, profile));
            }
            match surroundings.says_all {
                true => problems.extend(manifest.unsaid()),
                false => loaded.warnings.extend(manifest.unsaid().into_iter().map(ConfigWarning::from)),
            }
            let place = format!("{file}:{}", manifest.name.line);
            if let Some(earlier) = places.insert(name.to_owned(), place) {
                let help = Some(format!("it is already declared at {earlier}; keep one of them"));
                problems.push(manifest.problem_at(
                    &manifest.name,
                    format!("the tool `{name}` appears twice"),
                    help,
                ));
            }
            match declare(manifest, Sha256::of(bytes.as_ref()), surroundings) {
                Ok(declared) => loaded.declared.push(Arc::new(declared)),
                Err(found) => problems.extend(found),
            }
        }
    }
    if problems.is_empty() { Ok(loaded) } else { Err(problems) }
}

/// The profile's models take a limited number of tools.
fn one_too_many(manifest: &ToolManifest, profile: &str) -> ConfigProblem {
    let message = format!(
        "the profile `{profile}` has all the tools that it can have, and `{}` would be one more",
        manifest.name.value
    );
    let help = "use another profile, such as `profile: native` or `profile: proxy`".to_owned();
    manifest.problem_at(&manifest.name, message, Some(help))
}

fn declare(
    manifest: ToolManifest,
    fingerprint: Sha256,
    surroundings: &ManifestContext<'_>,
) -> Result<DeclaredTool, Vec<ConfigProblem>> {
    let mut problems = check_context(&manifest, surroundings);
    let requirements = requirements(&manifest, surroundings).map_err(|problem| problems.push(problem)).ok();
    let policy = output_policy(&manifest).map_err(|problem| problems.push(problem)).ok();
    let hosts: Vec<&str> = manifest.command.network.iter().map(|host| host.value.as_str()).collect();
    let reach = NetworkAllowlist::parse(&hosts).map(|rules| Reach { rules, key: "network" });
    if reach.is_err() {
        problems.extend(manifest.command.network.iter().filter_map(|host| {
            let error = NetworkAllowlist::parse(&[host.value.as_str()]).err()?;
            Some(manifest.problem_at(host, error.to_string(), Some(error.help())))
        }));
    }
    if let Some(requirements) = &requirements {
        problems.extend(examples::check(&manifest, requirements));
    }
    match (requirements, policy, reach) {
        (Some(requirements), Some(policy), Ok(reach)) if problems.is_empty() => {
            Ok(DeclaredTool { spec: spec(&manifest, requirements, policy), manifest, reach, fingerprint })
        }
        _ => Err(problems),
    }
}

fn spec(manifest: &ToolManifest, requirements: Requirements, policy: OutputPolicy) -> ToolSpec {
    let title =
        manifest.title.clone().unwrap_or_else(|| manifest.name.value.as_str().replace(['_', '.'], " "));
    ToolSpec {
        name: manifest.name.value.clone(),
        title,
        description: manifest.description.value.clone(),
        class: manifest.class.value,
        category: Category::Exec,
        input_schema: without_extensions(manifest.input.clone()).into(),
        output_schema: manifest.output_schema().into(),
        requirements: Some(requirements),
        output_policy: Some(policy),
        timeout: manifest.timeout,
        suspended: None,
    }
}

/// Removes the `x-toolgate-` keywords from a schema that is sent to models: they name directories of the operator.
fn without_extensions(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(name, _)| !name.starts_with("x-toolgate-"))
                .map(|(name, value)| (name, without_extensions(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_extensions).collect()),
        plain => plain,
    }
}

fn requirements(
    manifest: &ToolManifest,
    surroundings: &ManifestContext<'_>,
) -> Result<Requirements, ConfigProblem> {
    let texts = |permissions: &[toolgate_manifest::Located<String>]| -> Vec<String> {
        permissions.iter().map(|permission| permission.value.clone()).collect()
    };
    let mounts = surroundings.mounts.iter().map(|(alias, _)| (*alias).to_owned()).collect();
    let paths = PathInputs { mounts, ..super::path_inputs(manifest) };
    let typing = || ToolTyping::of(&manifest.input).with_paths(&paths);
    let elevated = manifest.elevated.as_ref().map(|elevated| {
        let condition =
            Condition::compile_for(&elevated.when.value, typing()).map_err(|error| match error.offset {
                Some(offset) => manifest.problem_within(&elevated.when, offset, error.message, error.help),
                None => manifest.problem_at(&elevated.when, error.message, error.help),
            })?;
        Ok(ElevatedPermissions { condition, permissions: texts(&elevated.permissions) })
    });
    Ok(Requirements {
        permissions: texts(&manifest.permissions),
        elevated: elevated.transpose()?,
        class: manifest.class.value,
    })
}

fn output_policy(manifest: &ToolManifest) -> Result<OutputPolicy, ConfigProblem> {
    let rule = |treatment| match treatment {
        Treatment::Allow => OutputRule::Allow,
        Treatment::Mask => OutputRule::Mask,
        Treatment::Redact => OutputRule::Redact,
    };
    let pairs = manifest.policy.iter().map(|entry| (entry.path.value.as_str(), rule(entry.treatment)));
    let pairs: Vec<(&str, OutputRule)> = pairs.collect();
    OutputPolicy::compile(&pairs).map_err(|error| {
        let alone = |path: &str| OutputPolicy::compile(&[(path, OutputRule::Allow)]).is_err();
        let culprit = manifest.policy.iter().find(|entry| alone(&entry.path.value));
        match culprit.or(manifest.policy.first()) {
            Some(entry) => manifest.problem_at(&entry.path, error.to_string(), None),
            None => manifest.problem_at(&manifest.name, error.to_string(), None),
        }
    })
}

/// Checks that need more than the file: the existing mounts, and the programs that may run.
fn check_context(manifest: &ToolManifest, surroundings: &ManifestContext<'_>) -> Vec<ConfigProblem> {
    let known: Vec<&str> = surroundings.mounts.iter().map(|(alias, _)| *alias).collect();
    let mut problems = manifest.check_mounts(&known);
    for mount in manifest.command.mounts.iter().filter(|mount| mount.writable) {
        let alias = mount.alias.value.as_str();
        if surroundings.mounts.contains(&(alias, false)) {
            let help = Some(format!("mount it with `access: rw`, or write `\"{alias}\"`"));
            problems.push(manifest.problem_at(&mount.alias, format!("`{alias}` is mounted read-only"), help));
        }
    }
    let program = &manifest.command.program;
    let allowed = surroundings.allowed_commands;
    if let Some(allowed) = allowed.filter(|allowed| !allowed.contains(&program.value.as_str())) {
        let help = Some(format!("allowed are {}", allowed.join(", ")));
        let message = format!("`{}` is not among `allowed_commands`", program.value);
        problems.push(manifest.problem_at(program, message, help));
    }
    problems
}
