//! Selects the model: as requested, as configured, or as the environment suggests.

use std::path::PathBuf;

use toolgate_llm::{ModelName, StatedCapabilities, ToolNames, Wire, default_model};
use toolgate_manifest::VariableText;

use crate::exit::CliError;

/// The endpoint of a model, and its wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelRoute {
    pub(crate) model: ModelName,
    pub(crate) wire: Wire,
    pub(crate) base_url: String,
    pub(crate) key: KeyLocation,
    /// Sent with every request, as the operator declared them.
    pub(crate) headers: Vec<(String, String)>,
    /// Capabilities that the operator states; they override the server's and the built-in table.
    pub(crate) stated: StatedCapabilities,
    /// The tool names that the server accepts.
    pub(crate) tool_names: ToolNames,
}

/// Where a key is stored. The key itself is read only when the model is used, and never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    /// No key is needed.
    NotNeeded,
    /// An environment variable that must be set.
    Variable(String),
    /// An environment variable that may be set.
    OptionalVariable(String),
    /// A file of this user.
    File(PathBuf),
}

/// The source behind the provider part of a model name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelSource {
    /// A server with one of the wire formats.
    Route(ModelRoute),
    /// A script that this process plays.
    Script(ScriptName),
}

/// `scripted/demo`, `scripted/FILE`, `scripted/FILE?wire=ollama`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptName {
    /// The name as it was written.
    pub(crate) written: String,
    /// The file; `None` for the built-in demo.
    pub(crate) file: Option<PathBuf>,
    /// The requested wire format.
    pub(crate) wire: Option<Wire>,
}

/// A provider of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredProvider {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) base_url: Option<String>,
    pub(crate) key: Option<KeyLocation>,
    pub(crate) headers: Vec<(String, VariableText)>,
    pub(crate) stated: StatedCapabilities,
    pub(crate) tool_names: ToolNames,
}

/// A provider that needs no declaration.
struct BuiltinProvider {
    name: &'static str,
    wire: Wire,
    base_url: &'static str,
    base_variable: &'static str,
    key_variable: Option<&'static str>,
    /// The environment variable that names the default model.
    model_variable: Option<&'static str>,
    /// The model that is used if only the key is set.
    suggested: fn() -> Option<&'static str>,
}

const BUILTIN_PROVIDERS: [BuiltinProvider; 5] = [
    BuiltinProvider {
        name: "anthropic",
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com",
        base_variable: "ANTHROPIC_BASE_URL",
        key_variable: Some("ANTHROPIC_API_KEY"),
        model_variable: None,
        suggested: || default_model(Wire::Anthropic),
    },
    BuiltinProvider {
        name: "openai",
        wire: Wire::Openai,
        base_url: "https://api.openai.com/v1",
        base_variable: "OPENAI_BASE_URL",
        key_variable: Some("OPENAI_API_KEY"),
        model_variable: None,
        suggested: || default_model(Wire::Openai),
    },
    BuiltinProvider {
        name: "openai-chat",
        wire: Wire::OpenaiChat,
        base_url: "https://api.openai.com/v1",
        base_variable: "OPENAI_BASE_URL",
        key_variable: Some("OPENAI_API_KEY"),
        model_variable: None,
        suggested: || None,
    },
    BuiltinProvider {
        name: "openrouter",
        wire: Wire::OpenaiChat,
        base_url: "https://openrouter.ai/api/v1",
        base_variable: "OPENROUTER_BASE_URL",
        key_variable: Some("OPENROUTER_API_KEY"),
        model_variable: Some("OPENROUTER_MODEL"),
        suggested: || Some("openrouter/auto"),
    },
    BuiltinProvider {
        name: "ollama",
        wire: Wire::Ollama,
        base_url: "http://127.0.0.1:11434",
        base_variable: "OLLAMA_HOST",
        key_variable: None,
        model_variable: None,
        suggested: || None,
    },
];

