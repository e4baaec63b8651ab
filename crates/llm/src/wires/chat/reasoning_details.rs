//! Assembles `reasoning_details`, which the server expects back, from the stream.

use serde_json::{Map, Value};

use crate::error::ProviderError;
use crate::limits::{MAX_VALUES, count_values};
use crate::message_collector::too_large;

/// The details so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    details: Vec<Map<String, Value>>,
    /// The number of values. Each frame is limited, but a stream of them could still exhaust memory.
    values: usize,
}

impl ReasoningDetails {
    /// Adds a fragment: to the last detail if that has the same type and index, else as a new one.
    pub(super) fn add(&mut self, piece: Map<String, Value>) -> Result<(), ProviderError> {
        let is_same = |last: &&mut Map<String, Value>| {
            last.contains_key("index")
                && ["index", "type"].iter().all(|key| last.get(*key) == piece.get(*key))
        };
        if let Some(last) = self.details.last_mut().filter(is_same) {
            for (key, value) in piece {
                self.values += count_values(&value);
                self.values -= set(last, key, value);
            }
        } else {
            self.values += 1 + piece.values().map(count_values).sum::<usize>();
            self.details.push(piece);
        }
        if self.values > MAX_VALUES {
            return Err(too_large(format!("the model's reasoning holds more than {MAX_VALUES} values")));
        }
        Ok(())
    }

    /// All details.
    pub(super) fn take(&mut self) -> Vec<Map<String, Value>> {
        std::mem::take(self).details
    }
}

/// Sets a field of a detail or appends to it, and returns how many values that saved.
fn set(detail: &mut Map<String, Value>, key: String, value: Value) -> usize {
    match (detail.get_mut(&key), value) {
        (Some(Value::String(text)), Value::String(more)) if is_gathered(&key) => {
            text.push_str(&more);
            1
        }
        (Some(_), Value::Null) => 1,
        (Some(known), value) => count_values(&std::mem::replace(known, value)),
        (None, value) => {
            detail.insert(key, value);
            0
        }
    }
}

/// Whether a field of a detail is streamed.
fn is_gathered(key: &str) -> bool {
    matches!(key, "text" | "summary" | "data")
}

/// The displayable text of a detail.
pub(super) fn display_text(detail: &Map<String, Value>) -> Option<&str> {
    detail.get("text").or_else(|| detail.get("summary"))?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorKind;

    fn added(pieces: impl IntoIterator<Item = Value>) -> Result<ReasoningDetails, ProviderError> {
        let mut details = ReasoningDetails::default();
        for piece in pieces {
            let Value::Object(piece) = piece else { panic!("no object") };
            details.add(piece)?;
        }
        Ok(details)
    }

    #[test]
    fn pieces_of_one_kind_and_number_are_one_detail() {
        let piece = |index: u32, text: &str| json!({"index": index, "type": "t", "text": text, "id": null});
        let signed = json!({"index": 0, "type": "t", "signature": [1, 2]});
        let mut details =
            added([piece(0, "a"), piece(0, "b"), signed.clone(), signed, piece(1, "c"), json!({})]).unwrap();
        // Two fields are names here and values there: only values count.
        assert_eq!(details.values, (1 + 4 + 3) + (1 + 4) + 1);
        let expected = json!([
            {"index": 0, "type": "t", "text": "ab", "id": null, "signature": [1, 2]},
            {"index": 1, "type": "t", "text": "c", "id": null},
            {},
        ]);
        assert_eq!(json!(details.take()), expected);
    }

    #[test]
    fn words_may_come_in_any_number_of_pieces_and_values_may_not() {
        let word = json!({"index": 0, "type": "t", "text": "x"});
        assert!(added(std::iter::repeat_n(word, MAX_VALUES)).is_ok());
        let many = json!({"list": vec![0; 1_000]});
        let failed = added(std::iter::repeat_n(many, MAX_VALUES / 1_000)).unwrap_err();
        assert_eq!(failed.kind, ErrorKind::TooLarge);
    }
}
