//! The approved tool definitions of each server.
//!
//! A server can change its definitions at any time ("rug pull"). So a definition is stored whole when it is approved, and a tool with another
//! definition is suspended until an operator has seen the difference. At the first contact with a server whose policy is [`PinPolicy::FirstUse`],
//! everything it lists is approved; what it lists later is new, and waits. A pin file that cannot be read approves nothing.
//!
//! Pins belong to a configuration and a command ([`PinKey`]): a server of the same name elsewhere, or with another command, is another server.

mod pin_file;
mod pin_key;
mod pin_store;

use std::path::PathBuf;
use std::sync::Arc;

use toolgate_text::diff::unified;
use toolgate_types::Sha256;

use crate::definition::Definition;
use crate::error::ConnectError;
use crate::settings::{PinPolicy, ServerName};

pub use pin_file::{KnownLifecycle, PinFile, PinState, PinnedTool};
pub use pin_key::{PinKey, PinOrigin};
use pin_store::PinStore;

/// The pins, one file per server.
#[derive(Clone)]
pub struct Pins {
    store: Arc<PinStore>,
}

impl Pins {
    /// Pins in this directory. It is created on the first write, with mode 0700.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { store: Arc::new(PinStore::new(folder)) }
    }

    /// The pins of one server.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub fn for_server(&self, key: &PinKey) -> Result<PinFile, ConnectError> {
        self.store.read(key)
    }

    /// The servers with a pin file, in order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn servers(&self) -> Result<Vec<ServerName>, ConnectError> {
        self.store.servers()
    }

    /// Approves exactly this definition of a tool, which must be the one last offered.
    ///
    /// # Errors
    /// The server offers something else by now, or the file cannot be written.
    pub fn approve(&self, key: &PinKey, tool: &str, digest: Sha256) -> Result<(), ConnectError> {
        let approved = self.store.update(key, |pins| match pins.agree(tool, digest) {
            true => Ok(()),
            false => {
                Err(ConnectError::NotOffered { server: key.server().to_string(), tool: tool.to_owned() })
            }
        });
        approved.map(|_| ())
    }

    /// Copies the pins of a server from elsewhere.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub fn copy_from(&self, other: &Self, key: &PinKey) -> Result<(), ConnectError> {
        let before = other.store.read(key)?;
        if !before.is_met() {
            return Ok(());
        }
        let copied = self.store.update(key, |pins| {
            *pins = before;
            Ok(())
        });
        copied.map(|_| ())
    }

    /// Removes the pin of one tool, or all pins of a server. A removed tool is new when it is seen again, and a server without pins is contacted for
    /// the first time again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget(&self, key: &PinKey, tool: Option<&str>) -> Result<(), ConnectError> {
        match tool {
            None => self.store.remove(key),
            Some(tool) => {
                let forgotten = self.store.update(key, |pins| {
                    pins.forget(tool);
                    Ok(())
                });
                forgotten.map(|_| ())
            }
        }
    }

    /// Records what a server offers now, and returns its pins.
    pub(crate) fn observe(&self, key: &PinKey, seen: &Observation<'_>) -> Result<ObservedPins, ConnectError> {
        let mut observed = None;
        let adopted = self.store.update(key, |pins| {
            pins.observe(seen.policy, seen.offered);
            pins.set_lifecycle(seen.lifecycle);
            observed = Some(pins.clone());
            Ok(())
        })?;
        let pins = observed.ok_or_else(|| ConnectError::pins(key.server().as_str(), "nothing was kept"))?;
        Ok(ObservedPins { pins, adopted })
    }

    /// The same without recording: several gates whose servers share a name would otherwise keep overwriting each other's file.
    pub(crate) fn compare(&self, key: &PinKey, seen: &Observation<'_>) -> Result<ObservedPins, ConnectError> {
        let mut pins = self.store.read(key)?;
        if !pins.is_met() {
            return self.observe(key, seen);
        }
        pins.observe(seen.policy, seen.offered);
        Ok(ObservedPins { pins, adopted: false })
    }

    /// A value that changes whenever the file may have changed.
    pub(crate) fn stamp(&self, key: &PinKey) -> Option<[u64; 4]> {
        self.store.stamp(key)
    }
}

/// What was seen of a server.
pub(crate) struct Observation<'o> {
    pub(crate) policy: PinPolicy,
    pub(crate) offered: &'o [Definition],
    /// The protocol that it was spoken to with.
    pub(crate) lifecycle: KnownLifecycle,
}

/// The pins of a server after it was seen.
pub(crate) struct ObservedPins {
    pub(crate) pins: PinFile,
    /// Whether they were pins of the server's name alone until now.
    pub(crate) adopted: bool,
}

impl PinnedTool {
    /// The diff between the approved and the offered definition, with hidden characters escaped. If none was approved, everything is new.
    #[must_use]
    pub fn diff(&self) -> String {
        let text = |definition: Option<&Definition>| definition.map(Definition::escaped).unwrap_or_default();
        let (agreed, offered) = (text(self.agreed()), text(self.offered()));
        unified(&agreed, &offered, "agreed", "offered", 3)
    }
}
