//! Assigns fragments of calls to calls.
//!
//! By the specification a fragment belongs to the call with its `index`. Compatible servers reuse an index for another call, omit it, omit the id,
//! send a different id with every fragment, repeat the name or split it. So a fragment is matched by its id, then by its index, then it belongs to
//! the current call. An ambiguous stream never yields a wrong call: two calls are never merged into one that parses, and one call is never split into
//! two.

use std::collections::HashMap;

use crate::error::ProviderError;
use crate::message_collector::{MessageCollector, PartKey, malformed};

/// A fragment of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallFragment<'p> {
    pub(super) id: &'p str,
    pub(super) index: Option<u64>,
    pub(super) name: &'p str,
    pub(super) arguments: &'p str,
}

/// The calls of a message so far.
#[derive(Debug, Default)]
pub(super) struct CallAssembler {
    calls: Vec<PartialCall>,
    /// The call of the last fragment.
    current: usize,
    /// The call of an id, and the last call of an index: a linear search per fragment would take quadratic time.
    by_id: HashMap<String, usize>,
    by_index: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    index: Option<u64>,
    name: String,
    /// The part that collects its arguments, once its name is complete.
    part: Option<PartKey>,
    object: ObjectTracker,
}

/// The call that a fragment belongs to.
enum FragmentTarget {
    New,
    At(usize),
    /// A call that already has it.
    Repeated,
}

impl CallAssembler {
    /// Takes a fragment.
    pub(super) fn take(
        &mut self,
        piece: CallFragment<'_>,
        collector: &mut MessageCollector,
    ) -> Result<(), ProviderError> {
        self.current = match self.target_of(piece, collector)? {
            FragmentTarget::Repeated => return Ok(()),
            FragmentTarget::At(place) => place,
            FragmentTarget::New => {
                self.begin_all(collector)?;
                self.calls.push(PartialCall::default());
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(self.current) else { return Ok(()) };
        if call.id.is_empty() && !piece.id.is_empty() {
            piece.id.clone_into(&mut call.id);
            self.by_id.insert(piece.id.to_owned(), self.current);
        }
        if let (None, Some(index)) = (call.index, piece.index) {
            call.index = Some(index);
            let last = self.by_index.entry(index).or_default();
            *last = self.current.max(*last);
        }
        call.add_name(piece.name)?;
        if !piece.arguments.is_empty() {
            let part = call.begin(collector)?;
            collector.push_arguments(part, piece.arguments)?;
            call.object.follow(piece.arguments);
        }
        Ok(())
    }

    /// The end of the stream: every call is complete.
    pub(super) fn end(&mut self, collector: &mut MessageCollector) -> Result<(), ProviderError> {
        self.begin_all(collector)?;
        self.calls.drain(..).filter_map(|call| call.part).try_for_each(|part| collector.end_call(part))
    }

    /// The message was truncated: calls whose arguments are closed are complete, the others are left open.
    pub(super) fn finish_truncated(&mut self, collector: &mut MessageCollector) -> Result<(), ProviderError> {
        let closed = self.calls.drain(..).filter(|call| call.object.is_closed);
        closed.filter_map(|call| call.part).try_for_each(|part| collector.end_call(part))
    }

    /// Begins every call so far: their names are complete.
    fn begin_all(&mut self, collector: &mut MessageCollector) -> Result<(), ProviderError> {
        let unbegun = self.calls.iter_mut().rev().take_while(|call| call.part.is_none());
        let mut unbegun: Vec<&mut PartialCall> = unbegun.collect();
        unbegun.reverse();
        unbegun.into_iter().try_for_each(|call| call.begin(collector).map(|_| ()))
    }

    fn target_of(
        &self,
        piece: CallFragment<'_>,
        collector: &MessageCollector,
    ) -> Result<FragmentTarget, ProviderError> {
        if let Some(place) = self.by_id.get(piece.id) {
            return Ok(FragmentTarget::At(*place));
        }
        let place = piece.index.and_then(|index| self.by_index.get(&index).copied());
        // The current call matches if it or the fragment has no index.
        let may_be = |call: &PartialCall| piece.index.is_none() || call.index.is_none();
        let place =
            place.or_else(|| self.calls.get(self.current).filter(|call| may_be(call)).map(|_| self.current));
        let Some((place, call)) = place.and_then(|place| Some((place, self.calls.get(place)?))) else {
            return Ok(FragmentTarget::New);
        };
        let goes_on = Ok(FragmentTarget::At(place));
        // A call begins with its name. A fragment without one continues the call, whatever its id.
        if piece.name.is_empty() {
            return goes_on;
        }
        if !piece.id.is_empty() && !call.id.is_empty() {
            return Ok(FragmentTarget::New);
        }
        let same_name = call.name == piece.name;
        if call.object.is_closed {
            let known = call.part.and_then(|part| collector.arguments(part)).unwrap_or_default();
            let is_repeated = same_name && (piece.arguments.is_empty() || piece.arguments == known);
            return Ok(if is_repeated { FragmentTarget::Repeated } else { FragmentTarget::New });
        }
        if call.object.is_begun && !same_name {
            return Err(malformed("one call begins in the middle of another"));
        }
        goes_on
    }
}

impl PartialCall {
    /// Appends to the name, unless it repeats the same name.
    fn add_name(&mut self, more: &str) -> Result<(), ProviderError> {
        if more.is_empty() || more == self.name {
            return Ok(());
        }
        if self.part.is_some() {
            return Err(malformed("a call changes its name"));
        }
        self.name.push_str(more);
        Ok(())
    }

    /// Begins the call, if it has not begun: its name is complete.
    fn begin(&mut self, collector: &mut MessageCollector) -> Result<PartKey, ProviderError> {
        if let Some(part) = self.part {
            return Ok(part);
        }
        if self.name.is_empty() {
            return Err(malformed("a call does not say which tool it is for"));
        }
        let part = collector.begin_call(&self.id, &self.name)?;
        self.part = Some(part);
        Ok(part)
    }
}

/// Tracks whether the arguments' object is closed, incrementally: parsing them anew with every fragment would take quadratic time.
#[derive(Debug, Default)]
struct ObjectTracker {
    is_begun: bool,
    is_closed: bool,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl ObjectTracker {
    fn follow(&mut self, more: &str) {
        for byte in more.bytes() {
            self.is_begun |= !byte.is_ascii_whitespace();
            if std::mem::take(&mut self.is_escaped) {
                continue;
            }
            match byte {
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' if !self.in_text => self.depth += 1,
                b'}' if !self.in_text => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_closed |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}
