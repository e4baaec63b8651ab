//! Loads policy files into slices by tool.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use cedar_policy::{
    ActionConstraint, Effect, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy, PolicySet,
    ResourceConstraint, RestrictedExpression, Schema, ValidationMode, ValidationResult, ValidationWarning,
    Validator,
};
use serde_json::{Map, Value, json};
use toolgate_types::ToolClass;

use super::compiled_policy::CompiledPolicy;
use super::context_reads::{ContextReads, analyse};
use super::context_schema::{ContextSchema, schema};
use super::example::Example;
use super::path::PathInputs;
use super::policies::{LoadedPolicies, PolicySlice};
use super::source::{PolicyDiagnostic, PolicyProblem, PolicySource, place};
use super::tokens::too_deep;
use super::typing::{CedarType, ToolTyping};

/// The group of all tools.
const ANY_CLASS: &str = "class:any";

/// The annotations that have a meaning here, or are commonly used for people.
const ANNOTATIONS: [&str; 5] = ["id", "description", "owner", "allows", "denies"];

/// A tool that policies can refer to.
#[derive(Clone, Copy, Debug)]
pub struct PolicyTool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its class.
    pub class: ToolClass,
    /// The JSON Schema of its arguments.
    pub schema: &'a Map<String, Value>,
    /// Which of them are paths of the workspace.
    pub paths: &'a PathInputs,
}

/// A policy that is being loaded.
struct PendingPolicy<'a> {
    source: PolicySource<'a>,
    offset: usize,
    policy: Policy,
    name: String,
    tools: BTreeSet<&'a str>,
    reads: ContextReads,
    rule: Option<CompiledPolicy>,
}

impl PendingPolicy<'_> {
    fn problem(&self, message: impl Into<String>) -> PolicyProblem {
        PolicyProblem::at(self.source, Some(self.offset), message)
    }
}

