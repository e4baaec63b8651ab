//! The proxy port of a command: it listens from the start, and its proxy starts with the first connection.
//!
//! Most commands never connect. The socket is created and bound once per namespace set, so that such a command costs two system calls: `listen` and
//! `shutdown`. Until the proxy runs, the kernel completes connections and queues them.

use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::error::SandboxError;
use crate::job::{Network, ServeProxy};
use crate::layer::{Layer, Layers};
use crate::namespaces::NamespaceSet;

/// Connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 128;

/// A proxy that starts with the first connection of its command.
pub(crate) struct LazyProxy<'a> {
    serve: &'a ServeProxy<'a>,
    /// Declared before the port: a proxy ends before its port is shut down, or it would accept the connections of the next command.
    running: Option<Box<dyn Send>>,
    port: ListeningPort<'a>,
}

impl<'a> LazyProxy<'a> {
    /// The proxy of a job, if it has one. Connections are queued from now on.
    pub(crate) fn of(network: &Network<'a>, cell: &'a NamespaceSet) -> Result<Option<Self>, SandboxError> {
        let serve = match network {
            Network::None => return Ok(None),
            Network::Proxied(serve) => *serve,
        };
        let Some(socket) = cell.proxy_port() else {
            let missing = Layers::NONE.with(Layer::NetworkNamespace);
            let why = "a proxy needs a network namespace".to_owned();
            return Err(SandboxError::Missing { missing, why });
        };
        let port = ListeningPort::open(cell, socket)
            .map_err(SandboxError::system("there is no way to listen in the sandbox"))?;
        Ok(Some(Self { serve, running: None, port }))
    }

    /// The socket to wait for, until the proxy has started. Readable means that something connected.
    pub(crate) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.running.is_none().then(|| self.port.socket.as_fd())
    }

    /// Starts the proxy.
    pub(crate) fn start(&mut self) -> Result<(), SandboxError> {
        let failed = |source| SandboxError::System { what: "the proxy cannot be started", source };
        let listener = self.port.socket.try_clone().map_err(failed)?;
        self.running = Some((self.serve)(TcpListener::from(listener)).map_err(failed)?);
        Ok(())
    }
}

/// A proxy port while it listens.
struct ListeningPort<'a> {
    cell: &'a NamespaceSet,
    socket: &'a OwnedFd,
}

impl<'a> ListeningPort<'a> {
    fn open(cell: &'a NamespaceSet, socket: &'a OwnedFd) -> Result<Self, Errno> {
        cell.is_listening.store(true, Ordering::Release);
        rustix::net::listen(socket, BACKLOG)?;
        Ok(Self { cell, socket })
    }
}

impl Drop for ListeningPort<'_> {
    /// `shutdown` ends listening and resets what was queued and never accepted, also where a process that is just being forked holds a duplicate. The
    /// socket stays bound, so that the next command can listen again.
    fn drop(&mut self) {
        if rustix::net::shutdown(self.socket, Shutdown::Both).is_ok() {
            self.cell.is_listening.store(false, Ordering::Release);
        }
    }
}
