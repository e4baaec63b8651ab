//! Pure decisions.
//!
//! Given what an operator declared and what a caller asks, this crate says yes or no, and why. It reads no file, no
//! clock and no environment, keeps no state, and runs nothing: the same question always has the same answer.
//! Nothing here defaults to allowed, and trust is kept apart from rights: a [`Scope`] says what an agent may do,
//! [`needs_question`] says whether somebody must be asked first, and neither can change the other's answer.

pub mod limits;
pub mod paths;
pub mod scope;
pub mod trust;

pub use limits::effective_limits;
pub use paths::PathScope;
pub use scope::{Grant, Scope, Verdict};
pub use trust::needs_question;
