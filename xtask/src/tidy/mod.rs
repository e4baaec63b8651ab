//! Rules that compilers do not check.

mod arrows;
mod files;
mod finding;
mod manifests;
mod sources;
mod vocabulary;

use crate::Fault;
use crate::command::{cargo, root};
use crate::metadata::Metadata;
use finding::Finding;

pub(crate) fn run() -> Result<(), Fault> {
    let root = root()?;
    let metadata = Metadata::ask(cargo(&[])?)?;
    let arrows = arrows::Arrows::parse(&std::fs::read_to_string(root.join(arrows::FILE))?);
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;

    let mut findings = arrows.compare(&arrows::crates(&metadata, &root));
    findings.extend(manifests::same_order(&arrows.names(), &manifest));
    findings.extend(manifests::reasons(&manifest));
    let mut types = vocabulary::TypeNames::default();
    for file in files::all(&root)? {
        findings.extend(manifests::check(&file));
        findings.extend(sources::check(&file));
        findings.extend(vocabulary::check(&file));
        types.add(&file);
    }
    findings.extend(types.check(&std::fs::read_to_string(root.join(vocabulary::SHARED_TYPES))?));
    report(&findings)
}

fn report(findings: &[Finding]) -> Result<(), Fault> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.iter().filter(|finding| finding.is_error()).count() {
        0 => {
            println!("tidy: nothing to correct");
            Ok(())
        }
        errors => Err(format!("tidy: {errors} to correct").into()),
    }
}
