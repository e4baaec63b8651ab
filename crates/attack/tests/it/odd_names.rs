//! Names that are not UTF-8: shown as well as they can be, and no reason to fall over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
use toolgate_attack::{BenchOptions, Scratch};
use toolgate_tools::Profile;

const ODD: &[u8] = b"odd-\xff\xfe-name.txt";
const SHOWN: &str = "odd-\u{fffd}\u{fffd}-name.txt";

#[test]
fn every_listing_shows_names_that_are_not_utf8() {
    for profile in Profile::ALL {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join(OsStr::from_bytes(ODD)), "needle\n").unwrap();
        std::fs::create_dir(workspace.join(OsStr::from_bytes(b"folder-\xff"))).unwrap();
        std::fs::write(workspace.join(OsStr::from_bytes(b"folder-\xff/inner.txt")), "needle\n").unwrap();
        std::fs::write(workspace.join("even.txt"), "needle\n").unwrap();
        let bench = BenchOptions::new(profile, &workspace, &state).commands().open();
        let calls = match profile {
            Profile::Native => vec![
                ("list_directory", json!({})),
                ("find_files", json!({"glob": "*.txt"})),
                ("search_files", json!({"pattern": "needle"})),
            ],
            Profile::Crew => vec![
                ("fs.list", json!({"path": "@project"})),
                ("fs.search", json!({"path": "@project", "pattern": "needle"})),
            ],
            Profile::Claw => vec![("list_dir", json!({}))],
            Profile::Proxy => vec![("list_files", json!({})), ("list_files", json!({"directory": "."}))],
            Profile::Sidecar => {
                vec![("list_directory", json!({})), ("search_files", json!({"pattern": "needle"}))]
            }
            Profile::Studio => Vec::new(),
        };
        for (tool, arguments) in calls {
            let text = bench.must(tool, arguments).answer.text;
            assert!(text.contains(SHOWN), "{profile} {tool}: {text}");
            assert!(text.contains("folder-\u{fffd}"), "{profile} {tool}: {text}");
            assert!(text.contains("even.txt"), "{profile} {tool}: {text}");
        }
        // The shown name is not the name: asking for it finds nothing, and changes nothing.
        let path = if profile == Profile::Crew { format!("@project/{SHOWN}") } else { SHOWN.to_owned() };
        let read = crate::dress::attempts(profile, &path, "")[0].tool;
        assert!(bench.call(read, json!({"path": path})).answer.is_error);
    }
}

#[test]
fn what_the_journal_cannot_write_down_is_not_changed() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    let odd = workspace.join(OsStr::from_bytes(ODD));
    std::fs::write(&odd, "old\n").unwrap();
    std::os::unix::fs::symlink(OsStr::from_bytes(ODD), workspace.join("even.txt")).unwrap();
    let bench = BenchOptions::new(Profile::Native, &workspace, &state).open();
    for (tool, arguments) in [
        ("write_file", json!({"path": "even.txt", "content": "new\n"})),
        ("append_file", json!({"path": "even.txt", "content": "new\n"})),
        ("edit_file", json!({"path": "even.txt", "old_text": "old", "new_text": "new"})),
        ("delete_file", json!({"path": "even.txt"})),
    ] {
        let called = bench.call(tool, arguments);
        assert!(called.answer.is_error, "{tool}: {}", called.answer.text);
        assert_eq!(std::fs::read(&odd).unwrap(), b"old\n", "{tool}");
    }
    assert!(toolgate_attack::litter_below(&workspace).is_empty());
}
