//! Patterns compiled into one machine that reads a path name by name.
//!
//! A state is the set of places that the patterns may have come to, together with the best rule of what lies
//! around. All states are made when the rules are compiled, so that filtering looks up one name per field and
//! nothing else.

use std::collections::{BTreeMap, HashMap};

use super::OutputRule;
use super::pattern::{Closeness, OutputPolicyError, Pattern, Segment};

/// How much work it may be to make the states, in places; enough for a hundred patterns that begin with a
/// star.
const MOST_WORK: usize = 6_000_000;

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
    /// In order, for there are few, and finding one of a few is faster than hashing.
    names: Vec<(String, StateId)>,
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
        let begin: Vec<Place> = (0..patterns.len()).map(|pattern| (pattern, 0)).collect();
        building.number(&[&begin], None)?;
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
        let found = self.names.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok();
        found.and_then(|index| self.names.get(index)).map_or(self.other_name, |(_, id)| *id)
    }

    pub(super) fn item(&self, index: usize) -> StateId {
        if self.numbers.is_empty() { self.item } else { *self.numbers.get(&index).unwrap_or(&self.item) }
    }
}

/// A rule with how closely it speaks: the greatest decides.
type Rank = (Closeness, OutputRule);

/// A pattern and one of its segments, by number; the number behind the last segment is a match.
type Place = (usize, usize);

/// Where every pattern may be, and the best rule of what lies around.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    places: Vec<Place>,
    around: Option<Rank>,
}

/// A name that could be the number of an item.
fn number(name: &str) -> Option<usize> {
    let number: usize = name.parse().ok()?;
    (number.to_string() == name).then_some(number)
}

/// Where one step leads, before it is known which step it is.
#[derive(Default)]
struct Ways<'p> {
    by_any_name: Vec<Place>,
    by_any_item: Vec<Place>,
    by_name: BTreeMap<&'p str, Vec<Place>>,
}

struct Building<'p> {
    patterns: &'p [(Pattern, OutputRule)],
    numbers: HashMap<Key, StateId>,
    keys: Vec<Key>,
    states: Vec<State>,
    work: usize,
}

impl<'p> Building<'p> {
    fn of(patterns: &'p [(Pattern, OutputRule)]) -> Self {
        Self { patterns, numbers: HashMap::new(), keys: Vec::new(), states: Vec::new(), work: 0 }
    }

    /// The state with these places, and those that follow them without a step.
    fn number(&mut self, places: &[&[Place]], around: Option<Rank>) -> Result<StateId, OutputPolicyError> {
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
        if self.work > MOST_WORK {
            return Err(OutputPolicyError::TooMany);
        }
        let key = Key { places: all, around };
        if let Some(id) = self.numbers.get(&key) {
            return Ok(*id);
        }
        let id = StateId(self.keys.len());
        self.keys.push(key.clone());
        self.numbers.insert(key, id);
        Ok(id)
    }

    fn state(&mut self, key: &Key) -> Result<State, OutputPolicyError> {
        let best = self.speaking(key).max();
        let around = self.speaking(key).map(inherited).max();
        let ways = self.ways(key);
        let (mut names, mut numbers) = (Vec::new(), BTreeMap::new());
        for (name, places) in &ways.by_name {
            names.push(((*name).to_owned(), self.number(&[&ways.by_any_name, places], around)?));
            if let Some(number) = number(name) {
                numbers.insert(number, self.number(&[&ways.by_any_item, places], around)?);
            }
        }
        let other_name = self.number(&[&ways.by_any_name], around)?;
        let item = self.number(&[&ways.by_any_item], around)?;
        let container = self.fate(key, best, around);
        Ok(State { plain: best.map(|(_, rule)| rule), container, names, numbers, other_name, item })
    }

    fn ways(&self, key: &Key) -> Ways<'p> {
        let mut ways = Ways::default();
        for place in &key.places {
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

    fn segment(&self, (pattern, segment): Place) -> Option<&'p Segment> {
        self.patterns.get(pattern)?.0.segments.get(segment)
    }

    /// The rules that speak for what is here, the greatest of which decides.
    fn speaking(&self, key: &Key) -> impl Iterator<Item = Rank> {
        let matched = key.places.iter().filter(|place| self.segment(**place).is_none());
        let ranks = matched.filter_map(|(pattern, _)| self.patterns.get(*pattern));
        ranks.map(|(pattern, rule)| (pattern.closeness, *rule)).chain(key.around)
    }

    fn fate(&self, key: &Key, best: Option<Rank>, around: Option<Rank>) -> Fate {
        let mut going_on = key.places.iter().filter(|place| self.segment(**place).is_some());
        let (Some((_, rule)), Some(around)) = (best, around) else {
            return if going_on.next().is_none() { Fate::Dropped } else { Fate::Opened };
        };
        let looked_into = going_on.any(|place| self.overrides(*place, around));
        match rule {
            OutputRule::Allow if around.1 == OutputRule::Allow && !looked_into => Fate::Stays,
            OutputRule::Mask | OutputRule::Redact if !looked_into => Fate::Redacted,
            _ => Fate::Opened,
        }
    }

    /// Whether a pattern that is under way could decide otherwise than the rule around.
    fn overrides(&self, (pattern, _): Place, around: Rank) -> bool {
        let Some((pattern, rule)) = self.patterns.get(pattern) else { return false };
        (pattern.closeness, *rule) > around && *rule != around.1
    }
}

/// What a rule for something says about its inside: as a pattern would, and of what is masked nothing stays.
fn inherited((closeness, rule): Rank) -> Rank {
    let rule = if rule == OutputRule::Mask { OutputRule::Redact } else { rule };
    (closeness.min(Closeness::Named), rule)
}
