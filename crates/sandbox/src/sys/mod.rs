//! Raw system calls: the one place with `unsafe` in it.
//!
//! [`calls`] wraps what no crate offers, one function each. [`launch`] starts a process that borrows the gate's memory while it puts on its layers,
//! because copying a large parent costs more than everything else together. [`child`] is what that process does: it takes prepared steps one by
//! one, allocates nothing, takes no lock and does not come back. [`text`] is about the memory of the gate itself.

pub(crate) mod calls;
pub(crate) mod child;
pub(crate) mod launch;
pub(crate) mod program_text;
