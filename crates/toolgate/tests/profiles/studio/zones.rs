//! Two zones, and symlinks between them.

use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{Studio, Told};

fn write(path: &str) -> String {
    format!(
        "steps:\n  - calls: [{{tool: file_write, arguments: {{path: '{path}', content: made}}}}]\n  - say: Done.\n"
    )
}

fn read(path: &str) -> String {
    format!("steps:\n  - calls: [{{tool: file_read, arguments: {{path: '{path}'}}}}]\n  - say: Done.\n")
}

/// The error code of the only call, and how the turn ended.
fn outcome(told: &Told) -> (Option<&str>, &str) {
    let result = told.all("chat:tool-result")[0];
    (result["metadata"]["code"].as_str(), told.end()["reason"].as_str().unwrap())
}

/// "Tool sandbox allows writes to two zones per project: 1. project root, 2. `~/bmad-studio/projects/{project-name}/`".
#[test]
fn a_project_has_its_second_zone_at_home_or_where_it_is_said() {
    let studio = Studio::new("project: shop\n");
    // The directory is created when the gate starts, so `check` does not warn of it.
    let fresh = crate::fixture::CliFixture::new();
    fresh.write("toolgate.yaml", "profile: studio\nproject: shop\n");
    fresh.must(&["check", "--strict"]);
    assert_eq!(outcome(&studio.run(&write("@central/plan.md"), &[])), (None, "done"));
    let made = studio.0.home.join("bmad-studio/projects/shop/plan.md");
    assert_eq!(std::fs::read_to_string(made).unwrap(), "made");
    assert_eq!(outcome(&studio.run(&write("src/a.txt"), &[])), (None, "done"));
    assert!(studio.0.workspace.join("src/a.txt").exists());
    // Another directory for the same project.
    let studio = Studio::new("project: shop\ncentral: elsewhere\n");
    assert_eq!(outcome(&studio.run(&write("@central/plan.md"), &[])), (None, "done"));
    assert!(studio.0.scratch.path().join("elsewhere/plan.md").exists());
    assert!(!studio.0.home.join("bmad-studio").exists());
    // The name must be a single path component.
    for config in ["project: ../other\n", "project: a/b\n", "project: .hidden\n", "project: ''\n"] {
        let output = Studio::new(config).0.run(&["check"]);
        assert_eq!(output.status.code(), Some(2), "{config}: {output:?}");
    }
    let other = crate::fixture::CliFixture::new();
    other.write("toolgate.yaml", "project: shop\n");
    let said = String::from_utf8(other.run(&["tools"]).stderr).unwrap();
    assert!(
        said.contains("write `profile: studio`, or name the directory of the second zone with `central`"),
        "{said}"
    );
}

/// A second zone with which no gate could start is a configuration error.
#[test]
fn a_second_zone_that_cannot_be_mounted_is_found_by_check() {
    for (central, why) in [
        ("/", "is the root of the filesystem and cannot be mounted as `@central`"),
        ("root", "is the root of the filesystem and cannot be mounted as `@central`"),
        ("file", "is no directory and cannot be mounted as `@central`"),
        ("file/beneath", "is no directory and cannot be mounted as `@central`"),
        ("tools.d", "belongs to the gate and cannot be mounted as `@central`"),
    ] {
        let studio = Studio::new("");
        studio.0.write("toolgate.yaml", &format!("profile: studio\ncentral: {central}\ntools: [tools.d]\n"));
        studio.0.write("file", "");
        studio.0.write("tools.d/notes.txt", "");
        symlink("/", studio.0.scratch.path().join("root")).unwrap();
        let output = studio.0.run(&["check"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(why) && said.contains(" — "), "{central}: {output:?}");
        assert_eq!(output.status.code(), Some(2), "{central}");
    }
}

/// "Resolve symlinks and `..` to absolute path; check resolved path within `projectRoot` OR `centralRoot`": a symlink from one zone into the other is
/// judged by its target.
#[test]
fn a_symlink_from_one_zone_into_the_other_is_judged_by_the_target() {
    let table: [(&str, &str, &str, Option<&str>); 7] = [
        // Symlink in the project, its target, the written path, and the error code if refused.
        ("into", "../c", "into/new.txt", None),
        ("file", "../c/there.txt", "file", None),
        ("secret", "../c/.env", "secret", Some("denied_path")),
        (".env", "../c/there.txt", ".env", Some("denied_path")),
        ("out", "../outside", "out/new.txt", Some("symlink_outside_workspace")),
        ("out", "/etc", "out/hostname", Some("symlink_outside_workspace")),
        ("dead", "../c/missing/x", "dead", Some("symlink_outside_workspace")),
    ];
    for (link, target, path, refused) in table {
        let studio = Studio::new("central: c\n");
        for (file, content) in [("c/there.txt", "old"), ("c/.env", "KEY=1"), ("outside/x", "x")] {
            studio.0.write(file, content);
        }
        symlink(target, studio.0.workspace.join(link)).unwrap();
        let told = studio.run(&write(path), &[]);
        // "Sandbox violations: hard stop — terminate loop entirely."
        let reason = if refused.is_some() { "violation" } else { "done" };
        assert_eq!(outcome(&told), (refused, reason), "{link} -> {target}: {:?}", told.output);
        let changed = ["c/new.txt", "c/there.txt"].map(|file| {
            std::fs::read_to_string(studio.0.scratch.path().join(file)).is_ok_and(|content| content == "made")
        });
        assert_eq!(changed.contains(&true), refused.is_none(), "{link} -> {target}");
        assert!(!studio.0.scratch.path().join("outside/new.txt").exists());
    }
}

/// The access of the target's zone counts, and an agent's granted paths hold in both zones.
#[test]
fn a_symlink_gives_no_more_rights_than_its_target_has() {
    let studio = Studio::new("mounts: {'@central': {path: c, access: ro}}\n");
    studio.0.write("c/there.txt", "old");
    symlink("../c", studio.0.workspace.join("into")).unwrap();
    let told = studio.run(&read("into/there.txt"), &[]);
    assert_eq!(outcome(&told), (None, "done"));
    let result: Value =
        serde_json::from_str(told.all("chat:tool-result")[0]["result"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&result["output"], &result["metadata"]["path"]),
        (&"old".into(), &"@central/there.txt".into())
    );
    assert_eq!(outcome(&studio.run(&write("into/there.txt"), &[])).0, Some("read_only"));
    // `paths` are matched against the target of a symlink.
    let place = crate::fixture::CliFixture::new();
    place.write(
        "toolgate.yaml",
        "profile: studio\ncentral: c\nagents: {dev: {tool_permissions: {file_write: {allowed: true, paths: ['src/**']}}}}\n",
    );
    place.write("c/src/x", "x");
    place.write("w/src/x", "x");
    symlink("../../c", place.workspace.join("src/into")).unwrap();
    let studio = Studio(place);
    assert_eq!(outcome(&studio.run(&write("src/into/src/a.txt"), &[])), (None, "done"));
    assert_eq!(outcome(&studio.run(&write("src/into/a.txt"), &[])), (Some("out_of_scope"), "violation"));
}
