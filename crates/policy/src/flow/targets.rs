//! The targets of a call: the values of the arguments that name where something goes.

use serde_json::Value;
use toolgate_types::{ArgumentRole, FlowDeclaration};

use super::identifiers::{is_id_said_in, is_identifier, is_short_number};
use super::provenance::{is_allowed_by, is_number_said_in, is_said_in};

/// A call with more targets has one more that nothing endorses.
const MAX_TARGETS: usize = 256;

/// How deep arguments are searched. Deeper ones count as one target that nothing endorses.
const MAX_DEPTH: usize = 64;

/// One value that names where something goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowTarget {
    /// The path of the argument: `to`, `message.to`.
    pub argument: String,
    /// The key of the declaration that makes it a target.
    pub rule: String,
    /// The value as text. Empty for what cannot be endorsed.
    pub value: String,
    /// Whether it is a number in JSON: `4.0` is then named by `4` and by `$4.00`. A text of digits, such as an id, is not.
    pub is_number: bool,
    /// Whether the configuration lists it.
    pub is_configured: bool,
}

impl FlowTarget {
    /// Whether a person who wrote this text named the value.
    #[must_use]
    pub fn is_said_in(&self, text: &str) -> bool {
        self.is_text_in(text)
            || (self.is_number && !self.is_short_id() && is_number_said_in(&self.value, text))
    }

    /// The same for a value as it is, without other forms of a number.
    #[must_use]
    pub fn is_text_in(&self, text: &str) -> bool {
        match self.is_short_id() {
            true => is_id_said_in(&self.value, &self.argument, text),
            false => is_said_in(&self.value, text),
        }
    }

    /// Whether it is a number of few digits that stands for something: a text of digits, or the value of an argument that is an identifier by its name.
    fn is_short_id(&self) -> bool {
        is_short_number(&self.value) && (!self.is_number || is_identifier(&self.argument))
    }
}

/// The targets of a call; none for a tool that declares none. `is_declared` says whether the schema of the arguments has a property of this name.
#[must_use]
pub fn targets_of(
    declaration: &FlowDeclaration,
    is_declared: &dyn Fn(&str) -> bool,
    arguments: &Value,
) -> Vec<FlowTarget> {
    if !declaration.has_target() {
        return Vec::new();
    }
    let mut walk = TargetWalk { declaration, is_declared, found: Vec::new() };
    walk.visit(arguments, &mut Vec::new(), None, 0);
    walk.found
}

/// A role, and the key that declares it.
type DeclaredRole<'w> = (&'w str, &'w ArgumentRole);

struct TargetWalk<'w> {
    declaration: &'w FlowDeclaration,
    is_declared: &'w dyn Fn(&str) -> bool,
    found: Vec<FlowTarget>,
}

impl<'w> TargetWalk<'w> {
    /// `role` is the one of the nearest argument above that has one.
    fn visit(&mut self, value: &Value, path: &mut Vec<String>, role: Option<DeclaredRole<'w>>, depth: usize) {
        let target = match role {
            Some((rule, ArgumentRole::Target(allowed))) => Some((rule, allowed.as_slice())),
            Some((_, ArgumentRole::Content)) | None => None,
        };
        if depth > MAX_DEPTH || self.found.len() >= MAX_TARGETS {
            // Content below may be a target by a longer name, so this is not skipped.
            if self.found.len() <= MAX_TARGETS {
                self.push(path, String::new(), (role.map_or("*", |(rule, _)| rule), &[]));
            }
            return;
        }
        match (value, target) {
            (Value::Null, _) => {}
            (Value::Object(members), _) => {
                for (name, member) in members {
                    // A name that the schema does not declare was chosen by the model: it is a value.
                    if let Some(target) = target.filter(|_| !(self.is_declared)(name)) {
                        self.push(path, name.clone(), target);
                    }
                    path.push(name.clone());
                    let declared = self.role_at(path, depth);
                    self.visit(member, path, declared.or(role), depth + 1);
                    path.pop();
                }
            }
            (Value::Array(items), _) => {
                for item in items {
                    self.visit(item, path, role, depth + 1);
                }
            }
            (Value::String(text), Some(target)) => self.push(path, text.clone(), target),
            (Value::Bool(_), Some(target)) => self.push(path, value.to_string(), target),
            (Value::Number(number), Some(target)) => {
                self.push(path, number.to_string(), target);
                if let Some(pushed) = self.found.last_mut() {
                    pushed.is_number = true;
                }
            }
            (Value::String(_) | Value::Number(_) | Value::Bool(_), None) => {}
        }
    }

    /// The role that this very path declares; `*` stands for every argument without one.
    fn role_at(&self, path: &[String], depth: usize) -> Option<DeclaredRole<'w>> {
        let roles = &self.declaration.arguments;
        let role = |name: &str| roles.get_key_value(name).map(|(rule, role)| (rule.as_str(), role));
        role(&path.join(".")).or_else(|| role("*").filter(|_| depth == 0))
    }

    fn push(&mut self, path: &[String], value: String, (rule, allowed): (&str, &[String])) {
        let is_configured = allowed.iter().any(|entry| is_allowed_by(&value, entry));
        let (argument, rule) = (path.join("."), rule.to_owned());
        self.found.push(FlowTarget { argument, rule, value, is_number: false, is_configured });
    }
}
