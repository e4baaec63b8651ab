//! An entry for a gate that is reached over HTTP (`toolgate serve`), in the keys of each client.

use serde_json::{Map, Value, json};

/// The variable of the client's environment that holds the token. The token itself is never written.
pub const TOKEN_VARIABLE: &str = "TOOLGATE_TOKEN";

/// How a client writes a server with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteEntryFormat {
    /// The key of the address.
    pub address: &'static str,
    /// The value of `type`, if it wants one.
    pub kind: Option<&'static str>,
    /// How the token is named.
    pub token: TokenReference,
    /// Whether the entry says which tools are wanted (`tools: ["*"]`).
    pub lists_tools: bool,
    /// Whether the entry says that it is enabled.
    pub says_enabled: bool,
}

/// How an entry refers to a variable with the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenReference {
    /// It is not known how: the user adds the header.
    Unknown,
    /// As a header, with this in place of the token.
    Header(&'static str),
    /// A key that names the variable.
    Variable(&'static str),
}

/// An address, and nothing else.
pub(crate) const PLAIN: RemoteEntryFormat = RemoteEntryFormat {
    address: "url",
    kind: None,
    token: TokenReference::Unknown,
    lists_tools: false,
    says_enabled: false,
};

impl RemoteEntryFormat {
    /// The entry for this address.
    pub(crate) fn value(self, address: &str) -> Value {
        let mut entry = Map::new();
        if let Some(kind) = self.kind {
            entry.insert("type".to_owned(), kind.into());
        }
        entry.insert(self.address.to_owned(), address.into());
        match self.token {
            TokenReference::Unknown => {}
            TokenReference::Header(reference) => {
                entry.insert("headers".to_owned(), json!({"Authorization": format!("Bearer {reference}")}));
            }
            TokenReference::Variable(key) => drop(entry.insert(key.to_owned(), TOKEN_VARIABLE.into())),
        }
        if self.lists_tools {
            entry.insert("tools".to_owned(), json!(["*"]));
        }
        if self.says_enabled {
            entry.insert("enabled".to_owned(), true.into());
        }
        Value::Object(entry)
    }
}
