//! For any bytes, parsing ends with a configuration or with problems whose positions are inside the
//! file.

use proptest::prelude::*;
use toolgate_manifest::{Config, EXAMPLE};

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Err(problems) = Config::parse_bytes("toolgate.yaml", bytes) else { return Ok(()) };
    prop_assert!(!problems.as_slice().is_empty());
    // YAML also ends a line at a lone carriage return.
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r')).count();
    for problem in problems.as_slice() {
        prop_assert!((1..=lines + 1).contains(&problem.line), "line {} of {lines}", problem.line);
        prop_assert!(problem.column >= 1);
        let steers = |character: char| character.is_control() && character != '\n';
        prop_assert!(!problem.render().contains(steers), "{:?}", problem.render());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes)?;
    }

    #[test]
    fn anything_that_looks_like_yaml(
        pieces in proptest::collection::vec(
            prop_oneof![
                "[a-z_@*&!<>%|'\"#~?\\-]{0,6}",
                Just(": ".to_owned()),
                Just("\n".to_owned()),
                Just("\n  ".to_owned()),
                Just("\n- ".to_owned()),
                Just("{".to_owned()),
                Just("}".to_owned()),
                Just("[".to_owned()),
                Just("]".to_owned()),
                Just(", ".to_owned()),
                Just("agents: ".to_owned()),
                Just("tool_permissions: ".to_owned()),
                Just("deny: ".to_owned()),
            ],
            0..40,
        )
    ) {
        check(pieces.concat().as_bytes())?;
    }

    #[test]
    fn the_example_with_a_few_changes(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..40), 1..5)
    ) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        for (at, byte, cut) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.drain(at..(at + cut).min(bytes.len()));
            bytes.push(b'\n');
        }
        check(&bytes)?;
    }
}
