//! The proxy of one call: started with it, stopped with it.

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

/// Maximum number of threads waiting for the system's resolver. They exist only during a lookup.
const MAX_RESOLVER_THREADS: usize = 8;
/// Pause after a failed `accept`, so that the loop does not spin while descriptors are exhausted (`EMFILE`).
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A running proxy. One thread serves all its connections. Dropping or stopping it cuts them all.
#[must_use = "a proxy that is dropped serves nobody"]
pub struct EgressProxy {
    state: Arc<ProxyState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EgressProxy {
    /// Serves the connections of a listening socket, which may be in another network namespace than the dialer.
    ///
    /// # Errors
    /// When no thread or event queue can be created.
    pub fn start(
        listener: TcpListener,
        rules: NetworkAllowlist,
        dialer: Arc<dyn Dial>,
        observer: Observer,
    ) -> io::Result<Self> {
        Self::start_with_limits(ProxyLimits::default(), listener, rules, dialer, observer)
    }

    /// Like [`EgressProxy::start`], with other limits.
    ///
    /// # Errors
    /// When no thread or event queue can be created.
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

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> EgressReport {
        self.state.ledger.report()
    }

    /// Cuts every connection, and returns the report.
    #[must_use = "the report is the only thing that is left"]
    pub fn stop(mut self) -> EgressReport {
        self.shut_down();
        self.report()
    }

    fn shut_down(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panicked thread has dropped its connections too.
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

/// Serves until the sender of `stopped` is dropped. A pending resolver thread is not waited for.
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
