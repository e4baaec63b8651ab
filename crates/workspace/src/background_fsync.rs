//! Waiting for the disk while something else is done.
//!
//! New content must lie on the disk before its name leads to it, and so must the record of the change. Neither waits for the other.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The disk of this process.
static SYNC_THREAD: SyncThread = SyncThread::new(File::sync_all);

/// Somebody who waits for the disk, and how much there is to wait for.
#[derive(Debug)]
struct SyncThread {
    /// Waits until a file is saved.
    sync: fn(&File) -> io::Result<()>,
    /// How many contents are to be saved.
    in_flight: AtomicUsize,
    /// The way to whoever waits for the disk, once somebody had to: a thread costs about as much as a small file.
    sender: Mutex<Option<Sender<SyncRequest>>>,
}

/// What is to be saved, and who wants to know.
#[derive(Debug)]
struct SyncRequest {
    file: Arc<File>,
    done: SyncSender<io::Result<()>>,
    _in_flight: InFlightSync,
}

/// One of those that are under way.
#[derive(Debug)]
struct InFlightSync(&'static SyncThread);

impl Drop for InFlightSync {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Content that is to be saved.
#[derive(Debug)]
pub(crate) struct PendingSync {
    thread: &'static SyncThread,
    file: Arc<File>,
    /// What comes of it, where somebody else waits for the disk meanwhile. When several contents are to be saved, others have enough to do while one waits.
    result: Option<Receiver<io::Result<()>>>,
    /// Whoever was handed the content keeps account of it, also when nobody wants to know any more.
    _in_flight: Option<InFlightSync>,
}

impl PendingSync {
    /// Begins to save what a file holds.
    pub(crate) fn begin(file: &Arc<File>) -> Self {
        SYNC_THREAD.begin(file)
    }

    /// Waits until it is saved.
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

    /// Has a file saved by the thread that is there for it, which is started if it is not.
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
                // Whoever gave up does not want to know.
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

    /// A disk that no other test waits for.
    fn disk(save: fn(&File) -> io::Result<()>) -> &'static SyncThread {
        Box::leak(Box::new(SyncThread::new(save)))
    }

    /// A file, and what keeps it from being saved.
    fn pipe() -> (Arc<File>, PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        (Arc::new(File::from(OwnedFd::from(reader))), writer)
    }

    /// Saving takes until the other end of the pipe is closed.
    fn until_closed(mut file: &File) -> io::Result<()> {
        file.read(&mut [0]).map(|_| ())
    }

    /// A content that the disk does not get done with, handed over by somebody who gave up; it is done when the pipe is closed.
    fn given_up(disk: &'static SyncThread) -> PipeWriter {
        let (file, stuck) = pipe();
        let saving = disk.begin(&file);
        assert!(saving.result.is_some(), "it was handed over");
        stuck
    }

    #[test]
    fn what_could_not_be_saved_is_said_whoever_tried() {
        let disk = disk(|file| until_closed(file).and_then(|()| file.sync_all()));
        // A pipe cannot be saved.
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
