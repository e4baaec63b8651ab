//! Which call a piece of a call belongs to.
//!
//! The wire says: to the one with its `index`. Servers that speak it reuse an index for another call, leave it out, leave the id out, send another id with every
//! piece, repeat the name or cut it in two. So a piece is known by its id, then by its index, then it belongs to the call that was spoken of last; and where
//! that leaves a doubt, nothing comes of it that could be made: two calls are never mixed into one that parses, and one call is never made two.

use std::collections::HashMap;

use crate::error::ProviderError;
use crate::message_collector::{MessageCollector, PartKey, malformed};

/// A piece of a call.
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
    /// The one that was spoken of last.
    current: usize,
    /// The one of an id, and the last one of an index: looking through all of them for every piece would take ever longer.
    by_id: HashMap<String, usize>,
    by_index: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    index: Option<u64>,
    name: String,
    /// Where its arguments are gathered, from the moment that its name is known to be whole.
    part: Option<PartKey>,
    object: ObjectTracker,
}

/// Where a piece belongs.
enum FragmentTarget {
    New,
    At(usize),
    /// To a call that has it already.
    Repeated,
}

impl CallAssembler {
    /// Takes a piece.
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

    /// No more pieces come: every call is whole.
    pub(super) fn end(&mut self, collector: &mut MessageCollector) -> Result<(), ProviderError> {
        self.begin_all(collector)?;
        self.calls.drain(..).filter_map(|call| call.part).try_for_each(|part| collector.end_call(part))
    }

    /// The message was cut off: those whose arguments are closed are whole, and nobody knows of the others.
    pub(super) fn finish_truncated(&mut self, collector: &mut MessageCollector) -> Result<(), ProviderError> {
        let closed = self.calls.drain(..).filter(|call| call.object.is_closed);
        closed.filter_map(|call| call.part).try_for_each(|part| collector.end_call(part))
    }

    /// Every call so far has its whole name.
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
        // The current call may be the one of an index that was left out before.
        let may_be = |call: &PartialCall| piece.index.is_none() || call.index.is_none();
        let place =
            place.or_else(|| self.calls.get(self.current).filter(|call| may_be(call)).map(|_| self.current));
        let Some((place, call)) = place.and_then(|place| Some((place, self.calls.get(place)?))) else {
            return Ok(FragmentTarget::New);
        };
        let goes_on = Ok(FragmentTarget::At(place));
        // A call begins with its name. What has none goes on with what is there, whatever its id.
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
    /// More of the name, or the same name once more.
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

    /// Begins the call, unless it was begun: its name is whole.
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

/// Follows arguments just far enough to see their object closed. Looking at all of them with every piece would take ever longer.
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
