//! Files that are only ever reached through directory handles.
//!
//! A workspace is a set of mounts. A path is text from somebody we do not trust: it chooses a mount and some names, the kernel opens them beneath the
//! mount's handle, and every rule is asked about what was opened. Nothing here checks a path and then uses it: what was checked is what is used.
//! Changes are staged without a name, recorded, and then made in one step, so that a crash leaves the old file or the new one.
//!
//! This crate knows no tool, no profile and no policy; it answers with shown paths and typed errors, and never with a host path.

mod fold;
mod deny_list;
mod glance;
mod obeyed;
mod personal;
mod marks;
mod rules;
mod location;
mod mount;
mod repository;
mod request;
mod view;
mod open;
mod locate;
mod read;
mod whole;
mod large;
mod again;
mod browse;
mod change;
mod target;
mod dress;
mod saving;
mod stage;
mod swap;
mod transaction;
mod write;
mod patch;
mod relocate;
mod restore;
mod git_config;
mod pathspecs;
mod confine;
mod tally;
mod reserve;
mod error;
#[cfg(test)]
mod testing;

pub use browse::{FoundFiles, FoundLines, Listed, Page, Unwalked};
pub use change::{
    After, ChangeKind, FileStamp, Forgetful, KeptBound, NotKept, PlannedChange, Recorder, Settled,
};
pub use confine::{
    Baselines, Confined, ConfinedMount, HardLinks, Leftover, LeftoverKind, Looked, Quarantine,
    QuarantineBounds, Quarantined, Run, Stray, StrayKind, Strays,
};
pub use deny_list::DEFAULT_DENY;
pub use dress::copy_attributes;
pub use error::{WorkspaceError, WriteBound};
pub use git_config::sanitised_git_config;
pub use locate::Located;
pub use marks::{FileMark, MARKED, mark};
pub use mount::{Access, Mount, MountError, PersonalPaths, RootIdentity, is_alias};
pub use obeyed::OBEYED;
pub use patch::{PatchAction, Patched, PatchedFile};
pub use personal::OBEYED_IN_HOME;
pub use read::{EntireContent, EntireFile, FileContent, FileRead, ReadRequest, TextWindow};
pub use relocate::{Deleted, Moved, Overwrite};
pub use request::PathStyle;
pub use reserve::{DiskReserve, Headroom, USUAL_RESERVE_BYTES};
pub use restore::{Expect, MovedFile, Patience, Restoration};
pub use rules::{InvalidGlob, PathGrant, Rules};
pub use tally::{TALLY_STEP, Tally, tally_units};
pub use toolgate_search::{Entry, EntryKind, FindOptions, Hidden, Line, ListOptions, Match, SearchOptions};
pub use view::{View, Workspace};
pub use write::{Rehearsal, Transformed, Written};
