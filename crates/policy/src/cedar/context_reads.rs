//! Which facts an expression reads, and whether it refers to some that cannot exist.

use std::collections::BTreeSet;

use cedar_policy::pst::{BinaryOp, Clause, EntityUID, Expr, Literal, PatternElem, Policy, Var};

use super::path::{LOCATION, PATH, never_matches, pattern_never_matches};
use super::typing::CedarType;

/// The parts of the context that an expression reads: only these are converted for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextReads {
    pub(crate) input: ReadSet,
    pub(crate) caller: ReadSet,
    pub(crate) session: ReadSet,
    /// The path that a call is judged for.
    pub(crate) path: bool,
}

/// The attributes of one part that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadSet {
    Some(BTreeSet<String>),
    All,
}

impl Default for ReadSet {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl ReadSet {
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Some(names) => names.contains(name),
            Self::All => true,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Some(names) if names.is_empty())
    }

    fn note(&mut self, name: &str) {
        if let Self::Some(names) = self {
            names.insert(name.to_owned());
        }
    }

    fn join(&mut self, other: &Self) {
        match other {
            Self::All => *self = Self::All,
            Self::Some(names) => names.iter().for_each(|name| self.note(name)),
        }
    }
}

impl ContextReads {
    const EVERYTHING: Self =
        Self { input: ReadSet::All, caller: ReadSet::All, session: ReadSet::All, path: true };

    pub(crate) fn join(&mut self, other: &Self) {
        self.input.join(&other.input);
        self.caller.join(&other.caller);
        self.session.join(&other.session);
        self.path |= other.path;
    }

    fn note(&mut self, place: &[&str]) {
        let Some((root, inner)) = place.split_first() else {
            *self = Self::EVERYTHING;
            return;
        };
        let part = match *root {
            "input" => &mut self.input,
            "caller" => &mut self.caller,
            "session" => &mut self.session,
            "path" => {
                self.path = true;
                return;
            }
            // Validation rejects it.
            _ => return,
        };
        match inner.first() {
            Some(name) => part.note(name),
            None => *part = ReadSet::All,
        }
    }
}

/// A mistake that Cedar would accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// `has` with a name that is not declared anywhere: false to Cedar, most likely a misspelling.
    UnknownName(Vec<String>),
    /// `has` on something whose fields are unknown.
    UnclearHas,
    /// Comparison of a whole path, which has several names if mounts are nested.
    ComparedPath(Vec<String>),
    /// The same for a list of paths, which supports only comparisons.
    ComparedPaths(Vec<String>),
    /// A path literal that no file can have, and why.
    NoSuchPath(String, String),
    /// Comparison or use of a whole object of which only some fields have types.
    PartialObject(Vec<String>),
}

/// Finds out what the clauses of a policy read. `types` returns the types at a path below `context`, one per tool; `mounts` are the aliases that a
/// path can start with, empty if unknown.
pub(crate) fn analyse<'t>(
    policy: &Policy,
    types: &dyn Fn(&[&str]) -> Vec<Option<&'t CedarType>>,
    mounts: &[&str],
) -> (ContextReads, Vec<Misuse>) {
    let mut study = ReadAnalysis { types, mounts, reads: ContextReads::default(), misuses: Vec::new() };
    for clause in policy.body().clauses() {
        match clause {
            Clause::When(expression) | Clause::Unless(expression) => study.visit(expression),
        }
    }
    (study.reads, study.misuses)
}

struct ReadAnalysis<'a, 't> {
    types: &'a dyn Fn(&[&str]) -> Vec<Option<&'t CedarType>>,
    mounts: &'a [&'a str],
    reads: ContextReads,
    misuses: Vec<Misuse>,
}

impl ReadAnalysis<'_, '_> {
    fn visit(&mut self, expression: &Expr) {
        if let Some(place) = place(expression) {
            self.note_value(&place);
            return;
        }
        match expression {
            Expr::Literal(Literal::EntityUID(uid)) => self.visit_uid(uid),
            Expr::Literal(_) | Expr::Var(_) | Expr::Slot(_) => {}
            Expr::HasAttr { expr, attrs } => {
                let names: Vec<&str> = attrs.iter().map(|name| name.as_str()).collect();
                self.visit_has(expr, &names);
            }
            Expr::Like { expr, pattern } => {
                self.visit_pattern(expr, pattern);
                self.visit(expr);
            }
            Expr::UnaryOp { expr, .. } | Expr::GetAttr { expr, .. } => self.visit(expr),
            Expr::BinaryOp { op, left, right } => {
                if !matches!(op, BinaryOp::In) {
                    self.refuse_paths([left, right]);
                }
                self.visit(left);
                self.visit(right);
            }
            Expr::Is { expr, in_expr, .. } => {
                self.visit(expr);
                in_expr.iter().for_each(|inner| self.visit(inner));
            }
            Expr::IfThenElse { cond, then_expr, else_expr } => {
                [cond, then_expr, else_expr].into_iter().for_each(|inner| self.visit(inner));
            }
            Expr::Set(items) => items.iter().for_each(|item| self.visit(item)),
            Expr::Record(fields) => fields.values().for_each(|field| self.visit(field)),
            // An unknown kind of expression may read anything.
            _ => self.reads = ContextReads::EVERYTHING,
        }
    }

