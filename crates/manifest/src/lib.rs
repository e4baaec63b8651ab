//! What an operator declares.
//!
//! [`Config`] is the configuration file `toolgate.yaml`, and [`ToolManifest`] is one tool. Both are parsed from text: this
//! crate opens no file, reads no environment and decides no call. Nor does it guess: an unknown key, a value of the wrong
//! type, a glob that could never match or a permission without `allowed` is a [`ConfigProblem`] with the file, the line, the
//! column and a remedy, and all problems of a file are reported together. What is allowed but probably not intended is a
//! [`ConfigWarning`].
//!
//! ```
//! use toolgate_manifest::Config;
//!
//! let problems = Config::parse("toolgate.yaml", "trust: gided\nlimit: {}\n").unwrap_err();
//! assert_eq!(
//!     problems.to_string(),
//!     "toolgate.yaml:1:8: `gided` is not a trust level — use `supervised`, `guided` or `autonomous`\n\
//!      toolgate.yaml:2:1: unknown key `limit` — did you mean `limits`?",
//! );
//! ```

mod callers;
mod central;
mod config;
mod conversation;
mod defaults;
mod decode;
mod flow;
mod globs;
mod json;
mod models;
mod path;
mod problem;
mod quantity;
mod rates;
mod retention;
mod read;
mod problem_report;
mod sandbox;
mod serve;
mod servers;
mod telemetry;
mod tool;
mod yaml_tree;
mod url;
mod variables;
mod web_search;
mod tool_search;
mod keyword_enum;

pub use callers::{CallerKey, CallersConfig, ClaimsConfig, KeySourceConfig, TokenAlgorithm};
pub use config::{
    Access, AgentConfig, ApprovalConfig, AuditConfig, AuditDetail, Config, DetailStorage, EXAMPLE,
    LimitOverrides, MountConfig, OnAuditFailure, ProfileName, ToolPermission,
};
pub use conversation::ConversationConfig;
pub use flow::{DataTrust, FlowConfig, FlowMode, PlainRole};
pub use globs::{GlobError, Globs};
pub use models::{ModelKey, ModelServerConfig, TokenPrice};
pub use path::DeclaredPath;
pub use problem::{ConfigProblem, ConfigProblems, ConfigWarning, Located, shown};
pub use rates::{BreakerConfig, NameGlob, RateLimitConfig};
pub use retention::RetentionConfig;
pub use sandbox::{
    EscalationConfig, HardLinkRule, PackageCacheConfig, SandboxConfig, SandboxLayer, Toolchain,
    ToolchainSelection,
};
pub use serve::{ServeAuth, ServeConfig};
pub use servers::{
    LoginConfig, OauthConfig, PackageRegistry, PackageSpec, PackageSpecError, PinMode, ServerConfig,
    ServerLimits, ServerProcessConfig, ServerRemote, ServerToolConfig, ServerTransport, is_reserved_header,
};
pub use telemetry::TelemetryConfig;
pub use tool::{
    CommandDeclaration, CommandLimits, CommandMount, CommandTemplate, ElevatedDeclaration, ExampleCaller,
    Expectation, Extensions, ManifestExample, MountPath, NamedPath, OutputDeclaration, OutputParse,
    PathArgument, PolicyRule, Rate, RealPaths, SkeletonError, StderrRule, TextTemplate, ToolManifest,
    Treatment, WHOLE_WORKTREE, is_reserved, is_variable, quoted, skeleton,
};
pub use tool_search::ToolSearchConfig;
pub use variables::{MissingVariable, VariableText};
pub use web_search::{SearchBackend, WebSearchConfig};