/// The provider of scripts.
pub(crate) const SCRIPTED: &str = "scripted";
/// The built-in script.
const DEMO_SCRIPT: &str = "demo";

/// The providers to choose from.
pub(crate) struct ProviderCatalogue<'o> {
    /// The providers of the configuration.
    pub(crate) declared: &'o [DeclaredProvider],
    /// Looks up an environment variable that is set and not empty.
    pub(crate) variable: &'o dyn Fn(&str) -> Option<String>,
}

impl ProviderCatalogue<'_> {
    /// The model by its name, `PROVIDER/NAME`.
    pub(crate) fn find(&self, text: &str) -> Result<ModelSource, CliError> {
        let (provider, name) = text.split_once('/').unwrap_or((text, ""));
        if provider.is_empty() || name.is_empty() {
            return Err(CliError::usage(format!("`{text}` does not name a model")).help(format!(
                "write PROVIDER/NAME, such as `{}/llama3.2` or `{SCRIPTED}/{DEMO_SCRIPT}`; providers are {}",
                "ollama",
                self.providers()
            )));
        }
        if provider == SCRIPTED {
            return script_name(name).map(ModelSource::Script);
        }
        let model = ModelName { provider: provider.to_owned(), name: name.to_owned() };
        let declared = self.declared.iter().find(|declared| declared.name == provider);
        let usual = BUILTIN_PROVIDERS.iter().find(|usual| usual.name == provider);
        let route = match (declared, usual) {
            (Some(declared), usual) => self.declared_route(model, declared, usual)?,
            (None, Some(usual)) => self.builtin_route(model, usual),
            (None, None) => {
                return Err(CliError::usage(format!("there is no provider `{provider}`")).help(format!(
                    "known are {}; more can be declared under `models:` in toolgate.yaml",
                    self.providers()
                )));
            }
        };
        Ok(ModelSource::Route(route))
    }

    /// The providers that a list of models shows, in order of preference, and whether the operator set each up: declared, with a key, or with a
    /// custom address. `openai-chat` uses the same server as `openai` and is left out, unless it has a custom address.
    pub(crate) fn listed(&self) -> Vec<(String, bool)> {
        let declared = self.declared.iter().map(|declared| (declared.name.clone(), true));
        let is_set = |variable: &str| (self.variable)(variable).is_some();
        let usual = BUILTIN_PROVIDERS
            .iter()
            .filter(|usual| !self.declared.iter().any(|known| known.name == usual.name));
        let usual = usual.filter(|usual| {
            usual.wire != Wire::OpenaiChat || usual.name != "openai-chat" || is_set(usual.base_variable)
        });
        let usual = usual.map(|usual| {
            let is_set_up = is_set(usual.base_variable) || usual.key_variable.is_some_and(is_set);
            (usual.name.to_owned(), is_set_up)
        });
        declared.chain(usual).collect()
    }

    /// The model that the environment suggests: one named by a variable, else that of the first provider whose key is set.
    pub(crate) fn suggested(&self) -> Option<String> {
        let named = |usual: &BuiltinProvider| {
            let name = usual.model_variable.and_then(|variable| (self.variable)(variable))?;
            Some(format!("{}/{}", usual.name, name.trim()))
        };
        if let Some(named) = BUILTIN_PROVIDERS.iter().find_map(named) {
            return Some(named);
        }
        let has_key =
            |usual: &&BuiltinProvider| usual.key_variable.is_some_and(|key| (self.variable)(key).is_some());
        let mut suggested =
            BUILTIN_PROVIDERS.iter().filter(has_key).filter_map(|usual| Some((usual, (usual.suggested)()?)));
        suggested.next().map(|(usual, name)| format!("{}/{name}", usual.name))
    }

    fn builtin_route(&self, model: ModelName, usual: &BuiltinProvider) -> ModelRoute {
        let moved = (self.variable)(usual.base_variable);
        let key = match (usual.key_variable, &moved) {
            (None, _) => KeyLocation::NotNeeded,
            // A custom server may need no key.
            (Some(variable), Some(_)) => KeyLocation::OptionalVariable(variable.to_owned()),
            (Some(variable), None) => KeyLocation::Variable(variable.to_owned()),
        };
        let base_url = match (moved, usual.wire) {
            (Some(host), Wire::Ollama) => ollama_url(&host),
            (Some(url), _) => url,
            (None, _) => usual.base_url.to_owned(),
        };
        ModelRoute {
            model,
            wire: usual.wire,
            base_url,
            key,
            headers: Vec::new(),
            stated: StatedCapabilities::default(),
            tool_names: ToolNames::default(),
        }
    }

    /// A declaration takes precedence over a built-in provider; if it has the same name, it extends it.
    fn declared_route(
        &self,
        model: ModelName,
        declared: &DeclaredProvider,
        usual: Option<&BuiltinProvider>,
    ) -> Result<ModelRoute, CliError> {
        let usual = usual.filter(|usual| usual.wire == declared.wire && declared.base_url.is_none());
        let otherwise = usual.map(|usual| self.builtin_route(model.clone(), usual));
        let base_url = declared.base_url.clone().or(otherwise.as_ref().map(|route| route.base_url.clone()));
        let base_url = base_url.unwrap_or_else(|| default_address(declared.wire).to_owned());
        let key = declared.key.clone().or(otherwise.map(|route| route.key)).unwrap_or(KeyLocation::NotNeeded);
        let header = |(name, text): &(String, VariableText)| {
            let value = text.expand(self.variable).map_err(|missing| {
                CliError::usage(format!("{missing}, which a header of `{}` needs", declared.name))
                    .help(format!("set {}, or leave the header out", missing.0))
            });
            Ok((name.clone(), value?))
        };
        let headers = declared.headers.iter().map(header).collect::<Result<_, CliError>>()?;
        let DeclaredProvider { wire, stated, tool_names, .. } = *declared;
        Ok(ModelRoute { model, wire, base_url, key, headers, stated, tool_names })
    }

    fn providers(&self) -> String {
        let declared = self.declared.iter().map(|declared| declared.name.as_str());
        let usual = BUILTIN_PROVIDERS
            .iter()
            .map(|usual| usual.name)
            .filter(|name| !self.declared.iter().any(|known| known.name == *name));
        declared.chain(usual).chain([SCRIPTED]).collect::<Vec<_>>().join(", ")
    }
}

