//! Work whose duration an untrusted server controls.
//!
//! Validating the output of an MCP server's tool depends on a schema and a value that the same server wrote, so it can take arbitrarily long. Such a
//! check runs on a thread of its own: no other call waits for it, its own call waits only until its deadline, and at most one runs per check (single
//! flight), so that repeated calls cannot exhaust the threads.

use std::sync::Arc;

use tokio::sync::{Mutex, oneshot};
use toolgate_types::{CancellationReason, Deadline, ErrorCode, Failure};

/// At most one thread per check.
pub(crate) type SingleFlight = Arc<Mutex<()>>;

/// Runs the work on its own thread and waits until the deadline of the call. Work that is abandoned keeps the single-flight lock until it ends.
pub(crate) async fn run_on_dedicated_thread<Output: Send + 'static>(
    turn: &SingleFlight,
    deadline: &Deadline,
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
    deadline.wait(done).await.unwrap_or_else(|reason| Err(deadline_exceeded(reason)))
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
    use std::time::Duration;

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn run<Output>(future: impl Future<Output = Output>) -> Output {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn work_is_done_elsewhere_and_a_panic_is_a_failure() {
        let (turn, here) = (SingleFlight::default(), std::thread::current().id());
        let never = Deadline::never();
        assert!(
            run(run_on_dedicated_thread(&turn, &never, move || std::thread::current().id() != here)).unwrap()
        );
        let failure = run(run_on_dedicated_thread(&turn, &never, || panic!("on purpose")))
            .map(|(): ()| ())
            .unwrap_err();
        assert_eq!(failure.code, ErrorCode::Internal);
        assert_eq!(run(run_on_dedicated_thread(&turn, &never, || 5)), Ok(5), "a turn ends with a panic too");
    }

    #[test]
    fn a_call_ends_though_its_work_does_not_and_others_wait_for_their_turn() {
        let (turn, token) = (SingleFlight::default(), CancellationToken::new());
        let (release, held) = mpsc::channel::<()>();
        let past = Deadline::after(Duration::ZERO);
        let failure = run(run_on_dedicated_thread(&turn, &past, move || held.recv())).unwrap_err();
        assert_eq!(failure.code, ErrorCode::Timeout);
        token.cancel();
        for ended in [Deadline::never().with_signal(|| true), Deadline::never().with_cancellation(token)] {
            let failure = run(run_on_dedicated_thread(&turn, &ended, || ())).unwrap_err();
            assert_eq!(failure.code, ErrorCode::Cancelled);
        }
        release.send(()).unwrap();
        assert_eq!(run(run_on_dedicated_thread(&turn, &Deadline::never(), || 7)), Ok(7));
    }

    /// The clock of this test only advances when everything sleeps; polling every 50 ms would be late.
    #[tokio::test(start_paused = true)]
    async fn a_call_ends_at_its_deadline_and_not_at_a_poll_after_it() {
        let (release, held) = mpsc::channel::<()>();
        let (began, timeout) = (Instant::now(), Duration::from_millis(1_020));
        let turn = SingleFlight::default();
        let failure =
            run_on_dedicated_thread(&turn, &Deadline::after(timeout), move || held.recv()).await.unwrap_err();
        assert_eq!((failure.code, began.elapsed()), (ErrorCode::Timeout, timeout));
        drop(release);
    }
}
