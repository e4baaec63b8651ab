//! The proxy of one call: started with it, gone with it.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};

use crate::allowlist::NetworkAllowlist;
use crate::dial::Dial;
use crate::ledger::{EgressReport, Ledger, Observer};
use crate::limits::ProxyLimits;
use crate::proxy_connection::ProxyState;
use crate::refusal_reason::RefusalReason;

/// Threads that wait for the system's resolver, at most. They exist only while it is asked.
const MAX_RESOLVER_THREADS: usize = 8;
/// A pause after the system could not hand out a connection, lest the loop spin while descriptors are short.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A running proxy. One thread serves all its connections. Dropping it, like stopping it, cuts them all.
#[must_use = "a proxy that is dropped serves nobody"]
pub struct EgressProxy {
    state: Arc<ProxyState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EgressProxy {
    /// Serves the connections of a listening socket, which may live in another network namespace than the
    /// dialer.
    ///
    /// # Errors
    /// When the system has no thread or no event queue to give.
    pub fn start(
        listener: TcpListener,
        rules: NetworkAllowlist,
        dialer: Arc<dyn Dial>,
        observer: Observer,
    ) -> io::Result<Self> {
        Self::start_with_limits(ProxyLimits::default(), listener, rules, dialer, observer)
    }

    /// Like [`EgressProxy::start`], within other bounds.
    ///
    /// # Errors
    /// When the system has no thread or no event queue to give.
    pub fn start_with_limits(
        bounds: ProxyLimits,
        listener: TcpListener,
        rules: NetworkAllowlist,
        dialer: Arc<dyn Dial>,
        observer: Observer,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let ledger = Ledger::new(observer, bounds.max_total_bytes);
        let context = Arc::new(ProxyState { allowlist: rules, dialer, limits: bounds, ledger });
        let runtime = runtime()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&context);
        let thread = std::thread::Builder::new()
            .name("egress".to_owned())
            .spawn(move || serve_until(runtime, listener, shared, stopped))?;
        Ok(Self { state: context, stop: Some(stop), thread: Some(thread) })
    }

    /// What happened so far.
    #[must_use]
    pub fn report(&self) -> EgressReport {
        self.state.ledger.report()
    }

    /// Cuts every connection, and says what happened.
    #[must_use = "the report is the only thing that is left"]
    pub fn stop(mut self) -> EgressReport {
        self.shut_down();
        self.report()
    }

    fn shut_down(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has dropped its connections too.
            let _ = thread.join();
        }
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_RESOLVER_THREADS)
        .thread_keep_alive(Duration::from_millis(100))
        .thread_name("egress-resolve")
        .build()
}

/// Serves until the other end of `stopped` is gone. A resolver that is still being waited for is left to
/// itself.
fn serve_until(
    runtime: Runtime,
    listener: tokio::net::TcpListener,
    context: Arc<ProxyState>,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        tokio::select! {
            _ = stopped => {}
            () = accept(listener, context) => {}
        }
    });
    runtime.shutdown_background();
}

async fn accept(listener: tokio::net::TcpListener, context: Arc<ProxyState>) {
    let room = Arc::new(Semaphore::new(context.limits.max_connections));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            context.ledger.refused("", RefusalReason::TooManyConnections, None);
            continue;
        };
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            context.serve(stream).await;
            drop(place);
        });
    }
}
