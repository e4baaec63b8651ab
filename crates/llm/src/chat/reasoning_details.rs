//! What a server wants to see again of its reasoning (`reasoning_details`), put together from its pieces.

use serde_json::{Map, Value};

use crate::error::ProviderError;
use crate::limits::{MAX_VALUES, count_values};
use crate::message_collector::too_large;

/// The details so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    details: Vec<Map<String, Value>>,
    /// How many values they hold. Each frame is bounded, and a stream of them could still fill any room.
    values: usize,
}

impl ReasoningDetails {
    /// Adds a piece: to the last detail where that has the same kind and number, else after it.
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

    /// Everything that came.
    pub(super) fn take(&mut self) -> Vec<Map<String, Value>> {
        std::mem::take(self).details
    }
}

/// Sets a field of a detail or adds to it, and tells how many values did not have to be kept for it.
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

/// Whether a field of a detail comes in pieces.
fn is_gathered(key: &str) -> bool {
    matches!(key, "text" | "summary" | "data")
}

/// What may be shown of a detail.
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
