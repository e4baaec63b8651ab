//! One policy, compiled for evaluation.
//!
//! Cedar's own authorizer builds the condition of a policy anew for every request, which costs more than
//! evaluating it. Here the clauses are kept as expressions. They are extracted by way of text, so the text
//! is parsed again and compared: a clause that would not come back as the same expression is rejected.

use std::str::FromStr as _;

use cedar_policy::pst::{self, Clause as PolicyClause};
use cedar_policy::{EntityTypeName, EntityUid, Expression, Policy, PrincipalConstraint};

/// A policy without the constraints on its tools.
pub(super) struct CompiledPolicy {
    /// Its `@id`, or else its position.
    pub(super) name: String,
    principal: PrincipalConstraint,
    pub(super) clauses: Vec<Clause>,
    /// Whether a clause refers to the principal.
    pub(super) reads_principal: bool,
}

/// A `when` or `unless` clause.
pub(super) struct Clause {
    pub(super) expression: Expression,
    /// The value it must have for the policy to match.
    pub(super) expected: bool,
}

impl CompiledPolicy {
    /// `None` if a clause does not survive the round trip through text.
    pub(super) fn of(name: &str, policy: &Policy, tree: &pst::Policy) -> Option<Self> {
        let clauses: Option<Vec<Clause>> = tree.body().clauses().iter().map(clause).collect();
        let asks_who_calls = tree.body().clauses().iter().any(reads_principal);
        let principal = policy.principal_constraint();
        Some(Self { name: name.to_owned(), principal, clauses: clauses?, reads_principal: asks_who_calls })
    }

    /// Whether the policy's scope matches this principal. Principals have no groups.
    pub(super) fn admits(&self, principal: &EntityUid) -> bool {
        let is = |kind: &EntityTypeName| principal.type_name() == kind;
        match &self.principal {
            PrincipalConstraint::Any => true,
            PrincipalConstraint::Eq(wanted) | PrincipalConstraint::In(wanted) => principal == wanted,
            PrincipalConstraint::Is(kind) => is(kind),
            PrincipalConstraint::IsIn(kind, wanted) => is(kind) && principal == wanted,
        }
    }
}

impl std::fmt::Debug for CompiledPolicy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)
    }
}

fn reads_principal(clause: &PolicyClause) -> bool {
    let (PolicyClause::When(tree) | PolicyClause::Unless(tree)) = clause;
    let is_principal = |part: &pst::Expr| matches!(part, pst::Expr::Var(pst::Var::Principal)).then_some(true);
    tree.reduce(&is_principal, &|one, other| one || other, false)
}

fn clause(clause: &PolicyClause) -> Option<Clause> {
    let (tree, wanted) = match clause {
        PolicyClause::When(tree) => (tree, true),
        PolicyClause::Unless(tree) => (tree, false),
    };
    let text = tree.to_string();
    let expression = Expression::from_str(&text).ok()?;
    let again = Policy::parse(None, format!("permit(principal,action,resource)when{{{text}\n}};")).ok()?;
    let again = again.to_pst().ok()?;
    match again.body().clauses().as_slice() {
        [PolicyClause::When(same)] if same == tree => Some(Clause { expression, expected: wanted }),
        _ => None,
    }
}
