//! Patterns compiled into one machine that reads a path name by name.
//!
//! A state is the set of places that the patterns may have come to, together with the best rule of what lies around.
//! All states are made when the rules are compiled, so that filtering looks up one name per field and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::OutputRule;
use super::pattern::{Closeness, OutputPolicyError, Pattern, Segment};

/// More states than any policy that people write needs.
const MOST_STATES: usize = 20_000;

/// A state, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateId(usize);

/// The machine.
#[derive(Clone, Debug)]
pub(super) struct Automaton {
    states: Vec<State>,
    /// What becomes of an answer that is a plain value.
    pub(super) plain_answer: Option<OutputRule>,
}

/// Where a path has come to.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// What becomes of a plain value here.
    pub(super) plain: Option<OutputRule>,
    /// What becomes of an object or an array here.
    pub(super) container: Fate,
    names: HashMap<String, StateId>,
    numbers: BTreeMap<usize, StateId>,
    other_name: StateId,
    item: StateId,
}

/// What becomes of an object or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// All of it stays.
    Stays,
    /// Its inside is looked at.
    Opened,
    /// It is replaced as a whole.
    Redacted,
    /// It is dropped as a whole.
    Dropped,
}

impl Automaton {
    /// The state of the answer itself.
    pub(super) const BEGIN: StateId = StateId(0);

    pub(super) fn state(&self, id: StateId) -> Option<&State> {
        self.states.get(id.0)
    }

    pub(super) fn compile(patterns: &[(Pattern, OutputRule)]) -> Result<Self, OutputPolicyError> {
        let mut building = Building::of(patterns);
        building.number(Key::begin(patterns))?;
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

impl State {
    pub(super) fn name(&self, name: &str) -> StateId {
        if self.names.is_empty() {
            self.other_name
        } else {
            *self.names.get(name).unwrap_or(&self.other_name)
        }
    }

    pub(super) fn item(&self, index: usize) -> StateId {
        if self.numbers.is_empty() { self.item } else { *self.numbers.get(&index).unwrap_or(&self.item) }
    }
}

/// A rule with how closely it speaks: the greatest decides.
type Rank = (Closeness, OutputRule);

/// Where every pattern may be, and the best rule of what lies around.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Key {
    /// Pattern and segment, by number; the number behind the last segment is a match.
    places: BTreeSet<(usize, usize)>,
    around: Option<Rank>,
}

/// One step from a field to what is inside.
#[derive(Clone, Copy)]
enum Step<'n> {
    Name(Option<&'n str>),
    Item(Option<usize>),
}

impl Step<'_> {
    fn fits(self, segment: &Segment) -> bool {
        match (segment, self) {
            (Segment::One | Segment::Any, _) | (Segment::Item, Step::Item(_)) => true,
            (Segment::Name(wanted), Step::Name(name)) => name == Some(wanted),
            (Segment::Name(wanted), Step::Item(index)) => index.is_some() && number(wanted) == index,
            (Segment::Item, Step::Name(_)) => false,
        }
    }
}

/// A name that could be the number of an item.
fn number(name: &str) -> Option<usize> {
    let number: usize = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

impl Key {
    fn begin(patterns: &[(Pattern, OutputRule)]) -> Self {
        let mut key = Self::default();
        for (index, (pattern, _)) in patterns.iter().enumerate() {
            key.add(index, 0, &pattern.segments);
        }
        key
    }

    /// Adds a place, and those that follow it without a step.
    fn add(&mut self, pattern: usize, mut segment: usize, segments: &[Segment]) {
        while self.places.insert((pattern, segment)) && segments.get(segment) == Some(&Segment::Any) {
            segment += 1;
        }
    }
}

struct Building<'p> {
    patterns: &'p [(Pattern, OutputRule)],
    names: BTreeSet<&'p str>,
    numbers: HashMap<Key, StateId>,
    keys: Vec<Key>,
    states: Vec<State>,
}

impl<'p> Building<'p> {
    fn of(patterns: &'p [(Pattern, OutputRule)]) -> Self {
        let segments = patterns.iter().flat_map(|(pattern, _)| &pattern.segments);
        let names = segments.filter_map(|segment| match segment {
            Segment::Name(name) => Some(name.as_str()),
            _ => None,
        });
        let names = names.collect();
        Self { patterns, names, numbers: HashMap::new(), keys: Vec::new(), states: Vec::new() }
    }

