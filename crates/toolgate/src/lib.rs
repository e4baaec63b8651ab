#![doc = include_str!("../../../docs/library.md")]

mod embedding;

pub use embedding::{CallerIdentity, Gate, GateBuilder, JwtError, JwtSettings};
pub use toolgate_assembly::ambient::HostEnvironment;
pub use toolgate_assembly::error::{BuildError, BuildErrorKind};
pub use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, GrantDuration, GrantOffer, NoApprover,
    PreviewBody, Tool, ToolSpec,
};
pub use toolgate_tools::{CallResponse, ModelAnswer, Profile};
pub use toolgate_types::{AgentName, CallId, Caller, Decision, ErrorCode, Failure, SessionId, Stage, Trust};
