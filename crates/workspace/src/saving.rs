//! Waiting for the disk while something else is done.
//!
//! New content must lie on the disk before its name leads to it, and so must the record of the change. Neither waits for the other.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How many contents of this process are to be saved.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// The way to whoever waits for the disk, once somebody had to: a thread costs about as much as a small file.
static SAVER: Mutex<Option<Sender<Content>>> = Mutex::new(None);

/// What is to be saved, and who wants to know.
struct Content {
    file: Arc<File>,
    saved: SyncSender<io::Result<()>>,
    _under_way: UnderWay,
}

/// One of those that are under way.
#[derive(Debug)]
struct UnderWay;

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Content that is to be saved.
#[derive(Debug)]
pub(crate) struct Saving {
    file: Arc<File>,
    /// What comes of it, where somebody else waits for the disk meanwhile. When several contents are to be saved, others have enough to do while one waits.
    meanwhile: Option<Receiver<io::Result<()>>>,
    /// Whoever was handed the content keeps account of it, also when nobody wants to know any more.
    _under_way: Option<UnderWay>,
}

impl Saving {
    /// Begins to save what a file holds.
    pub(crate) fn begin(file: &Arc<File>) -> Self {
        let is_alone = UNDER_WAY.fetch_add(1, Ordering::Relaxed) == 0;
        let (file, under_way) = (Arc::clone(file), UnderWay);
        match is_alone {
            true => Self { meanwhile: hand_over(Arc::clone(&file), under_way), file, _under_way: None },
            false => Self { file, meanwhile: None, _under_way: Some(under_way) },
        }
    }

    /// Waits until it is saved.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let saved = self.meanwhile.take().and_then(|saved| saved.recv().ok());
        saved.unwrap_or_else(|| self.file.sync_all())
    }
}

/// Has a file saved by the thread that is there for it, which is started if it is not.
fn hand_over(file: Arc<File>, under_way: UnderWay) -> Option<Receiver<io::Result<()>>> {
    let (saved, result) = sync_channel(1);
    let mut content = Content { file, saved, _under_way: under_way };
    let mut saver = SAVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*saver {
        match sender.send(content) {
            Ok(()) => return Some(result),
            Err(SendError(back)) => content = back,
        }
    }
    let (sender, contents) = channel::<Content>();
    let save = move || {
        for Content { file, saved, _under_way: under_way } in contents {
            let done = file.sync_all();
            drop((file, under_way));
            // Whoever gave up does not want to know.
            let _ = saved.send(done);
        }
    };
    thread::Builder::new().name("saving".to_owned()).spawn(save).ok()?;
    sender.send(content).ok()?;
    *saver = Some(sender);
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe cannot be saved.
    fn unsaveable() -> Arc<File> {
        let (reader, _) = io::pipe().unwrap();
        Arc::new(File::from(std::os::fd::OwnedFd::from(reader)))
    }

    #[test]
    fn what_could_not_be_saved_is_said_whoever_tried() {
        let saveable = Arc::new(tempfile::tempfile().unwrap());
        let (first, second, third) =
            (Saving::begin(&unsaveable()), Saving::begin(&unsaveable()), Saving::begin(&saveable));
        assert!(second.meanwhile.is_none() && third.meanwhile.is_none(), "others are under way");
        assert!(first.finish().is_err() && second.finish().is_err());
        third.finish().unwrap();
        let again = Saving::begin(&saveable);
        assert!(again.meanwhile.is_some(), "nobody else is under way");
        again.finish().unwrap();
    }
}