    fn number(&mut self, key: Key) -> Result<StateId, OutputPolicyError> {
        if let Some(id) = self.numbers.get(&key) {
            return Ok(*id);
        }
        if self.keys.len() == MOST_STATES {
            return Err(OutputPolicyError::TooMany);
        }
        let id = StateId(self.keys.len());
        self.keys.push(key.clone());
        self.numbers.insert(key, id);
        Ok(id)
    }

    fn state(&mut self, key: &Key) -> Result<State, OutputPolicyError> {
        let best = self.best(key);
        let other_name = self.step(key, Step::Name(None))?;
        let item = self.step(key, Step::Item(None))?;
        let (mut names, mut numbers) = (HashMap::new(), BTreeMap::new());
        for name in self.names_wanted(key) {
            names.insert(name.to_owned(), self.step(key, Step::Name(Some(name)))?);
            if let Some(number) = number(name) {
                numbers.insert(number, self.step(key, Step::Item(Some(number)))?);
            }
        }
        let container = self.fate(key, best);
        Ok(State { plain: best.map(|(_, rule)| rule), container, names, numbers, other_name, item })
    }

    fn names_wanted(&self, key: &Key) -> BTreeSet<&'p str> {
        let wanted = key.places.iter().filter_map(|place| match self.segment(*place) {
            Some(Segment::Name(name)) => Some(name.as_str()),
            _ => None,
        });
        wanted.filter(|name| self.names.contains(name)).collect()
    }

    fn segment(&self, (pattern, segment): (usize, usize)) -> Option<&'p Segment> {
        self.patterns.get(pattern)?.0.segments.get(segment)
    }

    fn step(&mut self, key: &Key, step: Step<'_>) -> Result<StateId, OutputPolicyError> {
        let mut next = Key { places: BTreeSet::new(), around: self.best(key).map(inherited) };
        for place in &key.places {
            let (Some(segment), Some((pattern, _))) = (self.segment(*place), self.patterns.get(place.0))
            else {
                continue;
            };
            if step.fits(segment) {
                let moved = if *segment == Segment::Any { place.1 } else { place.1 + 1 };
                next.add(place.0, moved, &pattern.segments);
            }
        }
        self.number(next)
    }

    /// The rule that decides here.
    fn best(&self, key: &Key) -> Option<Rank> {
        let matched = key.places.iter().filter(|place| self.segment(**place).is_none());
        let ranks = matched.filter_map(|(pattern, _)| self.patterns.get(*pattern));
        ranks.map(|(pattern, rule)| (pattern.closeness, *rule)).chain(key.around).max()
    }

    fn fate(&self, key: &Key, best: Option<Rank>) -> Fate {
        let mut going_on = key.places.iter().filter(|place| self.segment(**place).is_some());
        match best.map(|best| (best.1, inherited(best))) {
            None if going_on.next().is_none() => Fate::Dropped,
            None => Fate::Opened,
            Some((OutputRule::Allow, inside)) => {
                let mut changes = going_on.filter(|place| self.overrides(**place, inside));
                if changes.next().is_none() { Fate::Stays } else { Fate::Opened }
            }
            Some((_, inside)) => {
                let mut opens = going_on.filter(|place| self.overrides(**place, inside));
                if opens.next().is_none() { Fate::Redacted } else { Fate::Opened }
            }
        }
    }

    /// Whether a pattern that is under way could decide otherwise than the rule around.
    fn overrides(&self, (pattern, _): (usize, usize), around: Rank) -> bool {
        let Some((pattern, rule)) = self.patterns.get(pattern) else { return false };
        (pattern.closeness, *rule) > around && *rule != around.1
    }
}

/// What a rule for something says about its inside: as a pattern would, and of what is masked nothing stays.
fn inherited((closeness, rule): Rank) -> Rank {
    let rule = if rule == OutputRule::Mask { OutputRule::Redact } else { rule };
    (closeness.min(Closeness::Named), rule)
}
