//! What a command was denied, as data, so that it need not be guessed from the system's error messages.

use serde_json::{Value, json};

use crate::command_outcome::escape_name;

/// One denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandDenial {
    /// The kind of resource.
    pub what: &'static str,
    /// The resource, if known.
    pub target: Option<String>,
    /// The reason.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

impl CommandDenial {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut fields = json!({"what": self.what, "reason": escape_name(&self.reason), "remedy": escape_name(&self.remedy)});
        if let (Some(target), Value::Object(fields)) = (&self.target, &mut fields) {
            fields.insert("target".to_owned(), json!(escape_name(target)));
        }
        fields
    }

    /// As a line of an answer.
    #[must_use]
    pub fn to_line(&self) -> String {
        let (what, reason, remedy) = (self.what, escape_name(&self.reason), escape_name(&self.remedy));
        match &self.target {
            Some(target) => format!("[{what} denied: `{}`: {reason}; {remedy}]", escape_name(target)),
            None => format!("[{what} denied: {reason}; {remedy}]"),
        }
    }
}
