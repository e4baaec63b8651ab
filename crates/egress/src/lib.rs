//! The egress proxy: the only network access of a sandbox.
//!
//! A command that declares `network: [example.com]` runs in a network namespace that contains only a listening socket. This crate serves that socket:
//! it speaks HTTP `CONNECT`, plain HTTP proxying and SOCKS5 on one port, checks requests against the declared entries, and dials from outside on the
//! command's behalf. The command never resolves a name itself, so DNS cannot exfiltrate data either, except by queries for allowed names.
//!
//! The order is enforced by types: [`NetworkAllowlist::admit`] returns the [`AdmittedHost`] that may be resolved, [`AdmittedHost::check_addresses`]
//! returns the [`Destination`] that may be dialled, and nothing else is ever dialled. A name is resolved once, so that a second answer cannot differ
//! from the one that was checked (DNS rebinding). Only where the network of the operator requires an HTTP proxy, which resolves names itself, is an
//! admitted host reached through that ([`ProxiedDialer`]).
//!
//! Requests of the gate itself follow the same rules, through [`resolve_allowed`].
//!
//! What this crate refuses to know: namespaces and processes (it is given a socket), tools and callers (it is given an allowlist), and the content of
//! a tunnel, except for the server name (SNI) of the TLS handshake. It reads no files, writes no log, and bases no decision about a proxy request on
//! its `Host` header.
//!
//! ```
//! use std::net::TcpListener;
//! use std::sync::Arc;
//! use toolgate_egress::{EgressProxy, NetworkAllowlist, SystemDialer, environment};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let rules = NetworkAllowlist::parse(&["example.com", "*.example.org:8443"])?;
//! let variables = environment(listener.local_addr()?.port(), &rules);
//! let egress = EgressProxy::start(listener, rules, Arc::new(SystemDialer), Box::new(|_event| {}))?;
//! // … the command runs with `variables` …
//! let report = egress.stop();
//! assert!(report.refused.is_empty());
//! # let _ = variables;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// What may be requested.
mod host;
mod address;
mod allowlist_entry;
mod allowlist;
mod refusal_reason;

// What is requested.
pub mod wire;

// One connection.
mod limits;
mod dial;
mod upstream;
mod ledger;
mod relay;
mod client;
mod error_response;
mod tunnel;
mod forward;
mod proxy_connection;

// The whole proxy.
mod proxy;
mod environment;

pub use address::AddressClass;
pub use allowlist::{AdmittedHost, AllowlistError, Destination, EntryProblem, NetworkAllowlist};
pub use dial::{Dial, DialFuture, Resolve, SystemDialer, resolve_allowed};
pub use environment::environment;
pub use host::{Host, HostError};
pub use ledger::{AllowedConnection, EgressEvent, EgressReport, Observer, Occurrences, RejectedConnection};
pub use limits::ProxyLimits;
pub use proxy::EgressProxy;
pub use refusal_reason::RefusalReason;
pub use upstream::{ProxiedDialer, UnusableProxy, UpstreamProxy};
