//! Every sentence in the lists names an existing test, and every test of this suite is named by a sentence.

use std::path::{Path, PathBuf};

/// A sentence that a profile has to keep.
struct ProfileSentence {
    /// Section and number in the document that requires it.
    section: String,
    sentence: String,
    /// `path/from/the/root.rs::name`.
    test: String,
}

const PROFILES: &[&str] = &["crew", "claw", "proxy", "sidecar", "studio"];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles")
}

fn rows(profile: &str) -> Vec<ProfileSentence> {
    let text = std::fs::read_to_string(directory().join(format!("{profile}.txt"))).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let fields: Vec<String> = line.split(" | ").map(|field| field.trim().to_owned()).collect();
        let [section, sentence, test] = <[String; 3]>::try_from(fields)
            .unwrap_or_else(|fields| panic!("{profile}.txt: three fields, not {fields:?}"));
        ProfileSentence { section, sentence, test }
    };
    lines.map(row).collect()
}

/// The test files of a profile: the one of its name, and those in the directory of its name.
fn files(profile: &str) -> Vec<String> {
    let inside = std::fs::read_dir(directory().join(profile)).into_iter().flatten();
    let inside = inside.map(|entry| format!("{profile}/{}", entry.unwrap().file_name().to_string_lossy()));
    inside.chain([format!("{profile}.rs")]).collect()
}

#[test]
fn every_sentence_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for profile in PROFILES {
        for ProfileSentence { section, sentence, test } in rows(profile) {
            assert!(!section.is_empty() && !sentence.is_empty(), "{profile}.txt: a row says nothing");
            let (file, name) =
                test.split_once("::").unwrap_or_else(|| panic!("{profile}, {section}: `{test}` is no test"));
            let code = std::fs::read_to_string(root.join(file))
                .unwrap_or_else(|error| panic!("{profile}, {section}: {file}: {error}"));
            assert!(code.contains(&format!("fn {name}(")), "{profile}, {section}: there is no test `{test}`");
        }
    }
}

#[test]
fn every_test_of_a_profile_stands_for_a_sentence() {
    for profile in PROFILES {
        let named: Vec<String> = rows(profile).into_iter().map(|row| row.test).collect();
        for file in files(profile) {
            let code = std::fs::read_to_string(directory().join(&file)).unwrap();
            let lines: Vec<&str> = code.lines().collect();
            for pair in lines.windows(2).filter(|pair| pair[0].trim() == "#[test]") {
                let name = pair[1].trim().trim_start_matches("fn ").split('(').next().unwrap();
                let test = format!("crates/toolgate/tests/profiles/{file}::{name}");
                assert!(named.contains(&test), "{profile}.txt has no sentence for `{name}`");
            }
        }
    }
}
