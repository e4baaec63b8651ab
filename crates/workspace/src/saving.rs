//! Waiting for the disk while something else is done.
//!
//! New content must lie on the disk before its name leads to it, and so must the record of the change. Neither waits for the other.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

/// How many contents of this process are to be saved.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Content that is to be saved.
#[derive(Debug)]
pub(crate) struct Saving {
    file: Arc<File>,
    /// Whoever waits for the disk meanwhile. When several contents are to be saved, others have enough to do while one waits, and a thread costs more
    /// than it gains.
    meanwhile: Option<JoinHandle<io::Result<()>>>,
}

impl Saving {
    /// Begins to save what a file holds.
    pub(crate) fn begin(file: &Arc<File>) -> Self {
        let is_alone = UNDER_WAY.fetch_add(1, Ordering::Relaxed) == 0;
        let save = || {
            let file = Arc::clone(file);
            thread::Builder::new().name("saving".to_owned()).spawn(move || file.sync_all()).ok()
        };
        Self { file: Arc::clone(file), meanwhile: is_alone.then(save).flatten() }
    }

    /// Waits until it is saved.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let saved = self.meanwhile.take().and_then(|thread| thread.join().ok());
        saved.unwrap_or_else(|| self.file.sync_all())
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
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
    }
}
