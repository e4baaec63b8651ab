//! What was agreed about the tools of each server.
//!
//! A server can say one thing today and another tomorrow. So what it says about a tool is kept, whole, when it is agreed to, and a tool that says
//! something else is not the one that was agreed to: it is suspended until an operator has seen the difference. At the first contact with a server
//! whose policy is [`PinPolicy::FirstUse`] everything it names is agreed to; what it names later is new, and waits. A file that cannot be read
//! agrees to nothing.

mod pin_file;
mod pin_store;

use std::path::PathBuf;
use std::sync::Arc;

use toolgate_text::diff::unified;
use toolgate_types::Sha256;

use crate::definition::Definition;
use crate::error::ConnectError;
use crate::settings::{PinPolicy, ServerName};

pub use pin_file::{PinFile, PinState, PinnedTool};
use pin_store::PinStore;

/// What was agreed, one file per server.
#[derive(Clone)]
pub struct Pins {
    store: Arc<PinStore>,
}

impl Pins {
    /// Pins in this folder. It is made when something is first kept, for its owner alone.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { store: Arc::new(PinStore::new(folder)) }
    }

    /// What is known about the tools of one server.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn for_server(&self, server: &ServerName) -> Result<PinFile, ConnectError> {
        self.store.read(server)
    }

    /// The servers that something is known about, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn servers(&self) -> Result<Vec<ServerName>, ConnectError> {
        self.store.servers()
    }

    /// Agrees to exactly this definition of a tool, which is one that the server offers or offered.
    ///
    /// # Errors
    /// The server offers something else by now, or the file cannot be changed.
    pub fn approve(&self, server: &ServerName, tool: &str, digest: Sha256) -> Result<(), ConnectError> {
        self.store.update(server, |pins| match pins.agree(tool, digest) {
            true => Ok(()),
            false => Err(ConnectError::NotOffered { server: server.to_string(), tool: tool.to_owned() }),
        })
    }

    /// Forgets one tool, or all of a server's. What is forgotten is new when it is seen again, and a server of which nothing is known is met for
    /// the first time.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn forget(&self, server: &ServerName, tool: Option<&str>) -> Result<(), ConnectError> {
        match tool {
            None => self.store.remove(server),
            Some(tool) => self.store.update(server, |pins| {
                pins.forget(tool);
                Ok(())
            }),
        }
    }

    /// Takes down what a server offers now, and says what is known about each of its tools.
    pub(crate) fn observe(
        &self,
        server: &ServerName,
        policy: PinPolicy,
        offered: &[Definition],
    ) -> Result<PinFile, ConnectError> {
        let mut seen = None;
        self.store.update(server, |pins| {
            pins.observe(policy, offered);
            seen = Some(pins.clone());
            Ok(())
        })?;
        seen.ok_or_else(|| ConnectError::pins(server.as_str(), "nothing was kept"))
    }

    /// The same, without taking it down: several gates that meet different servers of one name would otherwise never stop telling each other.
    pub(crate) fn compare(
        &self,
        server: &ServerName,
        policy: PinPolicy,
        offered: &[Definition],
    ) -> Result<PinFile, ConnectError> {
        let mut pins = self.store.read(server)?;
        if !pins.is_met() {
            return self.observe(server, policy, offered);
        }
        pins.observe(policy, offered);
        Ok(pins)
    }

    /// Something that is another whenever the file may be another.
    pub(crate) fn stamp(&self, server: &ServerName) -> Option<[u64; 4]> {
        self.store.stamp(server)
    }
}

impl PinnedTool {
    /// The difference between what was agreed to and what is offered, with every hidden character spelt out. Everything is new where nothing was agreed to.
    #[must_use]
    pub fn diff(&self) -> String {
        let text = |definition: Option<&Definition>| definition.map(Definition::escaped).unwrap_or_default();
        let (agreed, offered) = (text(self.agreed()), text(self.offered()));
        unified(&agreed, &offered, "agreed", "offered", 3)
    }
}
