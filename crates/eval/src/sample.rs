//! The sample repository: a small program with a history, for tools that read files and commits.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Files and messages, in order.
const SAMPLE: &str = include_str!("../../../evals/sample.yaml");

/// One commit of the sample repository.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SampleCommit {
    pub(crate) message: String,
    pub(crate) files: BTreeMap<String, String>,
}

/// The commits, oldest first.
pub(crate) fn commits() -> Result<Vec<SampleCommit>, String> {
    serde_saphyr::from_str(SAMPLE).map_err(|error| format!("evals/sample.yaml: {error}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sample_has_a_history() {
        assert!(super::commits().unwrap().len() >= 3);
    }
}