/// The address of the provider that defined a wire format.
fn default_address(wire: Wire) -> &'static str {
    BUILTIN_PROVIDERS.iter().find(|usual| usual.wire == wire).map_or("", |usual| usual.base_url)
}

/// `OLLAMA_HOST` as Ollama itself reads it: a URL, a host, or a host and a port. An unspecified address, on which a server listens, becomes the
/// loopback one.
fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (name, port)
        }
        _ => (rest, if scheme == "https" { "443" } else { "11434" }),
    };
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
    format!("{scheme}://{name}:{port}")
}

fn script_name(name: &str) -> Result<ScriptName, CliError> {
    let (file, query) = name.split_once('?').unwrap_or((name, ""));
    let wire = match query.strip_prefix("wire=") {
        _ if query.is_empty() => None,
        Some(wire) => Some(wire_named(wire).ok_or_else(|| {
            CliError::usage(format!("there is no wire `{wire}`")).help(format!("wires are {}", wire_names()))
        })?),
        None => {
            return Err(CliError::usage(format!("`?{query}` says nothing about a script"))
                .help(format!("write ?wire=NAME behind the file; wires are {}", wire_names())));
        }
    };
    let file = (file != DEMO_SCRIPT).then(|| PathBuf::from(file));
    Ok(ScriptName { written: name.to_owned(), file, wire })
}

const WIRES: [(&str, Wire); 4] = [
    ("anthropic", Wire::Anthropic),
    ("openai", Wire::Openai),
    ("openai-chat", Wire::OpenaiChat),
    ("ollama", Wire::Ollama),
];

