//! A client that changes its own files until its gate is gone, and records the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::json;
use toolgate_attack::{CHANGES, Change};

use crate::gate::{Client, refusal};
use crate::place::Place;

/// The version that a call should produce; `None` for a read-only call.
pub(crate) type Step = Option<(Change, u64)>;

/// The log of a client.
#[derive(Default)]
pub(crate) struct Diary {
    /// Every call that was started, by its id: the version it should produce.
    pub(crate) begun: BTreeMap<String, Step>,
    /// Every call that was answered: whether it succeeded.
    pub(crate) answered: BTreeMap<String, Result<(), String>>,
    /// Whether the power was cut during the load.
    pub(crate) has_lost_power: bool,
}

/// A running client.
pub(crate) struct Load {
    thread: JoinHandle<Diary>,
    ends: Arc<AtomicBool>,
    has_lost_power: Arc<AtomicBool>,
}

impl Load {
    /// Starts making calls whose ids begin with `name`, over files of `writer`. The gate has recovered by then.
    pub(crate) fn begin(mut client: Client, place: &Place, writer: &'static str, name: String) -> Self {
        let (workspace, ends) = (place.settings.workspace.clone(), Arc::new(AtomicBool::new(false)));
        let has_lost_power = Arc::new(AtomicBool::new(false));
        let (ended, powerless) = (Arc::clone(&ends), Arc::clone(&has_lost_power));
        let work = move || {
            let (mut diary, mut number) = (Diary::default(), 0_u64);
            let mut versions = CHANGES.map(|change| change.version(&workspace, writer));
            while !ended.load(Ordering::Relaxed) {
                for (change, version) in CHANGES.into_iter().zip(&mut versions) {
                    number += 1;
                    let id = format!("{name}-{number}");
                    let (tool, arguments, leads_to) = match number % 8 {
                        7 => ("run_command", json!({"command": "true"}), None),
                        3 => ("list_directory", json!({"path": "."}), None),
                        _ => {
                            let (tool, arguments) = change.call(writer, *version);
                            (tool, arguments, Some((change, *version + 1)))
                        }
                    };
                    diary.begun.insert(id.clone(), leads_to);
                    let Ok(result) = client.call(&id, tool, arguments) else { return diary };
                    let outcome = refusal(&result).map_or(Ok(()), Err);
                    *version += u64::from(outcome.is_ok() && leads_to.is_some());
                    diary.has_lost_power = powerless.load(Ordering::SeqCst);
                    // After a power cut a machine answers nothing. That a gate outlives its filesystem for a moment is an artefact of the ioctl, and
                    // so is it that ext4 then confirms an `fdatasync` whose extents it did not convert.
                    if !(diary.has_lost_power && outcome.is_ok()) {
                        diary.answered.insert(id, outcome);
                    }
                }
            }
            diary
        };
        Self { thread: std::thread::spawn(work), ends, has_lost_power }
    }

    /// Called right before the power is cut.
    pub(crate) fn loses_power(&self) {
        self.has_lost_power.store(true, Ordering::SeqCst);
    }

    /// Waits until its gate is gone.
    pub(crate) fn gone(self) -> Diary {
        self.thread.join().unwrap()
    }

    /// Ends after the call in flight.
    pub(crate) fn end(self) -> Diary {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
