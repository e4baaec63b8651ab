//! The network allowlist of a command.
//!
//! | entry | means |
//! |---|---|
//! | `example.com` | this name, on ports 443 and 80 |
//! | `*.example.com` | every name below it, not itself |
//! | `example.com:8443` | this port only |
//! | `203.0.113.7`, `[2606:4700::1]:443` | this address |
//! | `10.1.0.0/16`, `[fd12::/64]:5432` | every address of this network |
//! | `localhost:3000` | this machine's own 127.0.0.1 and ::1 |
//! | `public` | every name and address of the internet, on ports 443 and 80; no private address |
//!
//! A name allows only public addresses. If it resolves to a private one, that address or network needs an entry too, so that the owner of an allowed
//! name's DNS cannot point it at the internal network (DNS rebinding). A cloud metadata address must be listed itself; a network around it does not
//! allow it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::address::AddressClass;
use crate::allowlist_entry::{AllowedHost, AllowlistEntry};
pub use crate::allowlist_entry::{AllowlistError, EntryProblem};
use crate::host::Host;
use crate::refusal_reason::RefusalReason;

/// What `localhost` stands for. DNS is never queried for it.
const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// The hosts and ports that one command may reach. Without entries, none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkAllowlist {
    entries: Vec<AllowlistEntry>,
}

impl NetworkAllowlist {
    /// Parses the entries of `network:`.
    ///
    /// # Errors
    /// The first entry that is not one of the forms above, and what to write instead.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, AllowlistError> {
        let entries = entries.iter().map(|entry| AllowlistEntry::parse(entry.as_ref()));
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }

    /// The same with further entries that a person added for one command. Each must be one public name or address.
    ///
    /// # Errors
    /// The first entry that is malformed, or is a wildcard, a network, this machine or an address that is not public.
    pub fn with_public_hosts<S: AsRef<str>>(&self, entries: &[S]) -> Result<Self, AllowlistError> {
        let public = |entry: &S| {
            let parsed = AllowlistEntry::parse(entry.as_ref())?;
            let is_one_public_host = match &parsed.host {
                AllowedHost::Name(_) => true,
                AllowedHost::Address(address) => AddressClass::of(*address) == AddressClass::Public,
                AllowedHost::Subdomains(_)
                | AllowedHost::Network { .. }
                | AllowedHost::Localhost
                | AllowedHost::Public => false,
            };
            if is_one_public_host { Ok(parsed) } else { Err(AllowlistError::not_public(entry.as_ref())) }
        };
        let added: Vec<AllowlistEntry> = entries.iter().map(public).collect::<Result<_, _>>()?;
        Ok(Self { entries: self.entries.iter().cloned().chain(added).collect() })
    }

    /// Whether no host may be reached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first decision, before DNS resolution: may this host be requested at all?
    ///
    /// # Errors
    /// When no entry names it.
    pub fn admit(&self, host: Host, port: u16) -> Result<AdmittedHost<'_>, RefusalReason> {
        match &host {
            Host::Name(name) if self.allows_name(name, port) => Ok(AdmittedHost { rules: self, host, port }),
            Host::Name(_) => Err(RefusalReason::NotListed),
            Host::Address(address) if self.allows_address(*address, port) => {
                Ok(AdmittedHost { rules: self, host, port })
            }
            Host::Address(address) => match AddressClass::of(*address) {
                AddressClass::Public => Err(RefusalReason::NotListed),
                class => Err(RefusalReason::Address(class)),
            },
        }
    }

    /// Whether an entry matches this host name (lower case, no trailing dot) and port.
    pub(crate) fn allows_name(&self, name: &str, port: u16) -> bool {
        self.hosts_on_port(port).any(|what| match what {
            AllowedHost::Name(listed) => listed == name,
            AllowedHost::Subdomains(suffix) => name.ends_with(suffix),
            AllowedHost::Localhost => name == "localhost",
            AllowedHost::Public => name != "localhost",
            AllowedHost::Address(_) | AllowedHost::Network { .. } => false,
        })
    }

    /// Whether an entry lists this address, or a network that contains it where that suffices.
    fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        let class = AddressClass::of(address);
        class != AddressClass::Never
            && self.hosts_on_port(port).any(|what| match what {
                AllowedHost::Address(listed) => *listed == address,
                AllowedHost::Network { base, prefix } => {
                    class != AddressClass::Metadata && within(address, *base, *prefix)
                }
                AllowedHost::Localhost => LOCALHOST.contains(&address),
                AllowedHost::Public => class == AddressClass::Public,
                AllowedHost::Name(_) | AllowedHost::Subdomains(_) => false,
            })
    }

    /// Whether an entry concerns the host's own loopback addresses.
    pub(crate) fn allows_loopback(&self) -> bool {
        self.entries.iter().any(|entry| match &entry.host {
            AllowedHost::Localhost => true,
            AllowedHost::Address(address) => address.is_loopback(),
            AllowedHost::Network { base, .. } => base.is_loopback(),
            AllowedHost::Name(_) | AllowedHost::Subdomains(_) | AllowedHost::Public => false,
        })
    }

    fn hosts_on_port(&self, port: u16) -> impl Iterator<Item = &AllowedHost> {
        self.entries.iter().filter(move |entry| entry.ports.contains(port)).map(|entry| &entry.host)
    }
}

/// A host matched by an entry. Its addresses are still to be checked.
#[derive(Clone, Debug)]
pub struct AdmittedHost<'rules> {
    rules: &'rules NetworkAllowlist,
    host: Host,
    port: u16,
}

impl AdmittedHost<'_> {
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The name to resolve; `None` if the addresses are known already.
    #[must_use]
    pub fn name_to_resolve(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) if name != "localhost" => Some(name),
            _ => None,
        }
    }

    /// The second decision: may these addresses be dialled? They are the resolved addresses of [`Self::name_to_resolve`], and are ignored if there is
    /// none. One forbidden address refuses them all: an honest name has no such mix.
    ///
    /// # Errors
    /// When there is no address, or one of them is not public and not listed.
    pub fn check_addresses(
        &self,
        resolved: &[IpAddr],
    ) -> Result<Destination, (RefusalReason, Option<IpAddr>)> {
        let addresses = match &self.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) if name == "localhost" => LOCALHOST.to_vec(),
            Host::Name(_) => resolved.to_vec(),
        };
        if addresses.is_empty() {
            return Err((RefusalReason::Unresolved, None));
        }
        match addresses.iter().find(|address| !self.may_dial(**address)) {
            Some(address) => Err((RefusalReason::Address(AddressClass::of(*address)), Some(*address))),
            None => Ok(Destination { addresses, port: self.port }),
        }
    }

    fn may_dial(&self, address: IpAddr) -> bool {
        AddressClass::of(address) == AddressClass::Public || self.rules.allows_address(address, self.port)
    }
}

/// Checked addresses. Only these are ever dialled, and no name is resolved a second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    addresses: Vec<IpAddr>,
    port: u16,
}

impl Destination {
    /// The addresses to try, in order.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().map(|address| SocketAddr::new(*address, self.port))
    }
}

/// Whether the first `prefix` bits are equal.
fn within(address: IpAddr, base: IpAddr, prefix: u32) -> bool {
    match (address, base) {
        (IpAddr::V4(address), IpAddr::V4(base)) => {
            let differing = address.to_bits() ^ base.to_bits();
            differing.leading_zeros() >= prefix
        }
        (IpAddr::V6(address), IpAddr::V6(base)) => {
            let differing = address.to_bits() ^ base.to_bits();
            differing.leading_zeros() >= prefix
        }
        _ => false,
    }
}
