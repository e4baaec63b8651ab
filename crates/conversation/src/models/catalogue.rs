//! Selects the model: as requested, as configured, or as the environment suggests.

use std::path::PathBuf;

use toolgate_llm::{Listing, ModelName, ModelVendor, StatedCapabilities, ToolNames, Wire};
use toolgate_manifest::VariableText;

use crate::model_error::ModelError;

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

/// The providers that need no declaration, each with its wire.
fn builtin_providers() -> impl Iterator<Item = (Wire, &'static ModelVendor)> {
    Wire::ALL.iter().flat_map(|wire| wire.vendors().iter().map(|vendor| (*wire, vendor)))
}

/// The provider of scripts.
pub const SCRIPTED: &str = "scripted";
/// The built-in script.
pub const DEMO_SCRIPT: &str = "demo";

/// The providers to choose from.
pub(crate) struct ProviderCatalogue<'o> {
    /// The providers of the configuration.
    pub(crate) declared: &'o [DeclaredProvider],
    /// Looks up an environment variable that is set and not empty.
    pub(crate) variable: &'o dyn Fn(&str) -> Option<String>,
}

impl ProviderCatalogue<'_> {
    /// The model by its name, `PROVIDER/NAME`.
    pub(crate) fn find(&self, text: &str) -> Result<ModelSource, ModelError> {
        let (provider, name) = text.split_once('/').unwrap_or((text, ""));
        if provider.is_empty() || name.is_empty() {
            return Err(ModelError::usage(format!("`{text}` does not name a model")).help(format!(
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
        let usual = builtin_providers().find(|(_, usual)| usual.name == provider);
        let route = match (declared, usual) {
            (Some(declared), usual) => self.declared_route(model, declared, usual)?,
            (None, Some((wire, usual))) => self.builtin_route(model, wire, usual),
            (None, None) => {
                return Err(ModelError::usage(format!("there is no provider `{provider}`")).help(format!(
                    "known are {}; more can be declared under `models:` in toolgate.yaml",
                    self.providers()
                )));
            }
        };
        Ok(ModelSource::Route(route))
    }

    /// The providers that a list of models shows, in order of preference, and whether the operator set each up: declared, with a key, or with a
    /// custom address.
    pub(crate) fn listed(&self) -> Vec<(String, bool)> {
        let declared = self.declared.iter().map(|declared| (declared.name.clone(), true));
        let is_set = |variable: &str| (self.variable)(variable).is_some();
        let usual = self.undeclared().filter(|usual| match usual.listing {
            Listing::Always => true,
            Listing::IfMoved => is_set(usual.base_variable),
        });
        let usual = usual.map(|usual| {
            let is_set_up = is_set(usual.base_variable) || usual.key_variable.is_some_and(is_set);
            (usual.name.to_owned(), is_set_up)
        });
        declared.chain(usual).collect()
    }

    /// The model that the environment suggests: one named by a variable, else that of the first provider whose key is set.
    pub(crate) fn suggested(&self) -> Option<String> {
        let vendors = || builtin_providers().map(|(_, vendor)| vendor);
        let named = |usual: &ModelVendor| {
            let name = usual.model_variable.and_then(|variable| (self.variable)(variable))?;
            Some(format!("{}/{}", usual.name, name.trim()))
        };
        if let Some(named) = vendors().find_map(named) {
            return Some(named);
        }
        let has_key =
            |usual: &&ModelVendor| usual.key_variable.is_some_and(|key| (self.variable)(key).is_some());
        let mut suggested =
            vendors().filter(has_key).filter_map(|usual| Some((usual, usual.suggested_model?)));
        suggested.next().map(|(usual, name)| format!("{}/{name}", usual.name))
    }

    /// The providers that need no key and no declaration: a server of this user may run there.
    pub(crate) fn keyless(&self) -> Vec<ModelRoute> {
        let keyless = builtin_providers().filter(|(_, vendor)| vendor.key_variable.is_none());
        let route = |(_, vendor): (Wire, &ModelVendor)| self.find(&format!("{}/any", vendor.name)).ok();
        let routes = keyless.filter_map(route).filter_map(|source| match source {
            ModelSource::Route(route) => Some(route),
            ModelSource::Script(_) => None,
        });
        routes.collect()
    }

    fn builtin_route(&self, model: ModelName, wire: Wire, usual: &ModelVendor) -> ModelRoute {
        let moved = (self.variable)(usual.base_variable);
        let key = match (usual.key_variable, &moved) {
            (None, _) => KeyLocation::NotNeeded,
            // A custom server may need no key.
            (Some(variable), Some(_)) => KeyLocation::OptionalVariable(variable.to_owned()),
            (Some(variable), None) => KeyLocation::Variable(variable.to_owned()),
        };
        ModelRoute {
            model,
            wire,
            base_url: moved.map_or_else(|| usual.base_url.to_owned(), |value| usual.base_format.url(&value)),
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
        usual: Option<(Wire, &ModelVendor)>,
    ) -> Result<ModelRoute, ModelError> {
        let usual = usual.filter(|(wire, _)| *wire == declared.wire && declared.base_url.is_none());
        let otherwise = usual.map(|(wire, usual)| self.builtin_route(model.clone(), wire, usual));
        let base_url = declared.base_url.clone().or(otherwise.as_ref().map(|route| route.base_url.clone()));
        let base_url = base_url.unwrap_or_else(|| default_address(declared.wire).to_owned());
        let key = declared.key.clone().or(otherwise.map(|route| route.key)).unwrap_or(KeyLocation::NotNeeded);
        let header = |(name, text): &(String, VariableText)| {
            let value = text.expand(self.variable).map_err(|missing| {
                ModelError::usage(format!("{missing}, which a header of `{}` needs", declared.name))
                    .help(format!("set {}, or leave the header out", missing.0))
            });
            Ok((name.clone(), value?))
        };
        let headers = declared.headers.iter().map(header).collect::<Result<_, ModelError>>()?;
        let DeclaredProvider { wire, stated, tool_names, .. } = *declared;
        Ok(ModelRoute { model, wire, base_url, key, headers, stated, tool_names })
    }

    /// The built-in providers whose names are not declared.
    fn undeclared(&self) -> impl Iterator<Item = &'static ModelVendor> {
        let vendors = builtin_providers().map(|(_, vendor)| vendor);
        vendors.filter(|vendor| !self.declared.iter().any(|known| known.name == vendor.name))
    }

    fn providers(&self) -> String {
        let declared = self.declared.iter().map(|declared| declared.name.as_str());
        declared
            .chain(self.undeclared().map(|usual| usual.name))
            .chain([SCRIPTED])
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The address of the provider that defined a wire format.
fn default_address(wire: Wire) -> &'static str {
    wire.vendors().first().map_or("", |vendor| vendor.base_url)
}

fn script_name(name: &str) -> Result<ScriptName, ModelError> {
    let (file, query) = name.split_once('?').unwrap_or((name, ""));
    let wire = match query.strip_prefix("wire=") {
        _ if query.is_empty() => None,
        Some(wire) => Some(Wire::named(wire).ok_or_else(|| {
            ModelError::usage(format!("there is no wire `{wire}`"))
                .help(format!("wires are {}", wire_names()))
        })?),
        None => {
            return Err(ModelError::usage(format!("`?{query}` says nothing about a script"))
                .help(format!("write ?wire=NAME behind the file; wires are {}", wire_names())));
        }
    };
    let file = (file != DEMO_SCRIPT).then(|| PathBuf::from(file));
    Ok(ScriptName { written: name.to_owned(), file, wire })
}

fn wire_names() -> String {
    Wire::NAMES.join(", ")
}

/// The error if no model was chosen and the environment suggests none.
pub(crate) fn no_model() -> ModelError {
    let mut keys: Vec<&str> = builtin_providers().filter_map(|(_, vendor)| vendor.key_variable).collect();
    keys.dedup();
    let last = keys.pop().map_or(String::new(), |last| format!(" or {last}"));
    ModelError::usage("no model was chosen").help(format!(
        "pass --model PROVIDER/NAME or write `model:` in toolgate.yaml; or set {}{last}; or start Ollama and pass --model \
         ollama/NAME; to look around without any of them, pass --model {SCRIPTED}/{DEMO_SCRIPT}",
        keys.join(", ")
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
