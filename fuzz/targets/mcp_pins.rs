//! Any bytes as a pin file: rejected, or parsed so that nothing invisible is left in what an operator is shown, and every schema in it is checked in
//! bounded time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_connect::{Definition, PinFile};
use toolgate_text::is_invisible;

fn judge(definition: &Definition) {
    assert!(!definition.escaped().chars().any(is_invisible));
    assert!(!definition.escaped_description().chars().any(is_invisible));
    let _ = definition.check();
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(schema) = serde_json::from_slice(bytes) {
        let (name, title, description) =
            ("tool".to_owned(), None, std::str::from_utf8(bytes).ok().map(ToOwned::to_owned));
        judge(&Definition {
            name,
            title,
            description,
            input_schema: schema,
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
        });
    }
    let Ok(pins) = PinFile::parse(bytes) else { return };
    for (name, pinned) in pins.tools() {
        let known = [pinned.agreed(), pinned.offered()];
        assert!(known.iter().flatten().all(|definition| definition.name == name));
        known.into_iter().flatten().for_each(judge);
        assert!(!pinned.diff().chars().any(is_invisible));
    }
});
