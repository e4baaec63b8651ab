//! Work whose duration an untrusted server controls.
//!
//! Validating the output of an MCP server's tool depends on a schema and a value that the same server wrote, so it can take arbitrarily long. Such a
//! check runs on a thread of its own: no other call waits for it, its own call waits only until its deadline, and at most one runs per check (single
//! flight), so that repeated calls cannot exhaust the threads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;
use toolgate_types::{Cancellation, CancellationReason, ErrorCode, Failure};

/// How often the deadline and the cancellation are polled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// At most one thread per check.
pub(crate) type SingleFlight = Arc<Mutex<()>>;

/// Runs the work on its own thread and waits until the deadline of the call. Work that is abandoned keeps the single-flight lock until it ends.
pub(crate) async fn run_on_dedicated_thread<Output: Send + 'static>(
    turn: &SingleFlight,
    stop: &Cancellation,
    cancelled: &CancellationToken,
    work: impl FnOnce() -> Output + Send + 'static,
) -> Result<Output, Failure> {
    let done = async {
        let turn = Arc::clone(turn).lock_owned().await;
        let (tell, told) = oneshot::channel();
        let thread = std::thread::Builder::new().name("checking".to_owned()).spawn(move || {
            let _turn = turn;
            // The call may have ended in the meantime.
            let _ = tell.send(work());
        });
        match thread {
            Ok(_) => told.await.map_err(|_| worker_failed("the check ended unexpectedly")),
            Err(error) => Err(worker_failed(&error.to_string())),
        }
    };
    let mut done = std::pin::pin!(done);
    loop {
        tokio::select! {
            biased;
            done = &mut done => return done,
            () = cancelled.cancelled() => return Err(deadline_exceeded(CancellationReason::Cancelled)),
            () = tokio::time::sleep(CANCEL_POLL_INTERVAL) => stop.check().map_err(deadline_exceeded)?,
        }
    }
}

fn worker_failed(note: &str) -> Failure {
    Failure::new(ErrorCode::Internal, "it could not be checked whether the values of this call fit")
        .operator_note(note)
}

fn deadline_exceeded(reason: CancellationReason) -> Failure {
    match reason {
        CancellationReason::Cancelled => Failure::new(ErrorCode::Cancelled, "the call was cancelled"),
        CancellationReason::Deadline => Failure::new(
            ErrorCode::Timeout,
            "checking the values of this call against the tool's schema took too long",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn run<Output>(future: impl Future<Output = Output>) -> Output {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn work_is_done_elsewhere_and_a_panic_is_a_failure() {
        let (turn, here) = (SingleFlight::default(), std::thread::current().id());
        let (stop, token) = (Cancellation::never(), CancellationToken::new());
        assert!(
            run(run_on_dedicated_thread(&turn, &stop, &token, move || std::thread::current().id() != here))
                .unwrap()
        );
        let failure = run(run_on_dedicated_thread(&turn, &stop, &token, || panic!("on purpose")))
            .map(|(): ()| ())
            .unwrap_err();
        assert_eq!(failure.code, ErrorCode::Internal);
        assert_eq!(
            run(run_on_dedicated_thread(&turn, &stop, &token, || 5)),
            Ok(5),
            "a turn ends with a panic too"
        );
    }

    #[test]
    fn a_call_ends_though_its_work_does_not_and_others_wait_for_their_turn() {
        let (turn, token) = (SingleFlight::default(), CancellationToken::new());
        let (release, held) = mpsc::channel::<()>();
        let past = Cancellation::new(Some(Instant::now()), || false);
        let failure = run(run_on_dedicated_thread(&turn, &past, &token, move || held.recv())).unwrap_err();
        assert_eq!(failure.code, ErrorCode::Timeout);
        let interrupted = Cancellation::new(None, || true);
        assert_eq!(
            run(run_on_dedicated_thread(&turn, &interrupted, &token, || ())).unwrap_err().code,
            ErrorCode::Cancelled
        );
        token.cancel();
        assert_eq!(
            run(run_on_dedicated_thread(&turn, &Cancellation::never(), &token, || ())).unwrap_err().code,
            ErrorCode::Cancelled
        );
        release.send(()).unwrap();
        assert_eq!(
            run(run_on_dedicated_thread(&turn, &Cancellation::never(), &CancellationToken::new(), || 7)),
            Ok(7)
        );
    }
}
