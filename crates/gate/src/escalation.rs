//! What a person may allow the retry of a command beyond the configuration.
//!
//! A command that was refused a host, ran out of time or did not find a path of the machine is remembered by its caller, its session, its tool's
//! definition and the digest of its arguments. If the same caller makes the same call again and a person is asked about it, the question offers each
//! missing thing as a choice of its own. Only that choice allows it, for this call or for the session; the gate itself never retries anything. What an
//! allowlist does not let a person open, such as a private address, is not remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolgate_policy::needs_question;
use toolgate_types::{ErrorCode, Escalation, Outcome, Sha256, ToolOutput};

use crate::caller::{AuthenticatedCaller, ToolHolder};
use crate::stages::Ready;

/// How many refused calls are remembered; the oldest are forgotten.
const MAX_REMEMBERED: usize = 256;

/// How many hosts a question offers. A command that asks for more is one that a person should look at.
const MAX_OFFERED_HOSTS: usize = 3;

/// How many hosts a person may allow for one session.
const MAX_SESSION_HOSTS: usize = 32;

/// How many sessions have hosts of their own; the oldest are forgotten.
const MAX_SESSIONS: usize = 256;

/// One thing that a person may allow beyond the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationOffer {
    /// Chosen by this: `host-1`, `host-1-session`, `time`, `directory-1`.
    pub id: String,
    /// What it allows.
    pub allows: Escalation,
    /// Whether it lasts for the session; else for this call.
    pub for_session: bool,
}

impl EscalationOffer {
    /// In words, for a person: `allow registry.npmjs.org for this call`.
    #[must_use]
    pub fn text(&self) -> String {
        let span = match self.for_session {
            true => "for every later command of this tool in this session",
            false => "for this call",
        };
        let Escalation { hosts, timeout, directories } = &self.allows;
        match (timeout, directories.as_slice()) {
            (Some(timeout), _) => format!("allow up to {} min {span}", timeout.as_secs().div_ceil(60)),
            (None, [directory, ..]) => format!("let it read {} {span}", directory.display()),
            (None, []) => format!("allow {} {span}", hosts.join(", ")),
        }
    }
}

/// The offers for a call that lacked these.
pub(crate) fn offers(lacked: &Escalation, may_last: bool) -> Vec<EscalationOffer> {
    let hosts = lacked.hosts.iter().take(MAX_OFFERED_HOSTS).zip(1..);
    let hosts = hosts.flat_map(|(host, number)| {
        let allows = Escalation { hosts: vec![host.clone()], ..Escalation::default() };
        let once = EscalationOffer { id: format!("host-{number}"), allows, for_session: false };
        let lasting =
            EscalationOffer { id: format!("host-{number}-session"), for_session: true, ..once.clone() };
        std::iter::once(once).chain(may_last.then_some(lasting))
    });
    let time = lacked.timeout.map(|timeout| EscalationOffer {
        id: "time".to_owned(),
        allows: Escalation { timeout: Some(timeout), ..Escalation::default() },
        for_session: false,
    });
    let directories = lacked.directories.iter().zip(1..).map(|(directory, number)| EscalationOffer {
        id: format!("directory-{number}"),
        allows: Escalation { directories: vec![directory.clone()], ..Escalation::default() },
        for_session: false,
    });
    hosts.chain(time).chain(directories).collect()
}

/// A call that a person may be asked to allow more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EscalatedCall {
    holder: ToolHolder,
    /// Digest of the tool's name and the arguments.
    arguments: Sha256,
}

impl EscalatedCall {
    pub(crate) fn new(who: &AuthenticatedCaller<'_>, definition: Sha256, arguments: Sha256) -> Self {
        Self { holder: ToolHolder::new(who, definition), arguments }
    }
}

/// What commands lacked, and what was allowed for sessions.
#[derive(Debug, Default)]
pub(crate) struct EscalationMemory(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    lacked: VecDeque<(EscalatedCall, Escalation)>,
    sessions: VecDeque<(ToolHolder, Vec<String>)>,
}