pub(super) fn load(
    sources: &[PolicySource<'_>],
    tools: &[PolicyTool<'_>],
) -> Result<Option<LoadedPolicies>, Vec<PolicyProblem>> {
    let mut problems = Vec::new();
    let mut incoming: Vec<PendingPolicy<'_>> = Vec::new();
    for source in sources {
        match parse(*source) {
            Ok(policies) => incoming.extend(policies),
            Err(found) => problems.extend(found),
        }
    }
    if incoming.is_empty() {
        return if problems.is_empty() { Ok(None) } else { Err(problems) };
    }
    let house = ToolUniverse::of(tools).map_err(|problem| vec![problem])?;
    for policy in &mut incoming {
        problems.extend(house.check(policy));
    }
    problems.extend(duplicate_names(&incoming));
    if !problems.is_empty() {
        return Err(problems);
    }
    let loaded = house.assemble(&mut incoming).map_err(|problem| vec![problem])?;
    for policy in incoming.iter().enumerate() {
        check_examples(policy, &loaded, &mut problems);
    }
    if problems.is_empty() { Ok(Some(loaded)) } else { Err(problems) }
}

/// The policies of one file, in text order.
fn parse(source: PolicySource<'_>) -> Result<Vec<PendingPolicy<'_>>, Vec<PolicyProblem>> {
    if let Some(offset) = too_deep(source.text) {
        return Err(vec![PolicyProblem::at(source, Some(offset), "the policy is nested too deep")]);
    }
    let policies = PolicySet::from_str(source.text).map_err(|errors| {
        let found = errors.iter().map(|error| at(source, PolicyDiagnostic::in_diagnostic(error)));
        found.collect::<Vec<_>>()
    })?;
    if policies.num_of_templates() > 0 {
        let slot = source.text.find("?principal").or_else(|| source.text.find("?resource"));
        let problem =
            PolicyProblem::at(source, slot, "templates are not supported").help("write the policy out");
        return Err(vec![problem]);
    }
    let mut texts: Vec<(usize, &Policy)> = Vec::new();
    for policy in policies.policies() {
        let text = policy.to_cedar().unwrap_or_default();
        let taken: BTreeSet<usize> = texts.iter().map(|(offset, _)| *offset).collect();
        // Two policies may have the same text: each gets a position of its own.
        let mut places = source.text.match_indices(&text).map(|(offset, _)| offset);
        let offset = places.find(|offset| !taken.contains(offset)).unwrap_or_default();
        texts.push((offset, policy));
    }
    texts.sort_by_key(|(offset, _)| *offset);
    Ok(texts.into_iter().map(|(offset, policy)| incoming(source, offset, policy)).collect())
}

fn incoming<'a>(source: PolicySource<'a>, offset: usize, policy: &Policy) -> PendingPolicy<'a> {
    let (line, _) = place(source.text, offset);
    let name = match policy.annotation("id") {
        Some(id) if !id.is_empty() => id.to_owned(),
        _ => format!("{}:{line}", source.file),
    };
    let (tools, reads) = (BTreeSet::new(), ContextReads::default());
    PendingPolicy { source, offset, policy: policy.clone(), name, tools, reads, rule: None }
}

fn at(source: PolicySource<'_>, found: PolicyDiagnostic) -> PolicyProblem {
    let mut problem = PolicyProblem::at(source, found.offset, found.message);
    problem.help = found.help;
    problem
}

fn duplicate_names(incoming: &[PendingPolicy<'_>]) -> Vec<PolicyProblem> {
    let mut seen = BTreeSet::new();
    let named = incoming.iter().filter(|policy| policy.policy.annotation("id").is_some());
    let twice = named.filter(|policy| !seen.insert(&policy.name));
    twice.map(|policy| policy.problem(format!("the id `{}` is used twice", policy.name))).collect()
}

/// The tools of a gate, in Cedar's terms.
struct ToolUniverse<'a> {
    tools: BTreeMap<&'a str, (ToolClass, ContextSchema)>,
    validator: Validator,
    kinds: EntityTypes,
}

/// The entity types, by name.
struct EntityTypes {
    action: EntityTypeName,
    tool: EntityTypeName,
    agent: EntityTypeName,
    caller: EntityTypeName,
}

/// A problem with the tools instead of a file.
fn without_file(message: String) -> PolicyProblem {
    PolicyProblem::at(PolicySource { file: "", text: "" }, None, message)
}

impl<'a> ToolUniverse<'a> {
    fn of(declared: &[PolicyTool<'a>]) -> Result<Self, PolicyProblem> {
        let mut tools = BTreeMap::new();
        for tool in declared {
            let typing = ToolTyping::of(&Value::Object(tool.schema.clone())).with_paths(tool.paths);
            let surroundings = ContextSchema::of(typing);
            if tools.insert(tool.name, (tool.class, surroundings)).is_some() {
                return Err(without_file(format!("there are two tools `{}`", tool.name)));
            }
        }
        let schema = Schema::from_json_value(schema(actions(&tools)))
            .map_err(|error| without_file(format!("the tools cannot be typed: {error}")))?;
        let kind = |name: &str| {
            EntityTypeName::from_str(name)
                .map_err(|error| without_file(format!("the type `{name}` cannot be named: {error}")))
        };
        let kinds = EntityTypes {
            action: kind("Action")?,
            tool: kind("Tool")?,
            agent: kind("Agent")?,
            caller: kind("Caller")?,
        };
        Ok(Self { tools, validator: Validator::new(schema), kinds })
    }

    /// Finds the tools that a policy applies to, what it reads of their calls, and all problems.
    fn check(&self, incoming: &mut PendingPolicy<'a>) -> Vec<PolicyProblem> {
        let mut problems = unknown_annotations(incoming);
        incoming.tools = self.tools_of(&incoming.policy);
        let (Ok(alone), Ok(tree)) =
            (PolicySet::from_policies([incoming.policy.clone()]), incoming.policy.to_pst())
        else {
            problems.push(incoming.problem("the policy cannot be taken apart"));
            return problems;
        };
        let validated = self.validator.validate(&alone, ValidationMode::Strict);
        let (reads, misuses) = self.analyse(&tree, incoming);
        incoming.reads = reads;
        incoming.rule = CompiledPolicy::of(&incoming.name, &incoming.policy, &tree);
        if incoming.rule.is_none() {
            problems.push(incoming.problem("the policy cannot be taken apart"));
        }
        let mut found = self.errors(&validated);
        if found.is_empty() {
            found = misuses;
        }
        if found.is_empty() && incoming.tools.is_empty() && is_about_classes(&incoming.policy) {
            return problems;
        }
        if found.is_empty() {
            let vain = validated.validation_warnings().filter(|warning| never_applies(warning));
            found.extend(vain.map(|warning| PolicyDiagnostic::in_diagnostic(warning)).take(1));
        }
        if found.is_empty() && incoming.tools.is_empty() {
            let help = "name tools by `action == Action::\"name\"`, and groups by `action in Action::\"class:read\"`";
            problems.push(incoming.problem("the policy applies to no tool").help(help));
        }
        problems.extend(found.into_iter().map(|found| at(incoming.source, found)));
        problems
    }

    fn errors(&self, validated: &ValidationResult) -> Vec<PolicyDiagnostic> {
        let mut found: Vec<PolicyDiagnostic> =
            validated.validation_errors().map(|error| PolicyDiagnostic::in_diagnostic(error)).collect();
        // Cedar's order is not deterministic.
        found.sort_by(|one, other| (one.offset, &one.message).cmp(&(other.offset, &other.message)));
        found.dedup_by(|one, other| (one.offset, &one.message) == (other.offset, &other.message));
        for found in &mut found {
            self.tools.values().for_each(|(_, tool)| found.explain_left_out(&tool.typing));
        }
        found
    }

    fn analyse(
        &self,
        tree: &cedar_policy::pst::Policy,
        incoming: &PendingPolicy<'_>,
    ) -> (ContextReads, Vec<PolicyDiagnostic>) {
        let about = || self.tools.iter().filter(|(name, _)| incoming.tools.contains(*name));
        let types = |place: &[&str]| -> Vec<Option<&CedarType>> {
            about().map(|(_, (_, surroundings))| surroundings.at(place)).collect()
        };
        let why = |name: &str| about().find_map(|(_, (_, tool))| tool.typing.why_left_out(name));
        let mounts = about().flat_map(|(_, (_, tool))| tool.typing.mounts());
        let mounts: Vec<&str> = mounts.collect::<BTreeSet<&str>>().into_iter().collect();
        let (reads, misuses) = analyse(tree, &types, &mounts);
        let found = misuses.iter().map(|misuse| {
            let found = PolicyDiagnostic::misuse(misuse, "context.", &why);
            PolicyDiagnostic { offset: Some(incoming.offset), ..found }
        });
        (reads, found.collect())
    }

    /// The tools that match a policy's scope.
    fn tools_of(&self, policy: &Policy) -> BTreeSet<&'a str> {
        let (action, resource) = (policy.action_constraint(), policy.resource_constraint());
        let admitted = |name: &str, class: ToolClass| {
            let by_action = match &action {
                ActionConstraint::Any => true,
                ActionConstraint::Eq(wanted) => named(wanted, name),
                ActionConstraint::In(groups) => groups.iter().any(|group| {
                    named(group, name) || named(group, ANY_CLASS) || named(group, &group_of(class))
                }),
            };
            let by_resource = match &resource {
                ResourceConstraint::Any | ResourceConstraint::Is(_) => true,
                ResourceConstraint::Eq(wanted)
                | ResourceConstraint::In(wanted)
                | ResourceConstraint::IsIn(_, wanted) => named(wanted, name),
            };
            by_action && by_resource
        };
        self.tools.iter().filter(|(name, (class, _))| admitted(name, *class)).map(|(name, _)| *name).collect()
    }

    fn assemble(&self, incoming: &mut [PendingPolicy<'_>]) -> Result<LoadedPolicies, PolicyProblem> {
        let slices = self.tools.iter().map(|(name, (_, surroundings))| {
            let about = incoming.iter().enumerate().filter(|(_, policy)| policy.tools.contains(name));
            ((*name).to_owned(), self.slice(name, surroundings, about))
        });
        Ok(LoadedPolicies {
            slices: slices.collect(),
            rules: incoming.iter_mut().filter_map(|policy| policy.rule.take()).collect(),
            entities: self.entities()?,
            agent: self.kinds.agent.clone(),
            caller: self.kinds.caller.clone(),
        })
    }

    fn slice<'p>(
        &self,
        name: &str,
        surroundings: &ContextSchema,
        about: impl Iterator<Item = (usize, &'p PendingPolicy<'p>)>,
    ) -> PolicySlice {
        let mut slice = PolicySlice {
            permits: Vec::new(),
            forbids: Vec::new(),
            reads: ContextReads::default(),
            context: surroundings.clone(),
            action: EntityUid::from_type_name_and_id(self.kinds.action.clone(), EntityId::new(name)),
            resource: EntityUid::from_type_name_and_id(self.kinds.tool.clone(), EntityId::new(name)),
        };
        for (number, incoming) in about {
            slice.reads.join(&incoming.reads);
            match incoming.policy.effect() {
                Effect::Permit => slice.permits.push(number),
                Effect::Forbid => slice.forbids.push(number),
            }
        }
        slice
    }

    /// The tools and their actions; callers have no attributes, so they need no entities.
    fn entities(&self) -> Result<Entities, PolicyProblem> {
        let broken =
            |error: &dyn std::fmt::Display| without_file(format!("the tools cannot be typed: {error}"));
        let mut tools = Vec::new();
        for (name, (class, _)) in &self.tools {
            let id = EntityUid::from_type_name_and_id(self.kinds.tool.clone(), EntityId::new(name));
            let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
            let attributes = [("name".to_owned(), text(name)), ("class".to_owned(), text(class.as_str()))];
            let parents = std::collections::HashSet::new();
            tools.push(Entity::new(id, attributes.into(), parents).map_err(|error| broken(&error))?);
        }
        let actions = self.validator.schema().action_entities().map_err(|error| broken(&error))?;
        actions.add_entities(tools, None).map_err(|error| broken(&error))
    }
}

/// Whether a policy selects tools by class only: that none of that class exists today is no mistake.
fn is_about_classes(policy: &Policy) -> bool {
    let by_class = match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(_) => false,
        ActionConstraint::In(groups) => {
            groups.iter().all(|group| group.id().unescaped().starts_with("class:"))
        }
    };
    by_class && matches!(policy.resource_constraint(), ResourceConstraint::Any | ResourceConstraint::Is(_))
}

