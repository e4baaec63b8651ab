//! Names, schemas, limits and wording of one way to use the gate.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_gate::{GateError, Registry, Tool, ToolSpec};
use toolgate_types::{ErrorCode, Limits, Outcome};
use toolgate_workspace::{PathStyle, Workspace};

use crate::command::{CommandRunner, Shell, ShellPresentation};
use crate::declared::SHIPPED;
use crate::file_tool::ToolDeclaration;
use crate::profiled_gate::ModelAnswer;
use crate::resource_files::ResourceKind;
use crate::web_search::WebSearch;
use crate::{claw, crew, native, proxy, sidecar, studio};

/// What tools are made of.
#[derive(Clone)]
pub struct ToolComponents {
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// What runs commands; without it there is no `run_command` and no `bash`.
    pub commands: Option<Arc<CommandRunner>>,
    /// What searches the web; without it there is no `web_search`.
    pub web_search: Option<Arc<WebSearch>>,
    /// The tools that manifests declare.
    pub declared: Vec<Arc<dyn Tool>>,
}

impl ToolComponents {
    /// Files alone.
    #[must_use]
    pub fn files(workspace: &Arc<Workspace>) -> Self {
        Self { workspace: Arc::clone(workspace), commands: None, web_search: None, declared: Vec::new() }
    }
}

/// The tools that a profile reads and finds files with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTools {
    /// Reads one.
    pub read: &'static str,
    /// Finds many, where there is such a tool.
    pub find: Option<&'static str>,
    /// How many bytes are read at once where nobody set another bound.
    pub default_bytes: u64,
}

/// One dress of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Toolgate's own.
    Native,
    /// CrewAgent's `fs.*` tools over `@project`, `@pkg` and `@state`.
    Crew,
    /// MiniClaw's five text tools.
    Claw,
    /// What manifests declare, and nothing else.
    Proxy,
    /// JSON observations for small local models.
    Sidecar,
    /// The tools of a chat studio.
    Studio,
}

impl Profile {
    /// All profiles, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Native, Self::Crew, Self::Claw, Self::Proxy, Self::Sidecar, Self::Studio];

