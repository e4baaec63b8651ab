//! Tool names for wires that accept only `^[a-zA-Z0-9_-]{1,64}$`.
//!
//! A tool called `fs.read` is sent as `fs_read` and comes back as `fs.read`. The mapping is rebuilt for every request, from the offered tools and
//! then from the calls in the conversation: so the same conversation gets the same names, a valid name is kept, and no two tools share one.

use std::collections::HashMap;

use crate::message::{Message, MessagePart};
use crate::request::StepRequest;
use crate::used_names::{UsedNames, is_valid_name};

/// Which tool names a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ToolNames {
    /// `^[a-zA-Z0-9_-]{1,64}$`; others are renamed.
    #[default]
    Restricted,
    /// Any name.
    Exact,
}

/// The mapping of tool names in one request. By default every name is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct WireNames {
    /// Renamed tools, with their names on the wire.
    sent: HashMap<String, String>,
    /// The reverse mapping.
    meant: HashMap<String, String>,
}

impl WireNames {
    /// The names of one request: of the offered tools, then of those that its conversation mentions.
    pub(crate) fn of(request: &StepRequest<'_>, spelling: ToolNames) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let names = Self::new(offered.chain(request.messages.iter().flat_map(mentioned)));
        match spelling {
            ToolNames::Restricted => names,
            // A model that has seen the restricted form may use it, and means the same tool.
            ToolNames::Exact => Self { sent: HashMap::new(), ..names },
        }
    }

    /// Names for these tools, assigned in order; a valid name is kept.
    pub(crate) fn new<'n>(tools: impl Iterator<Item = &'n str>) -> Self {
        let all: Vec<&str> = tools.collect();
        let mut taken = UsedNames::default();
        all.iter().filter(|name| is_valid_name(name)).for_each(|name| taken.reserve(name));
        let mut names = Self::default();
        for name in all.into_iter().filter(|name| !is_valid_name(name)) {
            if names.sent.contains_key(name) {
                continue;
            }
            let other = taken.claim(name, "_");
            names.meant.insert(other.clone(), name.to_owned());
            names.sent.insert(name.to_owned(), other);
        }
        names
    }

    /// The name of a tool on the wire.
    pub(crate) fn to_wire<'n>(&'n self, name: &'n str) -> &'n str {
        self.sent.get(name).map_or(name, String::as_str)
    }

    /// The tool for a name from the wire. An unknown name is left as it is: the gate will reject it.
    #[expect(clippy::wrong_self_convention, reason = "the other half of `to_wire`")]
    pub(crate) fn from_wire<'n>(&'n self, name: &'n str) -> &'n str {
        self.meant.get(name).map_or(name, String::as_str)
    }

    /// Every renamed tool with its name on the wire, sorted.
    pub(crate) fn renamed(&self) -> Vec<(String, String)> {
        let mut renamed: Vec<_> =
            self.meant.iter().map(|(other, name)| (name.clone(), other.clone())).collect();
        renamed.sort();
        renamed
    }

    /// The mapping of a recorded request.
    pub(crate) fn from_renamed(renamed: &[(String, String)]) -> Self {
        let swapped = renamed.iter().map(|(name, other)| (other.clone(), name.clone()));
        Self { sent: renamed.iter().cloned().collect(), meant: swapped.collect() }
    }
}

/// The tool names in a message.
fn mentioned(message: &Message) -> Vec<&str> {
    match message {
        Message::User { .. } => Vec::new(),
        Message::Assistant(said) => {
            let calls = said.parts.iter().filter_map(|part| match part {
                MessagePart::Call(call) => Some(call.name.as_str()),
                _ => None,
            });
            calls.collect()
        }
        Message::Results { results } => results.iter().map(|result| result.name.as_str()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{AssistantMessage, ModelCall};
    use crate::request::{ThinkingMode, ToolChoice, ToolDefinition};

    #[test]
    fn names_that_wires_do_not_take_are_spelt_otherwise() {
        let long = |letters| "x".repeat(letters);
        let cases: &[(&[&str], &[&str])] = &[
            (&["read_file", "a-b", "Z9"], &["read_file", "a-b", "Z9"]),
            (&["fs.read", "fs.write"], &["fs_read", "fs_write"]),
            (&["fs.read", "fs_read"], &["fs_read_2", "fs_read"]),
            (&["a.b", "a/b", "a b", "a_b_2"], &["a_b", "a_b_3", "a_b_4", "a_b_2"]),
            (&["", "_"], &["__2", "_"]),
            (&["größe"], &["gr__e"]),
            (&[&long(70), &long(64)], &[&(long(62) + "_2"), &long(64)]),
        ];
        for (given, expected) in cases {
            let names = WireNames::new(given.iter().copied());
            let sent: Vec<&str> = given.iter().map(|name| names.to_wire(name)).collect();
            assert_eq!(&sent, expected, "{given:?}");
        }
    }

    #[test]
    fn calls_of_the_past_take_no_name_from_a_tool() {
        let call = |name: &str| {
            MessagePart::Call(ModelCall { id: "1".into(), name: name.into(), arguments: "{}".into() })
        };
        let said =
            AssistantMessage { parts: ["fs read", "fs.read", "fs?read"].map(call).into(), model: None };
        let tool = ToolDefinition {
            name: "fs.read".into(),
            description: String::new(),
            input_schema: Arc::default(),
        };
        let messages = [Message::Assistant(said)];
        let tools = [tool];
        let request = StepRequest {
            system: None,
            messages: &messages,
            tools: &tools,
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            thinking: ThinkingMode::Default,
        };
        let exact = WireNames::of(&request, ToolNames::Exact);
        assert_eq!(exact.to_wire("fs.read"), "fs.read");
        assert_eq!((exact.from_wire("fs.read"), exact.from_wire("fs_read")), ("fs.read", "fs.read"));
        let names = WireNames::of(&request, ToolNames::Restricted);
        assert_eq!(names.to_wire("fs.read"), "fs_read");
        assert_eq!(names.to_wire("fs read"), "fs_read_2");
        assert_eq!(names.to_wire("fs?read"), "fs_read_3");
        assert_eq!(names.from_wire("fs_read"), "fs.read");
        assert_eq!(names.from_wire("never heard of"), "never heard of");
    }

    proptest! {
        /// For any set of names: every name sent is valid and unique, each maps back to its tool, and valid names are kept.
        #[test]
        fn every_name_comes_back(tools in vec("[a-c._ /-]{0,4}|[a-z.]{60,70}|\\PC{0,6}", 0..20)) {
            let names = WireNames::new(tools.iter().map(String::as_str));
            let mut sent: HashMap<String, &String> = HashMap::new();
            for name in &tools {
                let other = names.to_wire(name);
                prop_assert!(is_valid_name(other), "{other:?}");
                prop_assert_eq!(names.from_wire(other), name);
                prop_assert!(!is_valid_name(name) || other == name);
                let before = sent.insert(other.to_owned(), name);
                prop_assert!(before.is_none_or(|before| before == name));
            }
        }
    }
}
