//! Compiles argument lists: every placeholder must be a declared argument of a type that is valid at its position.

use std::rc::Rc;

use super::MountPath;
use super::property::{Properties, Property, ValueFacts};
use super::template::{
    CommandTemplate, Element, RawPiece, Slot, TemplatePart, TemplatePiece, TextTemplate, slots, split,
};
use crate::decode::{ConfigField, KeySpec, Section, key, nearest_or_all, text};
use crate::problem::shown;
use crate::problem_report::ProblemReport;
use crate::yaml_tree::{ConfigNode, NodeKind};

const CHOICE: &[KeySpec] =
    &[key("if", "if: verbose"), key("then", "then: [--verbose]"), key("else", "else: [--quiet]")];

/// The key of an element that expands to pathspecs.
const PATHSPECS: &str = "git_pathspecs";

/// The context of a template.
pub(super) struct TemplateScope<'s> {
    pub(super) properties: &'s Properties,
    /// The working directory of the command.
    pub(super) directory: Option<&'s MountPath>,
    /// The aliases of its mounts.
    pub(super) mounts: Vec<&'s str>,
}

/// Compiles the list of `command`.
pub(super) fn command(
    field: &ConfigField,
    scope: &TemplateScope<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<CommandTemplate> {
    let NodeKind::List(items) = &field.node.kind else {
        let message = format!(
            "{} must be a list with one item for each argument, not {}",
            field.name,
            field.node.describe()
        );
        let help = format!("no shell reads it; for example `{}`", field.example);
        report.node(&field.node, message, Some(help));
        return None;
    };
    let Some((first, rest)) = items.split_first() else {
        report.node(&field.node, "`command` is empty", Some(format!("for example `{}`", field.example)));
        return None;
    };
    let program = program(first, report);
    let mut compiler = Compiler { scope, report, separated: false };
    let parts: Vec<Option<TemplatePart>> = rest.iter().map(|item| compiler.part(item)).collect();
    Some(CommandTemplate { program: program?, parts: parts.into_iter().collect::<Option<_>>()? })
}

/// Compiles the text of `stdin`.
pub(super) fn stdin(
    field: &ConfigField,
    scope: &TemplateScope<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<TextTemplate> {
    let text = text(field, report)?;
    let mut compiler = Compiler { scope, report, separated: true };
    let pieces = compiler.pieces(&text, &field.node)?;
    let alone = pieces.len() == 1;
    let mut fits = compiler.paths_fit(&pieces, &field.node, |before| {
        before.ends_with(|last: char| last.is_whitespace() || matches!(last, '=' | ':' | ',' | '"' | '\''))
    });
    for slot in slots(&pieces) {
        let plain = scope.properties.get(&slot.name).is_some_and(|property| property.facts.is_plain());
        if !alone && !plain {
            let help = "let it stand alone, so that it is written as JSON".to_owned();
            let message = format!("`{{{}}}` can be more than text, a number or a truth value", slot.name);
            compiler.report.node(&field.node, message, Some(help));
            fits = false;
        }
    }
    fits.then_some(TextTemplate { pieces })
}

fn program(node: &Rc<ConfigNode>, report: &mut ProblemReport<'_>) -> Option<String> {
    let help = Some("write a name such as `git`, or an absolute path".to_owned());
    let Some(text) = node.text().filter(|text| !text.is_empty()) else {
        report.node(node, format!("the program must be text, not {}", node.describe()), help);
        return None;
    };
    let reason = if text.contains(['{', '}']) {
        "must be literal, without a placeholder"
    } else if text.contains(char::is_whitespace) {
        "holds a space; every argument is an item of its own"
    } else if text.contains(char::is_control) {
        "holds an invisible character"
    } else if text.starts_with('-') {
        "is an option, not a program"
    } else if !text.starts_with('/') && text.contains('/') {
        "is a relative path, which a call could fill with another program"
    } else if text.split('/').any(|part| matches!(part, "." | "..")) {
        "has a `.` or `..` part"
    } else {
        return Some(text.to_owned());
    };
    report.node(node, format!("the program `{}` {reason}", shown(text)), help);
    None
}

struct Compiler<'c, 's, 'r> {
    scope: &'c TemplateScope<'s>,
    report: &'c mut ProblemReport<'r>,
    /// Whether an unconditional `--` precedes.
    separated: bool,
}

impl Compiler<'_, '_, '_> {
    fn part(&mut self, node: &Rc<ConfigNode>) -> Option<TemplatePart> {
        match &node.kind {
            NodeKind::Scalar { .. } => {
                let element = self.element(node, self.separated)?;
                self.separated |= element.is_separator();
                let group = vec![element];
                self.warn_about_absence(&group, node);
                Some(TemplatePart::Group(group))
            }
            NodeKind::List(items) => {
                let group = self.elements(items)?;
                if group.iter().all(|element| element.slots().next().is_none()) {
                    let help = "write its words into the list itself".to_owned();
                    self.report.node(
                        node,
                        "this group has no placeholder, so it is always there",
                        Some(help),
                    );
                    return None;
                }
                self.warn_about_absence(&group, node);
                Some(TemplatePart::Group(group))
            }
            NodeKind::Map(entries) => match &**entries {
                [(name, value)] if value.is_null() => {
                    let text = shown(name.text().unwrap_or_default());
                    let help = Some(format!("write `\"{{{text}}}\"`"));
                    self.report.node(node, "a placeholder that stands alone must be in quotes", help);
                    None
                }
                [(name, value)] if name.text() == Some(PATHSPECS) => self.pathspecs(value),
                _ => self.choice(node),
            },
        }
    }

    /// Git reads pathspecs after `--`, relative to its working directory, which must be the mount whose rules they
    /// are.
    fn pathspecs(&mut self, node: &Rc<ConfigNode>) -> Option<TemplatePart> {
        let here = self.scope.directory.filter(|here| here.path.is_empty()).map(|here| here.alias.as_str());
        let Some(alias) = node.text().filter(|alias| Some(*alias) == here) else {
            let message = format!("`{PATHSPECS}` must name the mount that the command runs in, as a whole");
            let help = "write `cwd: \"@project\"` and `{git_pathspecs: \"@project\"}`".to_owned();
            self.report.node(node, message, Some(help));
            return None;
        };
        if !self.separated {
            let help = "put `\"--\"` before it".to_owned();
            self.report.node(node, "pathspecs stand where git looks for options", Some(help));
            return None;
        }
        Some(TemplatePart::Pathspecs { alias: alias.to_owned() })
    }

    fn choice(&mut self, node: &Rc<ConfigNode>) -> Option<TemplatePart> {
        let example = "{if: verbose, then: [--verbose]}";
        let field = ConfigField { name: "a choice".to_owned(), example, node: Rc::clone(node) };
        let section = Section::read(&field, CHOICE, self.report)?;
        for name in ["if", "then"] {
            if section.lacks(name) {
                let help = format!("for example `{example}`");
                self.report.node(node, format!("a choice without `{name}`"), Some(help));
            }
        }
        let name = section.get("if", self.report, |field, report| {
            text(field, report).map(|text| (text, Rc::clone(&field.node)))
        });
        let mut arguments = |name: &str| match section.field(name) {
            Some(field) => match &field.node.kind {
                NodeKind::List(items) => self.elements(items),
                _ => {
                    field.report_expected("a list of arguments", self.report);
                    None
                }
            },
            None => Some(Vec::new()),
        };
        let (then, otherwise) = (arguments("then"), arguments("else"));
        let (name, place) = name?;
        let property = self.property(&name, &place)?;
        if property.facts.kinds != ["boolean"] {
            let help = "a group such as `[\"--author\", \"{author}\"]` is left out when its value is absent"
                .to_owned();
            self.report.node(&place, format!("`{}` is not a truth value", shown(&name)), Some(help));
            return None;
        }
        Some(TemplatePart::Choice { name, then: then?, otherwise: otherwise? })
    }

    /// Elements that are present or absent together: a `--` among them protects those after it, and nothing outside.
    fn elements(&mut self, items: &[Rc<ConfigNode>]) -> Option<Vec<Element>> {
        let mut separated = self.separated;
        let mut elements = Vec::new();
        for item in items {
            let element = self.element(item, separated);
            separated |= element.as_ref().is_some_and(Element::is_separator);
            elements.push(element);
        }
        elements.into_iter().collect()
    }

    fn element(&mut self, node: &Rc<ConfigNode>, after_separator: bool) -> Option<Element> {
        let Some(text) = node.text().filter(|_| !node.is_null()) else {
            let help = "quote placeholders: `\"{name}\"`".to_owned();
            self.report.node(node, format!("an argument must be text, not {}", node.describe()), Some(help));
            return None;
        };
        let element = Element { pieces: self.pieces(text, node)?, after_separator };
        let before = self.report.count();
        self.check_kinds(&element, node);
        self.check_option(&element, node);
        self.check_paths(&element, node);
        if self.report.count() > before {
            return None;
        }
        self.warn_about_options(&element, node);
        Some(element)
    }

    /// Such values are refused when a call is rendered; the schema should exclude them already.
    fn warn_about_options(&mut self, element: &Element, node: &ConfigNode) {
        let [TemplatePiece::Slot(slot), ..] = &*element.pieces else { return };
        let Some(property) = self.scope.properties.get(&slot.name).filter(|_| !element.after_separator)
        else {
            return;
        };
        if property.of_one_value().may_begin_with_a_dash() {
            let message = format!("`{{{}}}` can begin with `-` where a program looks for options", slot.name);
            let help = "put `\"--\"` before it, join it to its option with `=`, or exclude it by `pattern`, `enum` or `minimum`";
            self.report.warn(node, message, help);
        }
    }

    fn warn_about_absence(&mut self, group: &[Element], node: &ConfigNode) {
        let required = group.iter().flat_map(Element::slots).find(|slot| slot.required);
        let optional = group.iter().flat_map(Element::slots).find(|slot| !slot.required);
        if let (Some(required), Some(optional)) = (required, optional) {
            let message =
                format!("without `{}` the value of `{}` is left out too", optional.name, required.name);
            self.report.warn(node, message, "make both required, or write two arguments");
        }
    }

    fn pieces(&mut self, text: &str, node: &Rc<ConfigNode>) -> Option<Vec<TemplatePiece>> {
        let spelt = match split(text) {
            Ok(spelt) => spelt,
            Err(reason) => {
                let help = "a placeholder is `{name}`; write `{{` and `}}` for braces".to_owned();
                self.report.node(node, format!("`{}`: {reason}", shown(text)), Some(help));
                return None;
            }
        };
        let piece = |spelt: RawPiece| match spelt {
            RawPiece::Literal(text) if text.contains('\0') => {
                self.report.node(node, "an argument cannot hold NUL", None);
                None
            }
            RawPiece::Literal(text) => Some(TemplatePiece::Literal(text)),
            RawPiece::Placeholder(name) => {
                let slot = self.slot(&name, node)?;
                Some(TemplatePiece::Slot(slot))
            }
        };
        let pieces: Vec<Option<TemplatePiece>> = spelt.into_iter().map(piece).collect();
        pieces.into_iter().collect()
    }

    fn property(&mut self, name: &str, node: &ConfigNode) -> Option<&Property> {
        let known = self.scope.properties.get(name);
        if known.is_none() {
            let names = self.scope.properties.names();
            let help = match names.clone().next() {
                Some(_) => nearest_or_all(name, names),
                None => "declare it under `input.properties`".to_owned(),
            };
            self.report.node(node, format!("`{}` is not an argument of this tool", shown(name)), Some(help));
        }
        known
    }

    fn slot(&mut self, name: &str, node: &ConfigNode) -> Option<Slot> {
        let property = self.property(name, node)?.clone();
        let facts = property.of_one_value();
        let root = match &facts.rules.path {
            Some(folder) => self.root(folder, node)?,
            None => String::new(),
        };
        Some(Slot {
            name: property.name.clone(),
            required: property.required,
            whole_numbers: facts.is("integer") && !facts.is("number"),
            rules: facts.rules.clone(),
            root,
        })
    }

    /// The prefix of a mount's path, so that it can never be read as an option.
    fn root(&mut self, folder: &MountPath, node: &ConfigNode) -> Option<String> {
        if !self.scope.mounts.contains(&folder.alias.as_str()) {
            let message = format!("the path begins in `{}`, which the command cannot see", folder.alias);
            let help = format!("add `\"{}\"` to `mounts`", folder.alias);
            self.report.node(node, message, Some(help));
            return None;
        }
        let here = self.scope.directory.filter(|here| here.alias == folder.alias && here.path.is_empty());
        Some(match here {
            Some(_) => ".".to_owned(),
            None => MountPath { alias: folder.alias.clone(), path: String::new() }.inside(),
        })
    }

    fn check_kinds(&mut self, element: &Element, node: &ConfigNode) {
        let alone = element.whole().is_some();
        for slot in element.slots() {
            let Some(property) = self.scope.properties.get(&slot.name) else { continue };
            let Some((message, help)) = unusable(property, alone) else { continue };
            self.report.node(node, format!("`{{{}}}` {message}", slot.name), Some(help.to_owned()));
        }
    }

    /// A value after the start of an option must not be able to turn it into another option.
    fn check_option(&mut self, element: &Element, node: &ConfigNode) {
        let [TemplatePiece::Literal(prefix), TemplatePiece::Slot(slot), ..] = &*element.pieces else {
            return;
        };
        let Some(name) = prefix.strip_prefix('-').filter(|_| !element.after_separator) else { return };
        let ended = name.contains(|character: char| {
            !character.is_ascii_alphanumeric() && !matches!(character, '-' | '_')
        });
        let attached = name.len() == 1 && name != "-";
        let closed = self.scope.properties.get(&slot.name).is_some_and(|property| property.facts.is_closed());
        if ended || (attached && closed) {
            return;
        }
        let help = match name.trim_start_matches('-') {
            "" => "write out the options, and choose between them with `{if: …, then: […]}`".to_owned(),
            _ if attached => format!("write `[\"{prefix}\", \"{{{}}}\"]`", slot.name),
            _ => format!("write `\"{prefix}={{{}}}\"`, or a group of two arguments", slot.name),
        };
        let message = format!("the value after `{prefix}` could make another option of it");
        self.report.node(node, message, Some(help));
    }

    fn check_paths(&mut self, element: &Element, node: &ConfigNode) {
        self.paths_fit(&element.pieces, node, |before| before.ends_with(['=', ':', ',']));
    }

    /// A path is written relative to the working directory, so no text may precede it that changes its meaning.
    fn paths_fit(
        &mut self,
        pieces: &[TemplatePiece],
        node: &ConfigNode,
        ends: impl Fn(&str) -> bool,
    ) -> bool {
        let mut before: Option<&TemplatePiece> = None;
        let mut fits = true;
        for piece in pieces {
            let ended = match before {
                None => true,
                Some(TemplatePiece::Literal(text)) => ends(text),
                Some(TemplatePiece::Slot(_)) => false,
            };
            if let TemplatePiece::Slot(slot) = piece
                && slot.rules.path.is_some()
                && !ended
            {
                let help = "let it begin an argument, or follow `=`, `:` or `,`".to_owned();
                self.report.node(node, format!("the path `{{{}}}` cannot stand here", slot.name), Some(help));
                fits = false;
            }
            before = Some(piece);
        }
        fits
    }
}

/// Why a value cannot be part of an argument, and a remedy.
fn unusable(property: &Property, alone: bool) -> Option<(&'static str, &'static str)> {
    let Property { facts, items, .. } = property;
    if facts.kinds.is_empty() {
        return Some(("has no type, so that anything could come", "say its `type` in `input.properties`"));
    }
    if facts.is("object") {
        return Some(("is an object, which is not an argument", "name its fields, or pass it on `stdin`"));
    }
    if !facts.is("array") {
        return None;
    }
    if !alone {
        let help = "let `\"{name}\"` be an element of its own; it becomes one argument for each item";
        return Some(("is a list, which cannot stand inside a longer argument", help));
    }
    let plain = items.as_ref().is_some_and(ValueFacts::is_plain);
    (!plain).then_some(("is a list whose items are not said to be plain", "say the `type` of its `items`"))
}
