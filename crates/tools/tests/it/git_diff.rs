//! What `git_diff` leaves out is what the deny list names: a history holds what the workspace hides.

use toolgate_manifest::ToolManifest;
use toolgate_workspace::DEFAULT_DENY;

const MANIFEST: &str = include_str!("../../../../tools.d/git_diff.yaml");

/// Denied as a file, and a fine name for a folder of source code.
const FILES_ALONE: &[&str] = &["credentials"];

/// What git is told to leave out for one rule: the place itself, what lies below it, and the copies that editors and people make of it
/// (`~`, `.bak`, `.orig`, `.old`).
fn left_out(rule: &str) -> Vec<String> {
    let below = (!FILES_ALONE.contains(&rule)).then_some("/**");
    let endings = [Some(""), below, Some("~"), Some(".[bo][arl][kid]*")];
    endings
        .into_iter()
        .flatten()
        .map(|ending| format!(":(top,exclude,icase,glob)**/{rule}{ending}"))
        .collect()
}

#[test]
fn it_leaves_out_exactly_what_is_denied() {
    // Nothing below `.git` is ever in a commit.
    let rules = DEFAULT_DENY.iter().filter(|rule| !rule.starts_with(".git/"));
    let wanted: Vec<String> = rules.flat_map(|rule| left_out(rule)).collect();
    let (manifest, _) = ToolManifest::parse_bytes("git_diff.yaml", MANIFEST.as_bytes()).unwrap();
    let arguments = serde_json::json!({"from": "main", "to": "HEAD"});
    let argv = manifest.command.template.render(&arguments).unwrap();
    let given: Vec<&String> = argv.iter().filter(|argument| argument.contains("exclude")).collect();
    let lines = || wanted.iter().map(|line| format!("  - \"{line}\"\n")).collect::<String>();
    assert!(given.iter().copied().eq(&wanted), "tools.d/git_diff.yaml should leave out:\n{}", lines());
}
