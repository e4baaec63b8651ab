//! Linker options of the binary.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // Links the unwinder (`libgcc_eh`) statically: finding and loading `libgcc_s` takes longer than loading the configuration, and a small
        // container lacks it.
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
        println!("cargo::rustc-link-lib=static:-bundle=gcc");
    }
}
