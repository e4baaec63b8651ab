//! The resources that the MCP conformance suite reads by URI.

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use toolgate_serve::ResourceSource;

use crate::tools::PICTURE;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";

/// Resources that never change.
pub(crate) struct Static;

impl ResourceSource for Static {
    fn list(&self) -> Vec<Resource> {
        vec![Resource::new(TEXT, "static text"), Resource::new(BINARY, "static picture")]
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        vec![ResourceTemplate::new("test://template/{id}/data", "data by id")]
    }

    fn read(&self, uri: &str) -> Option<Vec<ResourceContents>> {
        let contents = match uri {
            TEXT => text("This is the content of the static text resource.", TEXT, "text/plain"),
            BINARY => ResourceContents::BlobResourceContents {
                uri: BINARY.to_owned(),
                mime_type: Some("image/png".to_owned()),
                blob: PICTURE.to_owned(),
                meta: None,
            },
            _ => {
                let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
                let data =
                    serde_json::json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                text(&data.to_string(), uri, "application/json")
            }
        };
        Some(vec![contents])
    }
}

fn text(text: &str, uri: &str, mime_type: &str) -> ResourceContents {
    ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(mime_type.to_owned()),
        text: text.to_owned(),
        meta: None,
    }
}
