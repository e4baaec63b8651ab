//! A compromised model: it is given the tool list alone, and does its worst.
//!
//! [`generate`](grammar) makes sequences of calls from names and schemas; [`AttackedGate`](play) plays them against the binary that ships, and judges
//! each from outside; [`shrink`](shrink) makes one that fails small enough to read.

// What is made.
mod random;
mod shape;
mod paths;
mod lines;
mod mutate;
mod sequence;
mod recipes;
mod grammar;

// Where it is played.
mod target;
mod ground;
mod canaries;
mod door;
mod http_door;
mod tap;

// What is judged.
mod watch;
mod secrets;
mod process_tree;
mod records;
mod reference;
mod flow_labels;
mod judge;
mod launch;
mod play;

// Many of them.
mod shrink;
mod campaign;

pub(crate) use campaign::replay;
pub use campaign::{HostileFailure, HostileOptions, HostileReport, attack};
pub(crate) use judge::CHECKS;
pub use play::Escape;
pub(crate) use play::PlayOptions;
pub use sequence::{HostileCall, HostileEvent, HostileSequence, HostileStep};
pub use tap::Tap;
pub(crate) use tap::UnconfinedCommands;
pub(crate) use target::target;
pub use target::{HostileTarget, targets};
