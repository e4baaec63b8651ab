//! The order of messages: which message may follow which, and their positions. No I/O.

use std::collections::BTreeSet;

use toolgate_llm::{CallResult, Message, ModelCall};

/// A conversation in memory, as a model sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The front, if there is one, and every complete message after it.
    messages: Vec<Message>,
    /// How many messages the front replaces.
    replaced: Option<u64>,
    /// The calls of the last message, while some have no result.
    open: Vec<OpenCall>,
}

#[derive(Clone, Debug, PartialEq)]
struct OpenCall {
    call: ModelCall,
    result: Option<CallResult>,
}

/// Why something cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("{0} calls of the last message have no result yet")]
    Unanswered(usize),
    #[error("no call `{0}` waits for a result")]
    NotAsked(String),
    #[error("the call `{0}` has a result already")]
    AnsweredBefore(String),
    #[error("two calls of one message are called `{0}`")]
    SameName(String),
    #[error("the results are not those of the calls of the last message, in their order")]
    OtherResults,
    #[error("{0} messages cannot be replaced: there are {1}, and a call stays with its results")]
    Front(usize, usize),
    #[error("a message that stands for others can neither call nor answer")]
    FrontWithCalls,
}

/// Where a result is stored: the position of its message, and the index of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultPosition {
    pub(crate) position: u64,
    pub(crate) call: u64,
}

impl History {
    /// Starts with a message that replaces the first few.
    pub(crate) fn begin(front: Option<(u64, Message)>) -> Self {
        let (replaced, messages) = match front {
            Some((replaced, message)) => (Some(replaced), vec![message]),
            None => (None, Vec::new()),
        };
        Self { messages, replaced, open: Vec::new() }
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The position of the next message, counted from the very first.
    pub(crate) fn next(&self) -> u64 {
        self.position(self.messages.len())
    }

    /// The position of a message of the context, counted from the very first.
    fn position(&self, index: usize) -> u64 {
        let index = count(index);
        match self.replaced {
            Some(replaced) => replaced.saturating_add(index.saturating_sub(1)),
            None => index,
        }
    }

    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &ModelCall> {
        self.open.iter().filter(|open| open.result.is_none()).map(|open| &open.call)
    }

    /// The results that wait for others.
    pub(crate) fn known_results(&self) -> impl Iterator<Item = &CallResult> {
        self.open.iter().filter_map(|open| open.result.as_ref())
    }

    /// Whether a message may come next.
    pub(crate) fn check(&self, message: &Message) -> Result<(), OrderError> {
        match message {
            Message::Results { results } => self.check_results(results),
            _ if !self.open.is_empty() => Err(OrderError::Unanswered(self.unanswered().count())),
            Message::Assistant(said) => {
                let mut names = BTreeSet::new();
                let twice = said.calls().find(|call| !names.insert(call.id.as_str()));
                twice.map_or(Ok(()), |call| Err(OrderError::SameName(call.id.clone())))
            }
            Message::User { .. } => Ok(()),
        }
    }

    /// Results added together must answer every open call, in order.
    fn check_results(&self, results: &[CallResult]) -> Result<(), OrderError> {
        let untouched = self.open.iter().all(|open| open.result.is_none());
        let asked = self.open.iter().map(|open| &open.call.id);
        match !self.open.is_empty() && untouched && asked.eq(results.iter().map(|result| &result.call)) {
            true => Ok(()),
            false => Err(OrderError::OtherResults),
        }
    }

    /// Adds a message that was checked.
    pub(crate) fn push(&mut self, message: Message) {
        self.open = match &message {
            Message::Assistant(said) => {
                said.calls().map(|call| OpenCall { call: call.clone(), result: None }).collect()
            }
            _ => Vec::new(),
        };
        self.messages.push(message);
    }

    /// Where the result of a call would be stored.
    pub(crate) fn result_position(&self, call: &str) -> Result<ResultPosition, OrderError> {
        let index = self.open.iter().position(|open| open.call.id == call);
        let index = index.ok_or_else(|| OrderError::NotAsked(call.to_owned()))?;
        match self.open.get(index).is_some_and(|open| open.result.is_some()) {
            true => Err(OrderError::AnsweredBefore(call.to_owned())),
            false => Ok(ResultPosition { position: self.next(), call: count(index) }),
        }
    }

    /// Adds a result. The last one completes the message.
    pub(crate) fn add_result(&mut self, result: CallResult) {
        if let Some(open) = self.open.iter_mut().find(|open| open.call.id == result.call) {
            open.result = Some(result);
        }
        if self.unanswered().next().is_none() {
            let results = std::mem::take(&mut self.open).into_iter().filter_map(|open| open.result).collect();
            self.messages.push(Message::Results { results });
        }
    }

    /// How many messages, counted from the very first, a front for this many of the context would replace.
    pub(crate) fn check_front(&self, messages: usize, front: &Message) -> Result<u64, OrderError> {
        match front {
            Message::Results { .. } => return Err(OrderError::FrontWithCalls),
            Message::Assistant(said) if said.calls().next().is_some() => {
                return Err(OrderError::FrontWithCalls);
            }
            _ => {}
        }
        let splits = matches!(self.messages.get(messages), Some(Message::Results { .. }));
        let takes_open_calls = !self.open.is_empty() && messages == self.messages.len();
        match messages == 0 || messages > self.messages.len() || splits || takes_open_calls {
            true => Err(OrderError::Front(messages, self.messages.len())),
            false => Ok(self.position(messages)),
        }
    }

    /// Replaces the first messages with one.
    pub(crate) fn replace_front(&mut self, messages: usize, replaced: u64, front: Message) {
        self.messages.splice(..messages.min(self.messages.len()), [front]);
        self.replaced = Some(replaced);
    }
}

pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
