//! The servers that need no declaration.

/// A server that needs no declaration: its name, its address, and the environment variables by which its own clients are set up.
#[derive(Debug)]
pub struct ModelVendor {
    /// The part before the slash of a model's name.
    pub name: &'static str,
    /// Its address.
    pub base_url: &'static str,
    /// The environment variable that replaces the address.
    pub base_variable: &'static str,
    /// The format of that variable.
    pub base_format: BaseUrlFormat,
    /// The environment variable with the key; `None` if no key is needed.
    pub key_variable: Option<&'static str>,
    /// The environment variable that names the default model.
    pub model_variable: Option<&'static str>,
    /// The model that is used if only the key is set: neither the largest nor the smallest that the vendor's own client lists.
    pub suggested_model: Option<&'static str>,
    /// When a list of models includes it.
    pub listing: Listing,
}

/// The format of the environment variable that replaces an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseUrlFormat {
    /// A URL.
    Url,
    /// A URL, a host, or a host and a port, as Ollama itself reads `OLLAMA_HOST`.
    Host {
        /// The port of `http` where none is given.
        default_port: &'static str,
    },
}

/// When a list of models includes a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Always.
    Always,
    /// Only at another address: at its own, another vendor lists the same models.
    IfMoved,
}

impl BaseUrlFormat {
    /// The URL that the value of the variable means. An unspecified address, on which a server listens, becomes the loopback one.
    #[must_use]
    pub fn url(self, value: &str) -> String {
        let Self::Host { default_port } = self else { return value.to_owned() };
        let host = value.trim().trim_end_matches('/');
        let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (name, port)
            }
            _ => (rest, if scheme == "https" { "443" } else { default_port }),
        };
        let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
        format!("{scheme}://{name}:{port}")
    }
}
