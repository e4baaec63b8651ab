//! Embeds the files that `vite build` wrote to `web/dist`, if it did.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a build script reads the repository and speaks to cargo on its standard output"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The list that the page's build writes last: one `path<TAB>etag` per line.
const LIST: &str = "files.txt";

fn main() -> Result<(), Box<dyn Error>> {
    let dist = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../../web/dist");
    // The directory is committed, with nothing but a `.gitignore`: a path that does not exist would rebuild this crate every time.
    println!("cargo:rerun-if-changed={}", dist.display());
    println!("cargo:rerun-if-changed=build.rs");
    let list = std::fs::read_to_string(dist.join(LIST)).unwrap_or_default();
    std::fs::write(Path::new(&variable("OUT_DIR")?).join("files.rs"), table(&dist, &list)?)?;
    Ok(())
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    Ok(std::env::var(name).map_err(|error| format!("{name}: {error}"))?)
}

/// The files as a constant, sorted by path.
fn table(dist: &Path, list: &str) -> Result<String, Box<dyn Error>> {
    let mut lines: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once('\t')).collect();
    lines.sort_unstable();
    let mut code = String::from("static FILES: &[Asset] = &[\n");
    for (path, etag) in lines {
        let included = |suffix: &str| format!("include_bytes!({:?})", dist.join(format!("{path}{suffix}")));
        writeln!(
            code,
            "    Asset {{ path: {path:?}, etag: {:?}, plain: {}, gzip: {}, brotli: {} }},",
            format!("\"{etag}\""),
            included(""),
            included(".gz"),
            included(".br"),
        )?;
    }
    code.push_str("];\n");
    Ok(code)
}
