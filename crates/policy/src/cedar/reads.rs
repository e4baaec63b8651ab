//! Which facts an expression reads, and whether it asks for some that cannot exist.

use std::collections::BTreeSet;

use cedar_policy::pst::{BinaryOp, Clause, EntityUID, Expr, Literal, PatternElem, Policy, Var};

use super::path::{LOCATION, PATH, never_matches};
use super::typing::Type;

/// The parts of the context that an expression reads: only these are converted for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) input: Part,
    pub(crate) caller: Part,
    pub(crate) session: Part,
    /// The path for which a call is judged.
    pub(crate) path: bool,
}

/// The attributes of one part that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Some(BTreeSet<String>),
    All,
}

impl Default for Part {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl Part {
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

impl Reads {
    const EVERYTHING: Self = Self { input: Part::All, caller: Part::All, session: Part::All, path: true };

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
            // Validation refuses it.
            _ => return,
        };
        match inner.first() {
            Some(name) => part.note(name),
            None => *part = Part::All,
        }
    }
}

/// What is wrong with an expression that Cedar would accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// `has` with a name that is declared nowhere: plainly false to Cedar, a misspelling to us.
    UnknownName(Vec<String>),
    /// `has` on something whose fields cannot be told.
    UnclearHas,
    /// A path compared as a whole, which has several names where mounts lie in each other.
    ComparedPath(Vec<String>),
    /// A name of a path that no file has, and why.
    NoSuchPath(String, &'static str),
    /// An object compared or passed on as a whole, of which only a part has types.
    PartialObject(Vec<String>),
}

/// Finds what the clauses of a policy read. `types` gives what may stand at a path below `context`, once per
/// tool.
pub(crate) fn study<'t>(
    policy: &Policy,
    types: &dyn Fn(&[&str]) -> Vec<Option<&'t Type>>,
) -> (Reads, Vec<Misuse>) {
    let mut study = Study { types, reads: Reads::default(), misuses: Vec::new() };
    for clause in policy.body().clauses() {
        match clause {
            Clause::When(expression) | Clause::Unless(expression) => study.visit(expression),
        }
    }
    (study.reads, study.misuses)
}

struct Study<'a, 't> {
    types: &'a dyn Fn(&[&str]) -> Vec<Option<&'t Type>>,
    reads: Reads,
    misuses: Vec<Misuse>,
}

impl Study<'_, '_> {
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
            // A kind of expression that is not known here may read anything.
            _ => self.reads = Reads::EVERYTHING,
        }
    }

    /// Only `in` knows every name of a path.
    fn refuse_paths(&mut self, operands: [&Expr; 2]) {
        for place in operands.into_iter().filter_map(place) {
            if (self.types)(&place).into_iter().flatten().any(Type::is_path) {
                self.misuses.push(Misuse::ComparedPath(owned(&place)));
            } else if self.is_location(&place)
                && let Some(text) = operands.into_iter().find_map(literal)
                && let Some(why) = never_matches(text)
            {
                self.misuses.push(Misuse::NoSuchPath(text.to_owned(), why));
            }
        }
    }

    /// A pattern for a location begins with an alias, or with anything.
    fn visit_pattern(&mut self, expression: &Expr, pattern: &[PatternElem]) {
        let begins_well = matches!(pattern.first(), Some(PatternElem::Wildcard | PatternElem::Char('@')));
        if !begins_well && place(expression).is_some_and(|place| self.is_location(&place)) {
            let text = |part: &PatternElem| match part {
                PatternElem::Char(character) => *character,
                PatternElem::Wildcard => '*',
            };
            let why = "does not begin with the alias of a mount";
            self.misuses.push(Misuse::NoSuchPath(pattern.iter().map(text).collect(), why));
        }
    }

    fn is_location(&self, place: &[&str]) -> bool {
        let Some((LOCATION, base)) = place.split_last().map(|(last, base)| (*last, base)) else {
            return false;
        };
        (self.types)(base).into_iter().flatten().any(Type::is_path)
    }

    fn visit_uid(&mut self, uid: &EntityUID) {
        if uid.ty.to_string() == PATH
            && let Some(why) = never_matches(&uid.eid)
        {
            self.misuses.push(Misuse::NoSuchPath(uid.eid.to_string(), why));
        }
    }

    fn note_value(&mut self, place: &[&str]) {
        self.reads.note(place);
        let partial = (self.types)(place).into_iter().flatten().any(|kind| !kind.is_whole());
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
        // The value itself is not used, so an object of which only a part has types does no harm here.
        self.reads.note(&place);
        if (self.types)(&place).iter().all(Option::is_none) {
            self.misuses.push(Misuse::UnknownName(owned(&place)));
        }
    }
}

/// The path of names below `context` that an expression is, if it is nothing else.
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

fn literal(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