fn wire_named(text: &str) -> Option<Wire> {
    WIRES.iter().find(|(name, _)| *name == text).map(|(_, wire)| *wire)
}

fn wire_names() -> String {
    WIRES.map(|(name, _)| name).join(", ")
}

/// The error if no model was chosen and the environment suggests none.
pub(crate) fn no_model() -> CliError {
    CliError::usage("no model was chosen").help(format!(
        "pass --model PROVIDER/NAME or write `model:` in toolgate.yaml; or set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
         OPENROUTER_API_KEY; or start Ollama and pass --model ollama/NAME; to look around without any of them, \
         pass --model {SCRIPTED}/{DEMO_SCRIPT}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The route of a name, as one line.
    fn found(text: &str, variables: &[(&str, &str)]) -> String {
        let declared = [
            DeclaredProvider {
                name: "office".to_owned(),
                wire: Wire::OpenaiChat,
                base_url: Some("http://10.0.0.5:8000/v1".to_owned()),
                key: Some(KeyLocation::File("/keys/office".into())),
                headers: Vec::new(),
                stated: StatedCapabilities { context_window: Some(32_768), ..StatedCapabilities::default() },
                tool_names: ToolNames::Exact,
            },
            DeclaredProvider {
                name: "anthropic".to_owned(),
                wire: Wire::Anthropic,
                base_url: None,
                key: None,
                headers: Vec::new(),
                stated: StatedCapabilities { max_output_tokens: Some(9), ..StatedCapabilities::default() },
                tool_names: ToolNames::default(),
            },
        ];
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        match (ProviderCatalogue { declared: &declared, variable: &variable }).find(text) {
            Ok(ModelSource::Route(ModelRoute { model, wire, base_url, key, headers, stated, .. })) => {
                format!("{model}: {wire:?} at {base_url}, key {key:?}, {} headers, {stated:?}", headers.len())
            }
            Ok(ModelSource::Script(script)) => format!("{script:?}"),
            Err(failed) => format!("{} / {}", failed.message, failed.help.unwrap_or_default()),
        }
    }

    #[test]
    fn names_lead_to_models() {
        let table = [
            ("anthropic/claude-x", &[][..]),
            ("openai/gpt-x", &[("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")]),
            ("openai-chat/gpt-x", &[]),
            ("openrouter/meta/llama:free", &[]),
            ("ollama/llama3.2:3b", &[]),
            ("ollama/qwen", &[("OLLAMA_HOST", "0.0.0.0")]),
            ("ollama/qwen", &[("OLLAMA_HOST", "gpu.example:8080")]),
            ("ollama/qwen", &[("OLLAMA_HOST", "https://ollama.example/")]),
            ("office/big", &[]),
            ("scripted/demo", &[]),
            ("scripted/dir/a.yaml?wire=ollama", &[]),
            ("scripted/a.yaml?wire=telex", &[]),
            ("scripted/a.yaml?fast", &[]),
            ("gpt-x", &[]),
            ("/x", &[]),
            ("nobody/x", &[]),
        ];
        let lines: Vec<String> = table
            .iter()
            .map(|(text, variables)| format!("{text} {variables:?}\n  {}", found(text, variables)))
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn a_key_suggests_a_provider() {
        let suggested = |variables: &[&str]| {
            let variable = |name: &str| variables.contains(&name).then(|| "k".to_owned());
            let suggested = ProviderCatalogue { declared: &[], variable: &variable }.suggested();
            suggested.map(|name| name.split('/').next().unwrap().to_owned())
        };
        assert_eq!(suggested(&[]), None);
        assert_eq!(suggested(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]).as_deref(), Some("anthropic"));
        assert_eq!(suggested(&["OPENROUTER_API_KEY"]).as_deref(), Some("openrouter"));
        // A model variable takes precedence over a key.
        let variables = ["ANTHROPIC_API_KEY", "OPENROUTER_MODEL"];
        assert_eq!(suggested(&variables).as_deref(), Some("openrouter"));
    }
}
