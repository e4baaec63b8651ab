//! fsync in the background.
//!
//! New content must be on disk before its name refers to it, and so must the journal's intent. Both are written in parallel.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The fsync thread of this process.
static SYNC_THREAD: SyncThread = SyncThread::new(File::sync_all);

/// A thread that calls `fsync`, and how much it has to do.
#[derive(Debug)]
struct SyncThread {
    /// `File::sync_all`, or a substitute in tests.
    sync: fn(&File) -> io::Result<()>,
    /// How many files are to be synced.
    in_flight: AtomicUsize,
    /// The channel to the thread, which is started on first use: starting one costs about as much as a small file.
    sender: Mutex<Option<Sender<SyncRequest>>>,
}

/// A file to be synced, and the channel for the result.
#[derive(Debug)]
struct SyncRequest {
    file: Arc<File>,
    done: SyncSender<io::Result<()>>,
    _in_flight: InFlightSync,
}

/// Counts one file as in flight until it is dropped.
#[derive(Debug)]
struct InFlightSync(&'static SyncThread);

impl Drop for InFlightSync {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file whose content is to be synced.
#[derive(Debug)]
pub(crate) struct PendingSync {
    thread: &'static SyncThread,
    file: Arc<File>,
    /// The result, if the thread syncs the file. With several syncs in flight only the first uses the thread: the callers of the others block in
    /// parallel anyway.
    result: Option<Receiver<io::Result<()>>>,
    /// The count of a file that is synced inline. A request to the thread holds its own, also after its caller has given up.
    _in_flight: Option<InFlightSync>,
}

impl PendingSync {
    /// Starts syncing a file.
    pub(crate) fn begin(file: &Arc<File>) -> Self {
        SYNC_THREAD.begin(file)
    }

    /// Waits until it is synced.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let saved = self.result.take().and_then(|saved| saved.recv().ok());
        saved.unwrap_or_else(|| (self.thread.sync)(&self.file))
    }
}

impl SyncThread {
    const fn new(sync: fn(&File) -> io::Result<()>) -> Self {
        Self { sync, in_flight: AtomicUsize::new(0), sender: Mutex::new(None) }
    }

    fn begin(&'static self, file: &Arc<File>) -> PendingSync {
        let is_alone = self.in_flight.fetch_add(1, Ordering::Relaxed) == 0;
        let (file, under_way) = (Arc::clone(file), InFlightSync(self));
        let (meanwhile, under_way) = match is_alone {
            true => (self.enqueue(Arc::clone(&file), under_way), None),
            false => (None, Some(under_way)),
        };
        PendingSync { thread: self, file, result: meanwhile, _in_flight: under_way }
    }

    /// Sends a file to the thread, which is started if it is not running.
    fn enqueue(&self, file: Arc<File>, under_way: InFlightSync) -> Option<Receiver<io::Result<()>>> {
        let (saved, result) = sync_channel(1);
        let mut content = SyncRequest { file, done: saved, _in_flight: under_way };
        let mut saver = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*saver {
            match sender.send(content) {
                Ok(()) => return Some(result),
                Err(SendError(back)) => content = back,
            }
        }
        let (sender, contents) = channel::<SyncRequest>();
        let save = self.sync;
        let save_all = move || {
            for SyncRequest { file, done: saved, _in_flight: under_way } in contents {
                let done = save(&file);
                drop((file, under_way));
                // The caller may have given up.
                let _ = saved.send(done);
            }
        };
        thread::Builder::new().name("saving".to_owned()).spawn(save_all).ok()?;
        sender.send(content).ok()?;
        *saver = Some(sender);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read as _};
    use std::os::fd::OwnedFd;

    use super::*;

    /// A sync thread that no other test uses.
    fn disk(save: fn(&File) -> io::Result<()>) -> &'static SyncThread {
        Box::leak(Box::new(SyncThread::new(save)))
    }

    /// A file, and the writer that blocks its sync.
    fn pipe() -> (Arc<File>, PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        (Arc::new(File::from(OwnedFd::from(reader))), writer)
    }

    /// Syncing blocks until the other end of the pipe is closed.
    fn until_closed(mut file: &File) -> io::Result<()> {
        file.read(&mut [0]).map(|_| ())
    }

    /// A sync that blocks until the pipe is closed, and whose caller has given up.
    fn given_up(disk: &'static SyncThread) -> PipeWriter {
        let (file, stuck) = pipe();
        let saving = disk.begin(&file);
        assert!(saving.result.is_some(), "it was handed over");
        stuck
    }

    #[test]
    fn what_could_not_be_saved_is_said_whoever_tried() {
        let disk = disk(|file| until_closed(file).and_then(|()| file.sync_all()));
        // `fsync` fails on a pipe.
        let (unsaveable, writer) = pipe();
        let saveable = Arc::new(tempfile::tempfile().unwrap());
        let (first, second, third) =
            (disk.begin(&unsaveable), disk.begin(&unsaveable), disk.begin(&saveable));
        assert!(first.result.is_some(), "nobody else is under way");
        assert!(second.result.is_none() && third.result.is_none(), "others are under way");
        drop(writer);
        assert!(first.finish().is_err() && second.finish().is_err());
        third.finish().unwrap();
        let again = disk.begin(&saveable);
        assert!(again.result.is_some(), "nobody else is under way any more");
        again.finish().unwrap();
    }

    #[test]
    fn a_save_that_was_given_up_does_not_hold_up_the_next_one() {
        let disk = disk(until_closed);
        let stuck = given_up(disk);
        for _ in 0..2 {
            let (file, writer) = pipe();
            let next = disk.begin(&file);
            assert!(next.result.is_none(), "it stands in line behind what is stuck");
            drop(writer);
            next.finish().unwrap();
        }
        drop(stuck);
    }

    #[test]
    fn a_save_that_was_given_up_leaves_the_saver_to_the_next_one() {
        let disk = disk(until_closed);
        let stuck = given_up(disk);
        let (file, writer) = pipe();
        disk.in_flight.fetch_add(1, Ordering::Relaxed);
        let behind = disk.enqueue(file, InFlightSync(disk)).unwrap();
        drop((stuck, writer));
        behind.recv().expect("whoever saves is still there").unwrap();
        assert_eq!(disk.in_flight.load(Ordering::Relaxed), 0, "both were accounted for");
    }
}
