//! Hosts that were asked for and refused: whoever set up the gate is told, because callers only see that it is not for them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// More names than this are made up by somebody.
const MOST: usize = 16;
/// No name of a host is longer.
const LONGEST: usize = 253;

/// Who is told. Each name is told once, and only so many.
#[derive(Clone)]
pub struct RefusedHosts {
    tell: Arc<dyn Fn(&str) + Send + Sync>,
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl RefusedHosts {
    /// Tells what was asked for, without a port.
    #[must_use]
    pub fn told_to(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell), told: Arc::default() }
    }

    pub(super) fn note(&self, host: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = told.len() < MOST && host.len() <= LONGEST && told.insert(host.to_owned());
        drop(told);
        if is_new {
            (self.tell)(host);
        }
    }
}

/// Nobody is told.
impl Default for RefusedHosts {
    fn default() -> Self {
        Self::told_to(|_| {})
    }
}

impl fmt::Debug for RefusedHosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RefusedHosts(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_told_once_and_not_without_end() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hosts = RefusedHosts::told_to({
            let heard = Arc::clone(&heard);
            move |host| heard.lock().unwrap().push(host.to_owned())
        });
        hosts.note(&"x".repeat(LONGEST + 1));
        for number in (0..100).chain(0..100) {
            hosts.note(&format!("h{number}.example"));
        }
        let heard = heard.lock().unwrap();
        assert_eq!((heard.len(), heard[0].as_str()), (MOST, "h0.example"));
    }
}
