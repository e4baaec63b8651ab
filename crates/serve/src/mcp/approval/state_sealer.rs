//! The request state that a client carries between a question and its answer.
//!
//! It contains the id of a parked call, encrypted with a key of this process. The associated data binds it to the caller, the session, the tool and
//! its definition at the time of the question, the arguments, and the requested resource. It has no expiry of its own: the gate's approval timeout
//! applies.

use rmcp::model::{RequestStateCodec, SealOptions};
use serde_json::{Value, json};
use toolgate_gate::{Credential, ResourceRequest};
use toolgate_types::Sha256;
use toolgate_types::digest::Sha256Hasher;

use crate::mcp::ClientIdentity;

/// Seals and opens request states.
pub(crate) struct StateSealer(Option<RequestStateCodec>);

/// The associated data of a state.
#[derive(Clone, Copy)]
pub(crate) struct RequestBinding {
    digest: Sha256,
    /// The caller's digest.
    pub(crate) owner: [u8; 32],
}

impl RequestBinding {
    /// Binds to one exact call of one caller in one session. The order of object members does not matter.
    pub(crate) fn new(
        visitor: &ClientIdentity,
        tool: &str,
        definition: Option<Sha256>,
        arguments: &Value,
        browse: Option<&ResourceRequest>,
    ) -> Self {
        let session = match &visitor.credential {
            Credential::Known(caller) => &caller.session,
            Credential::Token { session, .. } => session,
        };
        let mut hasher = Sha256Hasher::new();
        hasher.update(b"toolgate.parked.v3\0");
        hasher.update(&visitor.binding);
        hasher.update_prefixed(session.as_str().as_bytes());
        hasher.update_prefixed(tool.as_bytes());
        match definition {
            Some(definition) => hasher.update(definition.as_bytes()),
            None => hasher.update(b"-"),
        }
        canonical(arguments, &mut hasher);
        canonical(&resource_value(browse), &mut hasher);
        Self { digest: hasher.finish(), owner: visitor.owner }
    }
}

/// The requested resource, as a JSON value.
fn resource_value(browse: Option<&ResourceRequest>) -> Value {
    match browse {
        None => Value::Null,
        Some(ResourceRequest::ListPage { after }) => json!({"page": after}),
        Some(ResourceRequest::ReadWhole { max_bytes }) => json!({"whole": max_bytes}),
    }
}

/// Hashes a canonical encoding of a value.
fn canonical(value: &Value, hasher: &mut Sha256Hasher) {
    match value {
        Value::Array(items) => {
            hasher.update(format!("[{}", items.len()).as_bytes());
            items.iter().for_each(|item| canonical(item, hasher));
        }
        Value::Object(fields) => {
            hasher.update(format!("{{{}", fields.len()).as_bytes());
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, value) in fields {
                canonical(&Value::String(name.clone()), hasher);
                canonical(value, hasher);
            }
        }
        // Scalars have a length prefix, because their text does not delimit itself.
        scalar => {
            let text = scalar.to_string();
            hasher.update(format!("{}:{text}", text.len()).as_bytes());
        }
    }
}

impl StateSealer {
    /// Generates the key. Without randomness nothing can be sealed or opened.
    pub(crate) fn new() -> Self {
        let mut key = [0; 32];
        let made = getrandom::fill(&mut key);
        Self(made.ok().and_then(|()| RequestStateCodec::try_new(key).ok()))
    }

    pub(crate) fn seal(&self, id: &str, bond: RequestBinding) -> Option<String> {
        let options = SealOptions::new().associated_data(bond.digest.as_bytes());
        Some(self.0.as_ref()?.seal_with(id.as_bytes(), &options))
    }

    /// The id of the call in a state, or why it is invalid.
    pub(crate) fn open(&self, state: &str, bond: RequestBinding) -> Result<String, String> {
        let codec = self.0.as_ref().ok_or_else(|| "nothing was sealed".to_owned())?;
        let opened = codec.open_with(state, bond.digest.as_bytes()).map_err(|error| error.to_string())?;
        String::from_utf8(opened).map_err(|_| "it names no call".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use toolgate_types::{Caller, Trust};

    use super::*;

    fn visitor(subject: &str, session: &str) -> ClientIdentity {
        let caller = Caller {
            subject: subject.to_owned(),
            permissions: Default::default(),
            agent: None,
            session: session.parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        };
        ClientIdentity::of(caller.into())
    }

    #[test]
    fn a_state_opens_for_the_same_call_of_the_same_caller_alone() {
        let me = &visitor("me", "s");
        let seals = StateSealer::new();
        let definition = Some(Sha256::of(b"definition"));
        let arguments = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}});
        let browse = Some(&ResourceRequest::ReadWhole { max_bytes: 1 });
        let bond = RequestBinding::new(me, "tool", definition, &arguments, browse);
        let state = seals.seal("id", bond).unwrap();
        assert_eq!(seals.open(&state, bond).as_deref(), Ok("id"));
        let reordered = json!({"b": {"d": "x", "c": [1, 2]}, "a": 1});
        assert!(seals.open(&state, RequestBinding::new(me, "tool", definition, &reordered, browse)).is_ok());

        let others = [
            RequestBinding::new(&visitor("you", "s"), "tool", definition, &arguments, browse),
            RequestBinding::new(&visitor("me", "s2"), "tool", definition, &arguments, browse),
            RequestBinding::new(me, "tool2", definition, &arguments, browse),
            RequestBinding::new(me, "tool", None, &arguments, browse),
            RequestBinding::new(me, "tool", Some(Sha256::of(b"other")), &arguments, browse),
            RequestBinding::new(
                me,
                "tool",
                definition,
                &json!({"a": 1, "b": {"c": [2, 1], "d": "x"}}),
                browse,
            ),
            RequestBinding::new(
                me,
                "tool",
                definition,
                &json!({"a": "1", "b": {"c": [1, 2], "d": "x"}}),
                browse,
            ),
            RequestBinding::new(
                me,
                "tool",
                definition,
                &json!({"a": 1, "b": {"c": [1, 2]}, "d": "x"}),
                browse,
            ),
            RequestBinding::new(me, "tool", definition, &json!({"a": 1, "b": {"c": [1], "d": "x"}}), browse),
            RequestBinding::new(me, "tool", definition, &arguments, None),
            RequestBinding::new(
                me,
                "tool",
                definition,
                &arguments,
                Some(&ResourceRequest::ReadWhole { max_bytes: 2 }),
            ),
            RequestBinding::new(
                me,
                "tool",
                definition,
                &arguments,
                Some(&ResourceRequest::ListPage { after: None }),
            ),
        ];
        for other in others {
            assert!(seals.open(&state, other).is_err());
        }
        assert!(StateSealer::new().open(&state, bond).is_err(), "another process made another key");
        for forged in ["", "x", "rs1.AAAA.AAAA", &state.replace('.', ""), &format!("{state}A")] {
            assert!(seals.open(forged, bond).is_err(), "{forged}");
        }
    }
}
