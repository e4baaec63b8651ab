//! What a command wanted and was not given, as data: nobody has to guess it from messages of the system.

use serde_json::{Value, json};

use super::command_outcome::escape_name;

/// One thing that was not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandDenial {
    /// What kind of thing.
    pub(crate) what: &'static str,
    /// Which, where that is known.
    pub(crate) target: Option<String>,
    /// Why not.
    pub(crate) reason: String,
    /// What would help.
    pub(crate) remedy: String,
}

impl CommandDenial {
    pub(crate) fn to_json(&self) -> Value {
        let mut fields = json!({"what": self.what, "reason": escape_name(&self.reason), "remedy": escape_name(&self.remedy)});
        if let (Some(target), Value::Object(fields)) = (&self.target, &mut fields) {
            fields.insert("target".to_owned(), json!(escape_name(target)));
        }
        fields
    }

    pub(crate) fn to_line(&self) -> String {
        let (what, reason, remedy) = (self.what, escape_name(&self.reason), escape_name(&self.remedy));
        match &self.target {
            Some(target) => format!("[{what} denied: `{}`: {reason}; {remedy}]", escape_name(target)),
            None => format!("[{what} denied: {reason}; {remedy}]"),
        }
    }
}