    /// The name in configuration and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Crew => "crew",
            Self::Claw => "claw",
            Self::Proxy => "proxy",
            Self::Sidecar => "sidecar",
            Self::Studio => "studio",
        }
    }

    /// How paths are written.
    #[must_use]
    pub fn path_style(self) -> PathStyle {
        if self == Self::Crew { PathStyle::AliasOnly } else { PathStyle::Free }
    }

    /// Whether the profile works on runs, each with a `@state` of its own.
    #[must_use]
    pub fn has_runs(self) -> bool {
        self == Self::Crew
    }

    /// The bounds of a call before the operator changes them.
    #[must_use]
    pub fn limits(self) -> Limits {
        let native = Limits {
            max_read_bytes: 256 * 1024,
            max_write_bytes: 1024 * 1024,
            max_entries: 1000,
            max_matches: 100,
            max_output_bytes: 100_000,
            timeout: Duration::from_secs(60),
        };
        match self {
            Self::Native => native,
            Self::Crew => Limits {
                max_read_bytes: 50_000,
                max_write_bytes: 100_000,
                max_entries: 200,
                max_matches: 50,
                timeout: Duration::from_secs(30),
                ..native
            },
            Self::Claw => Limits { max_entries: 500, timeout: Duration::from_secs(10), ..native },
            Self::Proxy => Limits { timeout: Duration::from_secs(30), ..native },
            Self::Sidecar => Limits { max_read_bytes: 1_000_000, max_matches: 50, ..native },
            Self::Studio => Limits { max_read_bytes: 100_000, ..native },
        }
    }

    fn declarations(self) -> Vec<ToolDeclaration> {
        match self {
            Self::Native => native::tools(),
            Self::Crew => crew::tools(),
            Self::Claw => claw::tools(),
            Self::Proxy => Vec::new(),
            Self::Sidecar => sidecar::tools(),
            Self::Studio => studio::tools(),
        }
    }

    fn shell(self) -> Option<ShellPresentation> {
        match self {
            Self::Native => Some(ShellPresentation::Native),
            Self::Sidecar => Some(ShellPresentation::Sidecar),
            Self::Studio => Some(ShellPresentation::Studio),
            Self::Crew | Self::Claw | Self::Proxy => None,
        }
    }

    /// Whether it has `web_search`, where an operator says who is asked.
    #[must_use]
    pub fn searches_web(self) -> bool {
        matches!(self, Self::Native | Self::Studio)
    }

    /// How many tools a model of this profile can be given; nothing where any number will do. Small local models call five tools natively and write calls
    /// of more into their text.
    #[must_use]
    pub fn most_tools(self) -> Option<usize> {
        (self == Self::Sidecar).then_some(5)
    }

    /// Whether it has as many tools of its own as it can have.
    #[must_use]
    pub fn is_full(self) -> bool {
        self.most_tools().is_some_and(|most| self.tool_names().len() >= most)
    }

    /// The names of its own tools, in their order; `web_search` and those of manifests come on top.
    #[must_use]
    pub fn tool_names(self) -> Vec<&'static str> {
        let files = self.declarations().into_iter().map(|declaration| declaration.name);
        files.chain(self.shell().map(ShellPresentation::name)).collect()
    }

    /// The manifests that it uses when the configuration names none: files and their content.
    #[must_use]
    pub fn shipped(self) -> &'static [(&'static str, &'static str)] {
        if self == Self::Proxy { SHIPPED } else { &[] }
    }

    /// Its tools, and those that manifests declare.
    ///
    /// # Errors
    /// Two tools with one name.
    pub fn registry(self, parts: &ToolComponents) -> Result<Registry, GateError> {
        let mut registry = Registry::new();
        let files = self.declarations().into_iter();
        let files = files.filter_map(|declaration| {
            let browsable = self.resource_kind(declaration.name);
            declaration.bind_to(&parts.workspace, self.path_style(), browsable)
        });
        let shell = parts.commands.as_ref().zip(self.shell());
        let shell = shell.and_then(|(runner, dress)| Shell::bind_to(runner, dress));
        let web_search = parts.web_search.iter().filter(|_| self.searches_web());
        let web_search = web_search.map(|tool| Arc::clone(tool) as Arc<dyn Tool>);
        for tool in files.chain(shell).chain(web_search).chain(parts.declared.iter().cloned()) {
            registry.register(tool)?;
        }
        Ok(registry)
    }

    /// The tools that files can be read and found with by somebody who knows no tool: both take a `path` and can be browsed.
    #[must_use]
    pub fn file_tools(self) -> Option<FileTools> {
        let usual_bytes = self.limits().max_read_bytes;
        match self {
            Self::Native => {
                Some(FileTools { read: "read_file", find: Some("find_files"), default_bytes: usual_bytes })
            }
            Self::Crew => Some(FileTools { read: "fs.read", find: None, default_bytes: usual_bytes }),
            Self::Claw | Self::Proxy | Self::Sidecar | Self::Studio => None,
        }
    }

    /// What of one of its tools can be shown by address.
    fn resource_kind(self, tool: &str) -> Option<ResourceKind> {
        let FileTools { read, find, .. } = self.file_tools()?;
        match tool {
            _ if tool == read => Some(ResourceKind::File(match self {
                Self::Crew => crew::about_file,
                _ => native::about_file,
            })),
            _ => (find == Some(tool)).then_some(ResourceKind::Files),
        }
    }

    /// Whether the structured part of its answers is what the tools declare, and not a shape of its own around it.
    #[must_use]
    pub fn has_native_structure(self) -> bool {
        matches!(self, Self::Native | Self::Crew)
    }

    /// What it calls a kind of failure.
    pub(crate) fn category(self, code: ErrorCode) -> &'static str {
        match self {
            Self::Crew => crew::code(code),
            Self::Claw => claw::category(code),
            Self::Sidecar => sidecar::code(code),
            Self::Native | Self::Proxy | Self::Studio => code.as_str(),
        }
    }

    /// What a model is given.
    #[must_use]
    pub fn render(self, tool: &str, outcome: Outcome) -> ModelAnswer {
        match self {
            Self::Native => native::render(outcome),
            Self::Crew => crew::render(outcome),
            Self::Claw => claw::render(outcome),
            Self::Proxy => proxy::render(outcome),
            Self::Sidecar => sidecar::render(tool, outcome),
            Self::Studio => studio::render(tool, outcome),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|profile| profile.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|profile| profile.name()).collect();
            format!("`{text}` is not a profile; use one of {}", names.join(", "))
        })
    }
}

/// The shapes in which tools are told to models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// OpenAI function tools.
    OpenAi,
    /// Anthropic tools.
    Anthropic,
    /// Ollama's `tools` array.
    Ollama,
}

impl ToolFormat {
    /// The tools in this shape.
    #[must_use]
    pub fn write(self, tools: &[Arc<dyn Tool>]) -> Value {
        Value::Array(tools.iter().map(|tool| self.write_one(tool.spec())).collect())
    }

    fn write_one(self, spec: &ToolSpec) -> Value {
        let name = spec.name.as_str();
        match self {
            Self::OpenAi | Self::Ollama => json!({
                "type": "function",
                "function": {"name": name, "description": spec.description, "parameters": spec.input_schema},
            }),
            Self::Anthropic => {
                json!({"name": name, "description": spec.description, "input_schema": spec.input_schema})
            }
        }
    }
}
