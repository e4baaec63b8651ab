//! The gate between an LLM agent and the machine, inside another program.
//!
//! A [`Gate`] is built from `toolgate.yaml`, or from values: a workspace, tool manifests, tools that are Rust code, JWT settings. Each call is checked,
//! approved where that is needed, confined by the kernel, filtered and recorded, exactly as by the binary of the same name, which is built from the same parts.
//!
//! ```
//! use std::time::Duration;
//! use serde_json::json;
//! use toolgate::{Gate, CallerIdentity, JwtSettings};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scratch = tempfile::tempdir()?;
//! let jwt = JwtSettings::hs256("https://issuer.example", "my-service", "key-1", b"32 bytes that only both sides know");
//! let manifest = "tool: greet\ndescription: Greets someone\nclass: read\npermissions: [greet:use]\n\
//!     input: {properties: {name: {type: string, maxLength: 40}}, required: [name]}\n\
//!     command: [printf, --, '%s', \"hello {name}\"]\noutput: {parse: text, schema: {type: string}}\npolicy: {\"*\": allow}\n";
//! let gate = Gate::builder()
//!     .workspace(scratch.path().join("project"))
//!     .state_dir(scratch.path().join("state"))
//!     .manifest("greet.yaml", manifest)
//!     .jwt(jwt.clone())
//!     .build()
//!     .await?;
//! let token = jwt.sign("alice", ["greet:use"], Duration::from_secs(300))?;
//! let answer = gate.call("greet", json!({"name": "Bob"}), CallerIdentity::jwt(token)).await;
//! assert_eq!(answer.answer.text, "hello Bob");
//! gate.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! What an operator should know is a `tracing` event of the target `toolgate::notice`.

mod embedding;

pub use embedding::{CallerIdentity, Gate, GateBuilder, JwtError, JwtSettings};
pub use toolgate_assembly::error::{BuildError, BuildErrorKind};
pub use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, NoApprover, PreviewBody, Tool, ToolSpec,
};
pub use toolgate_tools::{CallResponse, ModelAnswer, Profile};
pub use toolgate_types::{AgentName, CallId, Caller, Decision, ErrorCode, Failure, SessionId, Stage, Trust};
