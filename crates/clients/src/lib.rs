//! What MCP clients keep in their own files.
//!
//! [`import_text`] turns the servers of a client's file into `mcp_servers` of the gate's configuration; [`ConfigFileFormat::install`] and
//! [`ConfigFileFormat::uninstall`] add an entry for the gate to a client's file and remove it, and touch nothing else in it.
//!
//! This crate opens no file, reads no environment and starts nothing: functions take and return text. A client is one file in `known` and one line in
//! its list.

// Formats.
mod jsonc;
mod toml;
mod yaml;

// An entry for the gate.
mod merge_entry;
mod remote_entry;
mod config_location;
mod config_file;
mod restore;
mod known;

// The servers of a client.
mod import;

pub use config_file::{ConfigFileFormat, GateEntry, JsonEntryFormat, ServerEntry};
pub use config_location::{BaseDirectories, ConfigLocation};
pub use import::{
    ImportError, Imported, ImportedMount, ImportedServer, InsertError, LeftOut, import_from, import_servers,
    import_text, insert_servers,
};
pub use jsonc::{JsoncEditError, parse_jsonc, remove_member, set_member};
pub use known::{CLIENTS, McpClient};
pub use merge_entry::{InstalledEntry, RemovedEntry};
pub use remote_entry::{RemoteEntryFormat, TOKEN_VARIABLE, TokenReference};
pub use restore::RestoredServers;
