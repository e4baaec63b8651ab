//! The files for container engines name paths, options and programs that exist.

use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The instructions of the image, with continued lines joined.
fn instructions() -> Vec<String> {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
}

/// Whether `toolgate eval` takes these words. The cases are listed instead of played.
fn is_understood(words: &[String]) -> bool {
    let Some((command, options)) = words.split_first() else { return false };
    let listed = Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .arg(command)
        .args(options)
        .arg("--list")
        .output()
        .unwrap();
    command == "eval" && listed.status.success()
}

#[test]
fn everything_that_the_image_is_made_of_exists() {
    for line in instructions().iter().filter(|line| line.starts_with("COPY ") && !line.contains("--from=")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        for source in &words[..words.len() - 1] {
            assert!(root().join(source).exists(), "{line}");
        }
    }
    let members = read("Cargo.toml");
    for member in ["crates/toolgate", "benches", "xtask"] {
        assert!(members.contains(&format!("\"{member}\"")), "{member}");
    }
    let rust = format!("rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(
        read("deploy/Dockerfile").contains(&rust),
        "the image builds with another compiler than `rust-version`"
    );
}

#[test]
fn the_image_runs_the_suite_as_an_ordinary_user() {
    let instructions = instructions();
    let last = |word: &str| instructions.iter().rfind(|line| line.starts_with(word)).unwrap().clone();
    let binary = "/usr/local/bin/toolgate";
    assert!(last("COPY --from=binary").ends_with(binary));
    assert_eq!(last("ENTRYPOINT"), format!("ENTRYPOINT [\"{binary}\"]"));
    assert_eq!(last("USER"), "USER 10001:10001");
    let words: Vec<String> = serde_json::from_str(last("CMD").trim_start_matches("CMD ")).unwrap();
    assert!(is_understood(&words), "{words:?}");
}

#[test]
fn compose_names_the_image_and_options_that_exist() {
    let compose: serde_json::Value = serde_saphyr::from_str(&read("compose.yaml")).unwrap();
    let service = &compose["services"]["eval"];
    assert!(root().join(service["build"]["dockerfile"].as_str().unwrap()).exists());
    assert_eq!(service["read_only"], true);
    assert_eq!(service["user"], "10001:10001");
    assert_eq!(service["volumes"][0], "record:/record");
    let command = service["command"].as_str().unwrap();
    let (plain, with_key) = command.split_once("${ANTHROPIC_API_KEY:+").unwrap();
    let model = with_key.replace("${TOOLGATE_MODEL:-", "").replace("}}", "");
    for line in [plain.to_owned(), format!("{plain} {model}")] {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert!(is_understood(&words), "{words:?}");
    }
}
