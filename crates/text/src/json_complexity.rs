//! The complexity of JSON text, measured before it is parsed.
//!
//! A short text can hold very many values, each of which takes far more memory than its two bytes of text. So they are counted before anything is
//! allocated, in one pass without state.

/// An upper bound on what a message contains. Defined for invalid JSON too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonComplexity {
    /// Values and member names; may be slightly too high.
    pub values: usize,
    /// The nesting depth.
    pub depth: usize,
}

/// Measures a message in one pass.
#[must_use]
pub fn measure(json: &[u8]) -> JsonComplexity {
    let (mut weight, mut level) = (JsonComplexity { values: 1, depth: 0 }, 0_usize);
    let mut rest = json;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = skip_string(after),
            b',' | b':' => weight.values += 1,
            b'[' | b'{' => {
                weight.values += 1;
                level += 1;
                weight.depth = weight.depth.max(level);
            }
            b']' | b'}' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    weight
}

/// The text after the string that begins here.
fn skip_string(mut rest: &[u8]) -> &[u8] {
    while let Some(place) = memchr::memchr2(b'"', b'\\', rest) {
        let is_end = rest.get(place) == Some(&b'"');
        // An escaped character does not end the string.
        rest = rest.get(place + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Values and member names, counted one by one.
    fn counted(value: &Value) -> JsonComplexity {
        let inner: Vec<JsonComplexity> = match value {
            Value::Array(items) => items.iter().map(counted).collect(),
            Value::Object(fields) => fields.values().map(counted).collect(),
            _ => return JsonComplexity { values: 1, depth: 0 },
        };
        let names = value.as_object().map_or(0, |fields| fields.len());
        JsonComplexity {
            values: 1 + names + inner.iter().map(|inner| inner.values).sum::<usize>(),
            depth: 1 + inner.iter().map(|inner| inner.depth).max().unwrap_or(0),
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\"\\\\,:\\[\\]{}a]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("[\"\\\\,:{]{0,4}", inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Never less than the exact count, and hardly more.
        #[test]
        fn every_value_counts(value in values()) {
            let (found, counted) = (measure(value.to_string().as_bytes()), counted(&value));
            prop_assert_eq!(found.depth, counted.depth);
            prop_assert!(found.values >= counted.values && found.values <= 2 * counted.values, "{:?} {:?}", found, counted);
        }

        #[test]
        fn nothing_is_too_strange_to_be_weighed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(measure(&bytes).values <= bytes.len() + 1);
        }
    }
}
