//! Which addresses may be dialled while a login is prepared (SSRF).
//!
//! The MCP server names its authorization server, and that names endpoints. An attacker's server could name a service of this machine or of its network
//! so. A public server may only lead to public addresses; one that is itself on loopback, or in a private network, also to its own kind.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve as ResolveName, Resolving};
use toolgate_egress::{AddressClass, Resolve};

/// The classes of addresses that one server may lead to.
#[derive(Clone)]
pub(crate) struct AddressPolicy {
    /// The class that is allowed besides public addresses.
    own: Option<AddressClass>,
    lookup: Arc<dyn Resolve>,
}

impl AddressPolicy {
    /// The policy for a server. May block: its name is resolved.
    pub(crate) fn of_server(server: &Url, lookup: Arc<dyn Resolve>) -> Self {
        let own = match host_of(server) {
            HostKind::Literal(address) => local_class(AddressClass::of(address)),
            HostKind::Localhost => Some(AddressClass::Loopback),
            HostKind::Name(name) => {
                let addresses = lookup.resolve(name).unwrap_or_default();
                let mut classes = addresses.iter().map(|address| AddressClass::of(*address));
                let first = classes.next().and_then(local_class);
                // A name that resolves to loopback is no reason to reach what listens there: only its own literal address is.
                first.filter(|first| *first != AddressClass::Loopback && classes.all(|class| class == *first))
            }
        };
        Self { own, lookup }
    }

    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        let class = AddressClass::of(address);
        class == AddressClass::Public || self.own == Some(class)
    }

    /// Whether the host of a URL may be dialled, as far as its text says: the addresses of a name are checked when it is resolved.
    pub(crate) fn check_host(&self, url: &Url) -> Result<(), String> {
        let refused = |class| Err(format!("it is a {class} address, which this server may not lead to"));
        match host_of(url) {
            HostKind::Literal(address) if !self.allows(address) => refused(AddressClass::of(address)),
            HostKind::Localhost if self.own != Some(AddressClass::Loopback) => {
                refused(AddressClass::Loopback)
            }
            _ => Ok(()),
        }
    }

    /// Every address of a name, or an error if one of them is not allowed.
    fn resolve_checked(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let found = self.lookup.resolve(name)?;
        if found.is_empty() || found.iter().any(|address| !self.allows(*address)) {
            return Err(io::Error::other(format!("`{name}` is at an address that may not be reached")));
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

impl ResolveName for AddressPolicy {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.clone();
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || policy.resolve_checked(&name)).await??;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl fmt::Debug for AddressPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AddressPolicy").field("own", &self.own).finish_non_exhaustive()
    }
}

/// The classes that a server may share with what it names.
fn local_class(class: AddressClass) -> Option<AddressClass> {
    matches!(class, AddressClass::Loopback | AddressClass::Private | AddressClass::Shared).then_some(class)
}

enum HostKind<'u> {
    Literal(IpAddr),
    Localhost,
    Name(&'u str),
}

fn host_of(url: &Url) -> HostKind<'_> {
    let host = url.host_str().unwrap_or_default();
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse() {
        return HostKind::Literal(address);
    }
    let bare = host.trim_end_matches('.').to_ascii_lowercase();
    if bare == "localhost" || bare.ends_with(".localhost") {
        HostKind::Localhost
    } else {
        HostKind::Name(host)
    }
}

/// Whether a URL is on the loopback interface by its text, so that plain HTTP does not leave the machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match host_of(url) {
        HostKind::Literal(address) => address.is_loopback(),
        HostKind::Localhost => true,
        HostKind::Name(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as an attacker's DNS answers them.
    struct Names;

    impl Resolve for Names {
        fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let addresses = match name {
                "public.example" => "93.184.216.34",
                "rebound.example" => "93.184.216.34 127.0.0.1",
                "loopback.example" => "127.0.0.1",
                "cloud.example" => "169.254.169.254",
                "intranet.example" => "10.1.2.3 10.1.2.4",
                "other.intranet.example" => "192.168.7.7",
                _ => "",
            };
            Ok(addresses.split_whitespace().map(|address| address.parse().unwrap()).collect())
        }
    }

    fn policy(server: &str) -> AddressPolicy {
        AddressPolicy::of_server(&Url::parse(server).unwrap(), Arc::new(Names))
    }

    #[test]
    fn a_server_leads_to_public_addresses_and_to_its_own_kind_alone() {
        let names =
            ["public.example", "loopback.example", "cloud.example", "intranet.example", "rebound.example"];
        for (server, reached) in [
            ("https://public.example/mcp", "public.example"),
            ("https://loopback.example/mcp", "public.example"),
            ("https://rebound.example/mcp", "public.example"),
            ("https://cloud.example/mcp", "public.example"),
            ("http://127.0.0.1:9/mcp", "public.example loopback.example rebound.example"),
            ("http://localhost:9/mcp", "public.example loopback.example rebound.example"),
            ("https://intranet.example/mcp", "public.example intranet.example"),
        ] {
            let policy = policy(server);
            let allowed: Vec<&str> =
                names.into_iter().filter(|name| policy.resolve_checked(name).is_ok()).collect();
            let wanted: Vec<&str> = names.into_iter().filter(|name| reached.contains(name)).collect();
            assert_eq!(allowed, wanted, "{server}");
        }
        assert!(policy("https://intranet.example").resolve_checked("other.intranet.example").is_ok());
    }

    #[test]
    fn literal_addresses_are_checked_without_a_resolver() {
        for (server, url, fine) in [
            ("https://public.example", "https://10.0.0.1", false),
            ("https://public.example", "https://127.0.0.1", false),
            ("https://public.example", "https://localhost", false),
            ("https://public.example", "https://x.localhost.", false),
            ("https://public.example", "https://[::ffff:127.0.0.1]", false),
            ("https://public.example", "https://2130706433", false),
            ("https://public.example", "https://93.184.216.34", true),
            ("http://127.0.0.1", "http://127.0.0.1:8", true),
            ("http://127.0.0.1", "https://10.0.0.1", false),
            ("http://127.0.0.1", "https://169.254.169.254", false),
            ("https://10.0.0.1", "https://192.168.0.1", true),
            ("https://10.0.0.1", "https://127.0.0.1", false),
        ] {
            let checked = policy(server).check_host(&Url::parse(url).unwrap());
            assert_eq!(checked.is_ok(), fine, "{server} {url}");
        }
    }
}
