//! Raw system calls: the one place with `unsafe` in it.
//!
//! [`calls`] wraps what no crate offers, one function each. [`launch`] starts a process that shares the gate's memory (`CLONE_VM | CLONE_VFORK`)
//! while it applies its layers, because copying a large parent costs more than everything else together. [`child`] is what that process does: it
//! executes prepared steps one by one, allocates nothing, takes no lock and does not return. [`program_text`] is about the memory of the gate itself.

pub(crate) mod calls;
pub(crate) mod child;
pub(crate) mod launch;
pub(crate) mod program_text;
