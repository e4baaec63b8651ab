//! Any bytes as a configuration: parsed, or rejected with problems that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_manifest::Config;

fuzz_target!(|bytes: &[u8]| {
    match Config::parse_bytes("toolgate.yaml", bytes) {
        Ok(config) => {
            let _ = config.check_tools(&["read_file"]);
        }
        Err(problems) => assert!(!problems.render().is_empty()),
    }
});
