//! A profile: the names, schemas, limits and wording of one way to use the gate.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_command::CommandRunner;
use toolgate_gate::{GateError, Registry, Tool, ToolSpec};
use toolgate_types::{ErrorCode, Limits, Outcome};
use toolgate_workspace::{PathStyle, Workspace};

use crate::declared::SHIPPED;
use crate::file_tool::ToolDeclaration;
use crate::profiled_gate::ModelAnswer;
use crate::resource_files::ResourceKind;
use crate::shell::{Shell, ShellPresentation};
use crate::web_search::WebSearch;
use crate::{claw, crew, native, proxy, sidecar, studio};

/// What a registry of tools is built from.
#[derive(Clone)]
pub struct ToolComponents {
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// Runs commands; without it there is no `run_command` and no `bash`.
    pub commands: Option<Arc<CommandRunner>>,
    /// Searches the web; without it there is no `web_search`.
    pub web_search: Option<Arc<WebSearch>>,
    /// The tools that manifests declare.
    pub declared: Vec<Arc<dyn Tool>>,
}

impl ToolComponents {
    /// File tools only.
    #[must_use]
    pub fn files(workspace: &Arc<Workspace>) -> Self {
        Self { workspace: Arc::clone(workspace), commands: None, web_search: None, declared: Vec::new() }
    }
}

/// The names of a profile's tools that read and find files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTools {
    /// Reads one file.
    pub read: &'static str,
    /// Finds files by name, if there is such a tool.
    pub find: Option<&'static str>,
}

/// One presentation of the gate.
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

    /// Whether the profile works on runs, each with its own `@state`.
    #[must_use]
    pub fn has_runs(self) -> bool {
        self == Self::Crew
    }

    /// The default limits of a call.
    #[must_use]
    pub fn limits(self) -> Limits {
        let native = Limits {
            max_read_bytes: 256 * 1024,
            max_resource_bytes: u64::MAX,
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

    /// How long a question waits for a person, unless the configuration says otherwise.
    #[must_use]
    pub fn approval_timeout(self) -> Duration {
        Duration::from_secs(if self == Self::Studio { 30 } else { 600 })
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

    /// Whether it has `web_search`, if the operator configures an engine.
    #[must_use]
    pub fn searches_web(self) -> bool {
        matches!(self, Self::Native | Self::Studio)
    }

    /// The maximum number of tools for a model of this profile; `None` without a limit. Small local models call five tools natively; with more, they
    /// write calls into their text.
    #[must_use]
    pub fn most_tools(self) -> Option<usize> {
        (self == Self::Sidecar).then_some(5)
    }

    /// Whether its own tools already reach that maximum.
    #[must_use]
    pub fn is_full(self) -> bool {
        self.most_tools().is_some_and(|most| self.tool_names().len() >= most)
    }

    /// The names of its own tools, in order; `web_search` and declared tools come in addition.
    #[must_use]
    pub fn tool_names(self) -> Vec<&'static str> {
        let files = self.declarations().into_iter().map(|declaration| declaration.name);
        files.chain(self.shell().map(ShellPresentation::name)).collect()
    }

    /// The manifests that apply if the configuration names none: file names and contents.
    #[must_use]
    pub fn shipped(self) -> &'static [(&'static str, &'static str)] {
        if self == Self::Proxy { SHIPPED } else { &[] }
    }

    /// Its tools, and the declared ones.
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

    /// The tools that read and find files on behalf of a client that reads resources instead of calling tools: both take a `path` and support
    /// resource requests.
    #[must_use]
    pub fn file_tools(self) -> Option<FileTools> {
        match self {
            Self::Native => Some(FileTools { read: "read_file", find: Some("find_files") }),
            Self::Crew => Some(FileTools { read: "fs.read", find: None }),
            Self::Claw | Self::Proxy | Self::Sidecar | Self::Studio => None,
        }
    }

    /// The kind of resource request that one of its tools supports.
    fn resource_kind(self, tool: &str) -> Option<ResourceKind> {
        let FileTools { read, find } = self.file_tools()?;
        match tool {
            _ if tool == read => Some(ResourceKind::File(match self {
                Self::Crew => crew::about_file,
                _ => native::about_file,
            })),
            _ => (find == Some(tool)).then_some(ResourceKind::Files),
        }
    }

    /// Whether the structured part of its answers has the shape that the tools declare, rather than an envelope of the profile's own.
    #[must_use]
    pub fn has_native_structure(self) -> bool {
        matches!(self, Self::Native | Self::Crew)
    }

    /// Its name for an error code.
    pub(crate) fn category(self, code: ErrorCode) -> &'static str {
        match self {
            Self::Crew => crew::code(code),
            Self::Claw => claw::category(code),
            Self::Sidecar => sidecar::code(code),
            Self::Native | Self::Proxy | Self::Studio => code.as_str(),
        }
    }

    /// Renders an outcome for the model.
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

/// The formats in which tool definitions are sent to models.
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
    /// The tool definitions in this format.
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
