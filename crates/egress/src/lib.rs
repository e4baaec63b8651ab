//! The one way out of a sandbox.
//!
//! A command that declares `network: [example.com]` runs in a network namespace that holds nothing but a
//! listening socket. This crate serves that socket: it speaks HTTP `CONNECT`, plain HTTP proxying and SOCKS5
//! on one port, compares what is asked for with the declared entries, and dials from outside on the command's
//! behalf. The command never resolves a name itself, so nothing leaves by DNS either, but for questions about
//! names that are allowed.
//!
//! The order is fixed by types: [`NetworkAllowlist::admit`] makes the [`AdmittedHost`] that may be resolved,
//! [`AdmittedHost::check_addresses`] makes the [`Destination`] that may be dialled, and nothing else is ever dialled. A
//! name is resolved once, so that a second answer cannot lead elsewhere than the first, which was judged.
//!
//! A request that the gate makes itself goes by the same rules: [`locate`] says where to.
//!
//! What this crate refuses to know: namespaces and processes (it is handed a socket), tools and callers (it
//! is handed rules), and what goes through a tunnel, but for the server name at the beginning of TLS. It
//! reads no files, keeps no log, and decides nothing by a `Host` header.
//!
//! ```
//! use std::net::TcpListener;
//! use std::sync::Arc;
//! use toolgate_egress::{Direct, Egress, Rules, environment};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let rules = Rules::parse(&["example.com", "*.example.org:8443"])?;
//! let variables = environment(listener.local_addr()?.port(), &rules);
//! let egress = Egress::start(listener, rules, Arc::new(Direct), Box::new(|_event| {}))?;
//! // … the command runs with `variables` …
//! let report = egress.stop();
//! assert!(report.refused.is_empty());
//! # let _ = variables;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// What may be asked for.
mod host;
mod address;
mod allowlist_entry;
mod allowlist;
mod refusal_reason;

// What is asked for.
pub mod wire;

// One connection.
mod limits;
mod dial;
mod ledger;
mod relay;
mod client;
mod error_response;
mod tunnel;
mod forward;
mod proxy_connection;

// All of them.
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