impl EscalationMemory {
    /// Remembers what a call lacked; nothing if it lacked nothing.
    pub(crate) fn remember(&self, call: EscalatedCall, lacked: Escalation) {
        let mut state = self.lock();
        state.lacked.retain(|(known, _)| *known != call);
        if lacked == Escalation::default() {
            return;
        }
        state.lacked.push_back((call, lacked));
        if state.lacked.len() > MAX_REMEMBERED {
            state.lacked.pop_front();
        }
    }

    /// What the last such call lacked.
    pub(crate) fn lacked(&self, call: &EscalatedCall) -> Option<Escalation> {
        self.lock().lacked.iter().find(|(known, _)| known == call).map(|(_, lacked)| lacked.clone())
    }

    /// What was allowed in this session.
    pub(crate) fn allowed(&self, call: &EscalatedCall) -> Escalation {
        let state = self.lock();
        let known = state.sessions.iter().find(|(holder, _)| *holder == call.holder);
        let hosts = known.map(|(_, hosts)| hosts.clone()).unwrap_or_default();
        Escalation { hosts, ..Escalation::default() }
    }

    /// Allows hosts for the session of this call.
    pub(crate) fn allow(&self, call: &EscalatedCall, hosts: &[String]) {
        let mut state = self.lock();
        let place = state.sessions.iter().position(|(holder, _)| *holder == call.holder);
        let mut known =
            place.and_then(|place| state.sessions.remove(place)).map(|(_, hosts)| hosts).unwrap_or_default();
        for host in hosts {
            if !known.contains(host) && known.len() < MAX_SESSION_HOSTS {
                known.push(host.clone());
            }
        }
        state.sessions.push_back((call.holder.clone(), known));
        if state.sessions.len() > MAX_SESSIONS {
            state.sessions.pop_front();
        }
    }

    /// Every update is complete once the lock is released, so poisoning is ignored.
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers what one call lacked, also after its answer: a command in the background is refused its hosts later.
#[derive(Clone, Debug)]
pub struct LackReporter {
    memory: Arc<EscalationMemory>,
    call: EscalatedCall,
    /// Whether a person is asked about the call.
    is_guarded: bool,
}

impl LackReporter {
    /// Remembers what the call lacked; returns whether the same call again asks a person for it.
    pub fn report(&self, lacked: Escalation) -> bool {
        let asks = self.is_guarded && lacked != Escalation::default();
        self.memory.remember(self.call.clone(), lacked);
        asks
    }
}

/// What a call may turn out to lack.
pub(crate) struct PossibleLacks {
    reporter: LackReporter,
    longer_timeout: Option<Duration>,
    outlives_call: bool,
}

impl PossibleLacks {
    /// Of a call that is about to run; `None` if a person allows such calls nothing more.
    pub(crate) fn of(ready: &mut Ready<'_>, memory: &Arc<EscalationMemory>) -> Option<Self> {
        let (tool, arguments) = (&ready.tool.tool, ready.approved.arguments());
        let reporter = LackReporter {
            memory: Arc::clone(memory),
            call: ready.escalated.clone()?,
            is_guarded: needs_question(ready.context.caller.trust, tool.spec().class),
        };
        let longer_timeout = tool.longer_timeout(arguments, &ready.context);
        let outlives_call = tool.outlives_call(arguments);
        ready.context.lacks = Some(reporter.clone());
        Some(Self { reporter, longer_timeout, outlives_call })
    }

