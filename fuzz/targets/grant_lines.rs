//! Any shell line: refused, or understood as words that a shell would not change, and covered by what would be offered for it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_policy::grants::{command_prefix, covers_line, parse_line};

fuzz_target!(|line: &str| {
    let Some(commands) = parse_line(line) else {
        assert!(command_prefix(line).is_none() && !covers_line(&["ls".to_owned()], line));
        return;
    };
    assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    // Written with every word in quotes, and without what was between the words, it is the same line.
    for words in &commands {
        let (program, rest) = words.split_first().unwrap();
        assert!(!program.contains(['=', '/', '\'', '"']));
        assert!(words.iter().all(|word| !(word.contains('\'') && word.contains('"'))));
        let quote = |word: &String| if word.contains('\'') { format!("\"{word}\"") } else { format!("'{word}'") };
        let quoted: Vec<String> = rest.iter().map(quote).collect();
        let whole = [&[program.clone()], quoted.as_slice()].concat().join(" ");
        if whole.len() <= toolgate_policy::grants::MAX_LINE_BYTES {
            assert_eq!(parse_line(&whole), Some(vec![words.clone()]), "{whole:?}");
        }
    }
    if let Some(prefix) = command_prefix(line) {
        assert!(covers_line(&prefix, line));
        assert!(commands.iter().all(|words| words.starts_with(&prefix)));
    }
    let granted = ["cargo".to_owned(), "test".to_owned()];
    if covers_line(&granted, line) {
        assert!(commands.iter().all(|words| words.starts_with(&granted)));
        assert!(!line.contains(['$', '`', '\\']) || line.contains('\''), "{line:?}");
    }
});
