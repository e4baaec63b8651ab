//! Recording and replay.

use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use toolgate_llm::{StepEvent, StreamRecorder, Wire, provider, replay};

use crate::asking::{model, request, step, tools};
use crate::stream::fixture;
use crate::transport::{Do, KEY, chunk, endpoint, head, patient, raw};

/// A writer whose content can be read.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_recording_is_replayed_as_it_happened_and_holds_nothing_that_was_sent() {
    let recording = Shared::default();
    let recorder = StreamRecorder::new(recording.clone());
    let mut happened = Vec::new();
    for (wire, folder, name) in [
        (Wire::Anthropic, "anthropic", "one_call"),
        (Wire::Openai, "openai", "several_calls"),
        (Wire::OpenaiChat, "openai-chat", "one_call"),
        (Wire::Anthropic, "anthropic", "failed_overloaded"),
        (Wire::Anthropic, "anthropic", "garbled_json"),
    ] {
        // Chunks that also end within characters.
        let pieces: Vec<Do> = fixture(folder, name).chunks(7).map(chunk).collect();
        let doings = [vec![head()], pieces, vec![chunk(b""), Do::Close]].concat();
        let (address, _told) = raw(doings).await;
        let mut endpoint = endpoint(&address, patient());
        endpoint.recorder = Some(recorder.clone());
        let asked = provider(wire, endpoint, model("provider", "m"));
        happened.push(step(asked.as_ref(), request(&[], &tools())).await);
    }
    let written = String::from_utf8(recording.0.lock().unwrap().clone()).unwrap();
    assert!(!written.contains(KEY) && !written.contains("other-secret") && !written.contains("Be brief"));
    let replayed = replay(&written).unwrap();
    assert_eq!(replayed.len(), happened.len());
    for (replayed, happened) in replayed.into_iter().zip(happened) {
        match happened {
            Ok(events) => assert_eq!((replayed.events, replayed.failed), (events, None)),
            Err(failed) => assert_eq!(replayed.failed, Some(failed)),
        }
    }
    assert!(replay("{\"step\":1}").is_err() && replay("").unwrap().is_empty());
}

/// A disk that blocks until it is released.
struct Slow(Receiver<()>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let told = self.0.recv_timeout(Duration::from_secs(20));
        told.map(|()| bytes.len()).map_err(|_| std::io::Error::other("nobody else could go on"))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// On a single-threaded runtime, where a blocking write would stop every task.
#[tokio::test(flavor = "current_thread")]
async fn a_slow_disk_holds_up_nobody_else() {
    let (tell, told) = channel();
    let pieces: Vec<Do> = fixture("anthropic", "one_call").chunks(200).map(chunk).collect();
    let (address, _told) = raw([vec![head()], pieces, vec![chunk(b""), Do::Close]].concat()).await;
    let mut endpoint = endpoint(&address, patient());
    endpoint.recorder = Some(StreamRecorder::new(Slow(told)));
    let somebody_else = tokio::spawn(async move {
        loop {
            tokio::task::yield_now().await;
            if tell.send(()).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let asked = provider(Wire::Anthropic, endpoint, model("anthropic", "m"));
    let events = step(asked.as_ref(), request(&[], &tools())).await.unwrap();
    assert!(matches!(events.last(), Some(StepEvent::Finish { .. })));
    somebody_else.abort();
}

/// A disk that is full after some lines.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("it is full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_cannot_be_written_down_did_not_happen() {
    let bytes = fixture("anthropic", "one_call");
    for room in [0, 1] {
        let (address, _told) = raw(vec![head(), chunk(&bytes), chunk(b""), Do::Close]).await;
        let mut endpoint = endpoint(&address, patient());
        endpoint.recorder = Some(StreamRecorder::new(Full(room)));
        let asked = provider(Wire::Anthropic, endpoint, model("anthropic", "m"));
        let failed = step(asked.as_ref(), request(&[], &tools())).await.unwrap_err();
        assert_eq!(failed.to_string(), "the recording cannot be written: it is full");
    }
}
