//! Patterns compiled into one automaton that reads a path name by name.
//!
//! A state is the set of positions that the patterns may have reached, with the best rule of the enclosing
//! values. All states are built when the rules are compiled (subset construction), so that filtering needs
//! one lookup per field.

use std::collections::{BTreeMap, HashMap};

use super::OutputRule;
use super::pattern::{FieldPattern, OutputPolicyError, Segment, Specificity};

/// Maximum work for building the states, counted in positions; enough for a hundred patterns that start with
/// a star.
const MAX_BUILD_STEPS: usize = 6_000_000;

/// The index of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateId(usize);

/// The automaton.
#[derive(Clone, Debug)]
pub(super) struct Automaton {
    states: Vec<AutomatonState>,
    /// The rule for a result that is a scalar.
    pub(super) plain_answer: Option<OutputRule>,
}

/// A state of the automaton.
#[derive(Clone, Debug)]
pub(super) struct AutomatonState {
    /// The rule for a scalar here.
    pub(super) plain: Option<OutputRule>,
    /// The action for an object or array here.
    pub(super) container: ContainerAction,
    /// Sorted. There are few, so a search is faster than hashing.
    names: Vec<(String, StateId)>,
    numbers: BTreeMap<usize, StateId>,
    other_name: StateId,
    item: StateId,
}

/// The action for an object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerAction {
    /// It is kept whole.
    Stays,
    /// Its contents are filtered.
    Opened,
    /// It is redacted as a whole.
    Redacted,
    /// It is dropped as a whole.
    Dropped,
}

impl Automaton {
    /// The state of the result itself.
    pub(super) const START: StateId = StateId(0);

    pub(super) fn state(&self, id: StateId) -> Option<&AutomatonState> {
        self.states.get(id.0)
    }

    pub(super) fn compile(patterns: &[(FieldPattern, OutputRule)]) -> Result<Self, OutputPolicyError> {
        let mut building = AutomatonBuilder::of(patterns);
        let begin: Vec<PatternPosition> = (0..patterns.len()).map(|pattern| (pattern, 0)).collect();
        building.intern(&[&begin], None)?;
        let mut next = 0;
        while let Some(key) = building.keys.get(next).cloned() {
            let state = building.state(&key)?;
            building.states.push(state);
            next += 1;
        }
        let plain = building.states.first().and_then(|state| state.plain);
        let everything =
            patterns.iter().filter(|(pattern, _)| pattern.plain_answer).map(|(_, rule)| *rule).max();
        Ok(Self { states: building.states, plain_answer: plain.or(everything) })
    }
}

impl AutomatonState {
    pub(super) fn name(&self, name: &str) -> StateId {
        let found = self.names.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok();
        found.and_then(|index| self.names.get(index)).map_or(self.other_name, |(_, id)| *id)
    }

    pub(super) fn item(&self, index: usize) -> StateId {
        if self.numbers.is_empty() { self.item } else { *self.numbers.get(&index).unwrap_or(&self.item) }
    }
}

/// A rule with its specificity: the greatest decides.
type Rank = (Specificity, OutputRule);

/// A pattern and a segment, by index; the index after the last segment is a match.
type PatternPosition = (usize, usize);

/// The positions of all patterns, and the best rule of the enclosing values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PositionSet {
    positions: Vec<PatternPosition>,
    around: Option<Rank>,
}

/// A name that could be the index of an item.
fn number(name: &str) -> Option<usize> {
    let number: usize = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

/// The targets of a step, grouped by the kind of step.
#[derive(Default)]
struct Transitions<'p> {
    by_any_name: Vec<PatternPosition>,
    by_any_item: Vec<PatternPosition>,
    by_name: BTreeMap<&'p str, Vec<PatternPosition>>,
}

struct AutomatonBuilder<'p> {
    patterns: &'p [(FieldPattern, OutputRule)],
    numbers: HashMap<PositionSet, StateId>,
    keys: Vec<PositionSet>,
    states: Vec<AutomatonState>,
    work: usize,
}

impl<'p> AutomatonBuilder<'p> {
    fn of(patterns: &'p [(FieldPattern, OutputRule)]) -> Self {
        Self { patterns, numbers: HashMap::new(), keys: Vec::new(), states: Vec::new(), work: 0 }
    }

