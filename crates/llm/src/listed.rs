//! The models of a server, with their capabilities.

use crate::capabilities::Capabilities;
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::wires::Wire;

/// A model of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name on the server.
    pub name: String,
    /// Its capabilities: as configured, else from the server, else from the built-in table.
    pub capabilities: Capabilities,
}

/// The models of a server, in its own order.
///
/// # Errors
/// The server cannot be reached, or rejects the request.
pub async fn list_models(wire: Wire, endpoint: &Endpoint) -> Result<Vec<ListedModel>, ProviderError> {
    (wire.spec().list_models)(endpoint).await
}