    /// Remembers what the call lacked, and reports to its caller that the same call asks a person for it.
    pub(crate) fn note(self, outcome: &mut Outcome) {
        let lacked = match &outcome {
            // The command may have ended already, and reported what it lacked.
            Outcome::Done(_) if self.outlives_call => return,
            Outcome::Done(output) => output.lacked.clone(),
            Outcome::Failed { failure, .. } if failure.code == ErrorCode::Timeout => {
                Escalation { timeout: self.longer_timeout, ..Escalation::default() }
            }
            Outcome::Failed { .. } => Escalation::default(),
        };
        if self.reporter.report(lacked)
            && let Outcome::Done(ToolOutput { text, text_field: None, .. }) = outcome
            && !text.is_empty()
        {
            let hint = "\n[the same call again asks a person whether it may reach what it was refused]";
            *text = format!("{text}{hint}").into();
        }
    }
}

/// The sum of two escalations.
pub(crate) fn joined(one: Escalation, other: Escalation) -> Escalation {
    Escalation {
        hosts: union(one.hosts, other.hosts),
        timeout: one.timeout.max(other.timeout),
        directories: union(one.directories, other.directories),
    }
}

fn union<T: PartialEq>(mut one: Vec<T>, other: Vec<T>) -> Vec<T> {
    for item in other {
        if !one.contains(&item) {
            one.push(item);
        }
    }
    one
}

/// As the record names it: the hosts, the time in seconds, and the directories.
pub(crate) fn recorded(escalation: &Escalation) -> Vec<String> {
    let time = |timeout: Duration| format!("{} s", timeout.as_secs());
    let directories = escalation.directories.iter().map(|directory| format!("read {}", directory.display()));
    escalation.hosts.iter().cloned().chain(escalation.timeout.map(time)).chain(directories).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(hosts: &[&str]) -> Escalation {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Escalation { hosts, ..Escalation::default() }
    }

    #[test]
    fn every_offer_is_one_line_with_one_thing() {
        let lacked = Escalation {
            timeout: Some(Duration::from_secs(600)),
            directories: vec!["/home/me/other".into()],
            ..lacking(&["a.example", "b.example"])
        };
        let texts =
            |may_last| offers(&lacked, may_last).iter().map(EscalationOffer::text).collect::<Vec<_>>();
        assert_eq!(
            texts(true),
            [
                "allow a.example for this call",
                "allow a.example for every later command of this tool in this session",
                "allow b.example for this call",
                "allow b.example for every later command of this tool in this session",
                "allow up to 10 min for this call",
                "let it read /home/me/other for this call"
            ]
        );
        assert_eq!(texts(false).len(), 4, "without a session nothing lasts");
        let forty: Vec<String> = (0..40).map(|number| format!("h{number}.example")).collect();
        let forty = offers(&Escalation { hosts: forty, ..Escalation::default() }, false);
        assert_eq!(forty.len(), MAX_OFFERED_HOSTS, "forty hosts are not forty lines");
        assert_eq!(offers(&Escalation::default(), true), []);
    }

    #[test]
    fn what_is_remembered_belongs_to_one_call_of_one_caller_and_is_bounded() {
        let memory = EscalationMemory::default();
        let call = |subject: &str, arguments: usize| EscalatedCall {
            holder: ToolHolder::of_test(subject),
            arguments: Sha256::of(arguments.to_string().as_bytes()),
        };
        memory.remember(call("me", 0), lacking(&["a.example"]));
        assert_eq!(memory.lacked(&call("me", 0)), Some(lacking(&["a.example"])));
        assert_eq!((memory.lacked(&call("you", 0)), memory.lacked(&call("me", 1))), (None, None));
        memory.allow(&call("me", 0), &["a.example".to_owned()]);
        assert_eq!(memory.allowed(&call("me", 1)), lacking(&["a.example"]));
        assert_eq!(memory.allowed(&call("you", 0)), Escalation::default());
        memory.remember(call("me", 0), Escalation::default());
        assert_eq!(memory.lacked(&call("me", 0)), None, "a call that lacked nothing is forgotten");
        for number in 0..2 * MAX_REMEMBERED {
            memory.remember(call("me", number), lacking(&["a.example"]));
            memory.allow(&call(&number.to_string(), 0), &[format!("{number}.example")]);
            memory.allow(&call("me", 0), &[format!("{number}.example")]);
        }
        let state = memory.lock();
        assert_eq!((state.lacked.len(), state.sessions.len()), (MAX_REMEMBERED, MAX_SESSIONS));
        assert!(state.sessions.iter().all(|(_, hosts)| hosts.len() <= MAX_SESSION_HOSTS));
    }
}