    /// The state with these positions and their epsilon closure.
    fn intern(
        &mut self,
        places: &[&[PatternPosition]],
        around: Option<Rank>,
    ) -> Result<StateId, OutputPolicyError> {
        let mut all = Vec::new();
        for place in places.iter().copied().flatten() {
            let (pattern, mut segment) = *place;
            all.push((pattern, segment));
            while self.segment((pattern, segment)) == Some(&Segment::Any) {
                segment += 1;
                all.push((pattern, segment));
            }
        }
        all.sort_unstable();
        all.dedup();
        self.work += all.len() + 1;
        if self.work > MAX_BUILD_STEPS {
            return Err(OutputPolicyError::TooMany);
        }
        let key = PositionSet { positions: all, around };
        if let Some(id) = self.numbers.get(&key) {
            return Ok(*id);
        }
        let id = StateId(self.keys.len());
        self.keys.push(key.clone());
        self.numbers.insert(key, id);
        Ok(id)
    }

    fn state(&mut self, key: &PositionSet) -> Result<AutomatonState, OutputPolicyError> {
        let best = self.applicable_rules(key).max();
        let around = self.applicable_rules(key).map(inherited).max();
        let ways = self.transitions(key);
        let (mut names, mut numbers) = (Vec::new(), BTreeMap::new());
        for (name, places) in &ways.by_name {
            names.push(((*name).to_owned(), self.intern(&[&ways.by_any_name, places], around)?));
            if let Some(number) = number(name) {
                numbers.insert(number, self.intern(&[&ways.by_any_item, places], around)?);
            }
        }
        let other_name = self.intern(&[&ways.by_any_name], around)?;
        let item = self.intern(&[&ways.by_any_item], around)?;
        let container = self.container_action(key, best, around);
        Ok(AutomatonState { plain: best.map(|(_, rule)| rule), container, names, numbers, other_name, item })
    }

    fn transitions(&self, key: &PositionSet) -> Transitions<'p> {
        let mut ways = Transitions::default();
        for place in &key.positions {
            let next = (place.0, place.1 + 1);
            match self.segment(*place) {
                Some(Segment::Name(name)) => ways.by_name.entry(name).or_default().push(next),
                Some(Segment::Item) => ways.by_any_item.push(next),
                Some(Segment::One) => {
                    ways.by_any_name.push(next);
                    ways.by_any_item.push(next);
                }
                Some(Segment::Any) => {
                    ways.by_any_name.push(*place);
                    ways.by_any_item.push(*place);
                }
                None => {}
            }
        }
        ways
    }

    fn segment(&self, (pattern, segment): PatternPosition) -> Option<&'p Segment> {
        self.patterns.get(pattern)?.0.segments.get(segment)
    }

    /// The rules that apply here, the greatest of which decides.
    fn applicable_rules(&self, key: &PositionSet) -> impl Iterator<Item = Rank> {
        let matched = key.positions.iter().filter(|place| self.segment(**place).is_none());
        let ranks = matched.filter_map(|(pattern, _)| self.patterns.get(*pattern));
        ranks.map(|(pattern, rule)| (pattern.specificity, *rule)).chain(key.around)
    }

    fn container_action(
        &self,
        key: &PositionSet,
        best: Option<Rank>,
        around: Option<Rank>,
    ) -> ContainerAction {
        let mut going_on = key.positions.iter().filter(|place| self.segment(**place).is_some());
        let (Some((_, rule)), Some(around)) = (best, around) else {
            return if going_on.next().is_none() {
                ContainerAction::Dropped
            } else {
                ContainerAction::Opened
            };
        };
        let looked_into = going_on.any(|place| self.overrides(*place, around));
        match rule {
            OutputRule::Allow if around.1 == OutputRule::Allow && !looked_into => ContainerAction::Stays,
            OutputRule::Mask | OutputRule::Redact if !looked_into => ContainerAction::Redacted,
            _ => ContainerAction::Opened,
        }
    }

    /// Whether a partially matched pattern could override the enclosing rule.
    fn overrides(&self, (pattern, _): PatternPosition, around: Rank) -> bool {
        let Some((pattern, rule)) = self.patterns.get(pattern) else { return false };
        (pattern.specificity, *rule) > around && *rule != around.1
    }
}

/// The rule that a value passes on to its contents: like that of a named pattern, and a mask becomes a
/// redaction.
fn inherited((closeness, rule): Rank) -> Rank {
    let rule = if rule == OutputRule::Mask { OutputRule::Redact } else { rule };
    (closeness.min(Specificity::Named), rule)
}
