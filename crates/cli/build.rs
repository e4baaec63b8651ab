//! How the binary is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // What unwinds a panic is taken in: to find and load it as a library takes longer than to load the configuration, and a small container lacks it.
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
        println!("cargo::rustc-link-lib=static:-bundle=gcc");
    }
}
