//! Evaluates a manifest's examples against its permissions. Their expected results were checked when the file was parsed.

use std::collections::BTreeSet;

use toolgate_manifest::{
    ConfigProblem, ExampleCaller, Expectation, ManifestExample, NamedPath, RealPaths, ToolManifest,
};
use toolgate_policy::{
    ALLOW_DESTRUCTIVE, CallFacts, Elevation, HeldPermissions, PolicyDecision, Requirements,
};
use toolgate_types::{Caller, ToolClass, Trust};

/// The examples whose result differs from the expected one.
pub(super) fn check(manifest: &ToolManifest, requirements: &Requirements) -> Vec<ConfigProblem> {
    let fits = toolgate_schema::validator(&manifest.input);
    let Ok(schema) = fits else {
        return vec![manifest.problem_at(&manifest.name, "the schema of `input` cannot be used", None)];
    };
    let fits = |example: &ManifestExample| {
        let input = &example.input.value;
        schema.is_valid(input)
            && manifest.command.template.render(input).is_ok()
            && manifest.command.named_paths(input).is_ok_and(|paths| paths.iter().all(fits_as_spelt))
            && manifest
                .command
                .stdin
                .as_ref()
                .is_none_or(|stdin| stdin.render(input, &RealPaths::default()).is_ok())
    };
    manifest
        .examples
        .iter()
        .filter_map(|example| try_one(manifest, requirements, example, fits(example)))
        .collect()
}

/// Whether the file name has an accepted extension, as written.
fn fits_as_spelt(named: &NamedPath) -> bool {
    named.extensions.check(&named.path.path, &named.argument).is_ok()
}

fn try_one(
    manifest: &ToolManifest,
    requirements: &Requirements,
    example: &ManifestExample,
    fits: bool,
) -> Option<ConfigProblem> {
    let caller = caller(manifest, example.caller.as_ref())?;
    let input = &example.input.value;
    let paths = super::path_inputs(manifest).lexical_paths(input);
    let holdings = HeldPermissions::granted(&caller);
    let facts = CallFacts { caller: &caller, held: holdings, input, paths: Some(&paths), calls: 0 };
    let decision = requirements.check(&facts);
    let wrong = match (example.expect.value, decision) {
        (Expectation::Allowed, PolicyDecision::Denied { operator_reason }) => {
            Some(format!("this call would be denied: {operator_reason}"))
        }
        (Expectation::Denied, PolicyDecision::Allowed) if fits => {
            Some("this call would be allowed".to_owned())
        }
        (Expectation::Elevated, _) => match requirements.elevation(&facts) {
            Elevation::Ordinary => Some("the condition of `elevated` does not hold for this call".to_owned()),
            Elevation::Elevated | Elevation::Undecided(_) => None,
        },
        _ => None,
    };
    wrong.map(|message| manifest.problem_at(&example.expect, message, None))
}

/// The caller of an example; by default one with exactly the permissions that every call of this tool needs.
fn caller(manifest: &ToolManifest, declared: Option<&ExampleCaller>) -> Option<Caller> {
    let needed = || -> BTreeSet<String> {
        let destructive =
            (manifest.class.value == ToolClass::Destructive).then(|| ALLOW_DESTRUCTIVE.to_owned());
        manifest.permissions.iter().map(|permission| permission.value.clone()).chain(destructive).collect()
    };
    let permissions = match declared {
        Some(caller) => caller.permissions.iter().map(|permission| permission.value.clone()).collect(),
        None => needed(),
    };
    Some(Caller {
        subject: declared.and_then(|caller| caller.subject.clone()).unwrap_or_else(|| "example".to_owned()),
        permissions,
        agent: declared.and_then(|caller| caller.agent.as_ref()).map(|agent| agent.value.clone()),
        session: "example".parse().ok()?,
        run: None,
        trust: declared.and_then(|caller| caller.trust).unwrap_or(Trust::Guided),
    })
}