fn never_applies(warning: &ValidationWarning) -> bool {
    matches!(
        warning,
        ValidationWarning::ImpossiblePolicy(_)
            | ValidationWarning::InvalidActionApplication(_)
            | ValidationWarning::BidiCharsInString(_)
            | ValidationWarning::BidiCharsInIdentifier(_)
    )
}

fn unknown_annotations(incoming: &PendingPolicy<'_>) -> Vec<PolicyProblem> {
    let unknown = incoming.policy.annotations().filter(|(key, _)| !ANNOTATIONS.contains(key));
    let known = ANNOTATIONS.map(|name| format!("`@{name}`")).join(", ");
    let problem = |(key, _): (&str, &str)| incoming.problem(format!("unknown annotation `@{key}`"));
    unknown.map(|annotation| problem(annotation).help(format!("known are {known}"))).collect()
}

fn actions(tools: &BTreeMap<&str, (ToolClass, ContextSchema)>) -> Value {
    let mut actions = Map::new();
    for group in [ANY_CLASS.to_owned()]
        .into_iter()
        .chain([ToolClass::Read, ToolClass::Write, ToolClass::Destructive].map(group_of))
    {
        actions.insert(group, json!({}));
    }
    for (name, (class, surroundings)) in tools {
        let action = json!({
            "memberOf": [{"id": ANY_CLASS}, {"id": group_of(*class)}],
            "appliesTo": {
                "principalTypes": ["Caller", "Agent"],
                "resourceTypes": ["Tool"],
                "context": surroundings.to_cedar(),
            },
        });
        actions.insert((*name).to_owned(), action);
    }
    Value::Object(actions)
}

/// The group of a class; tool names contain no colon.
fn group_of(class: ToolClass) -> String {
    format!("class:{}", class.as_str())
}

fn named(id: &EntityUid, name: &str) -> bool {
    id.id().unescaped() == name
}

fn check_examples(
    policy: (usize, &PendingPolicy<'_>),
    loaded: &LoadedPolicies,
    problems: &mut Vec<PolicyProblem>,
) {
    let (number, incoming) = policy;
    for (key, expected) in [("allows", true), ("denies", false)] {
        let text = incoming.policy.annotation(key).unwrap_or_default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let checked = Example::parse(line)
                .and_then(|example| example.check(loaded, number, incoming.policy.effect(), expected));
            if let Err(message) = checked {
                problems
                    .push(incoming.problem(format!("the example `@{key}({line})` does not hold: {message}")));
            }
        }
    }
}