    /// Only `in` considers every name of a path. A text that is compared with a location must be a possible path, anywhere in the operand.
    fn refuse_paths(&mut self, operands: [&Expr; 2]) {
        let values: Vec<&Expr> = operands.into_iter().flat_map(values).collect();
        let places: Vec<Vec<&str>> = values.iter().filter_map(|value| place(value)).collect();
        for place in &places {
            let kinds: Vec<&CedarType> = (self.types)(place).into_iter().flatten().collect();
            if kinds.iter().any(|kind| matches!(kind, CedarType::Path)) {
                self.misuses.push(Misuse::ComparedPath(owned(place)));
            } else if kinds.iter().any(|kind| kind.is_path()) {
                self.misuses.push(Misuse::ComparedPaths(owned(place)));
            }
        }
        if places.iter().any(|place| self.is_location(place)) {
            for text in values.into_iter().filter_map(literal) {
                if let Some(why) = never_matches(text, self.mounts) {
                    self.misuses.push(Misuse::NoSuchPath(text.to_owned(), why));
                }
            }
        }
    }

    /// A pattern for a location must be one that a path can match.
    fn visit_pattern(&mut self, expression: &Expr, pattern: &[PatternElem]) {
        let is_location = |value: &Expr| place(value).is_some_and(|place| self.is_location(&place));
        if values(expression).into_iter().any(is_location)
            && let Some(why) = pattern_never_matches(pattern, self.mounts)
        {
            let text = |part: &PatternElem| match part {
                PatternElem::Char(character) => *character,
                PatternElem::Wildcard => '*',
            };
            self.misuses.push(Misuse::NoSuchPath(pattern.iter().map(text).collect(), why));
        }
    }

    fn is_location(&self, place: &[&str]) -> bool {
        let Some((LOCATION, base)) = place.split_last().map(|(last, base)| (*last, base)) else {
            return false;
        };
        (self.types)(base).into_iter().flatten().any(CedarType::is_path)
    }

    fn visit_uid(&mut self, uid: &EntityUID) {
        if uid.ty.to_string() == PATH
            && let Some(why) = never_matches(&uid.eid, self.mounts)
        {
            self.misuses.push(Misuse::NoSuchPath(uid.eid.to_string(), why));
        }
    }

    fn note_value(&mut self, place: &[&str]) {
        self.reads.note(place);
        let partial = (self.types)(place).into_iter().flatten().any(|kind| !kind.is_exact());
        if partial || place.is_empty() {
            self.misuses.push(Misuse::PartialObject(owned(place)));
        }
    }

    fn visit_has(&mut self, base: &Expr, names: &[&str]) {
        if matches!(base, Expr::Var(Var::Resource)) {
            if !matches!(names, ["name" | "class"]) {
                self.misuses.push(Misuse::UnclearHas);
            }
            return;
        }
        let Some(mut place) = place(base) else {
            self.misuses.push(Misuse::UnclearHas);
            self.visit(base);
            return;
        };
        place.extend(names);
        // The value itself is not used, so an object of which only some fields have types is harmless here.
        self.reads.note(&place);
        if (self.types)(&place).iter().all(Option::is_none) {
            self.misuses.push(Misuse::UnknownName(owned(&place)));
        }
    }
}

/// The attribute path below `context` that an expression is, if it is nothing else.
fn place(expression: &Expr) -> Option<Vec<&str>> {
    match expression {
        Expr::Var(Var::Context) => Some(Vec::new()),
        Expr::GetAttr { expr, attr } => {
            let mut names = place(expr)?;
            names.push(attr.as_str());
            Some(names)
        }
        _ => None,
    }
}

/// The values that an expression can have: itself, or its branches or elements.
fn values(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::IfThenElse { then_expr, else_expr, .. } => {
            [then_expr, else_expr].into_iter().flat_map(|value| values(value)).collect()
        }
        Expr::Set(items) => items.iter().flat_map(|item| values(item)).collect(),
        Expr::Record(fields) => fields.values().flat_map(|field| values(field)).collect(),
        Expr::GetAttr { expr, .. } if place(expression).is_none() => values(expr),
        value => vec![value],
    }
}

fn literal(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
