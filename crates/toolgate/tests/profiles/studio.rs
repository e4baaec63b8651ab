//! The profile `studio`: a chat studio with two zones, questions, a context budget and models of every provider.

mod answers;
mod context;
mod events;
mod providers;
mod server;
mod zones;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::fixture::CliFixture;

/// An agent with all permissions.
const DEVELOPER: &str = "agents:\n  dev:\n    tool_permissions:\n      file_read: {allowed: true}\n      file_write: {allowed: true}\n      \
                         bash: {allowed: true}\n      web_search: {allowed: true}\n";

/// A studio with a second zone beside the workspace.
struct Studio(CliFixture);

impl Studio {
    /// With more lines in the configuration.
    fn new(config: &str) -> Self {
        let place = CliFixture::new();
        place.write("toolgate.yaml", &format!("profile: studio\n{config}{DEVELOPER}"));
        Self(place)
    }

    /// The command of a task, without its standard streams.
    fn task(&self, script: &str, options: &[&str]) -> Command {
        self.0.write("script.yaml", script);
        // Without a terminal, only standard input can answer questions.
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_toolgate"));
        let mut command = self.0.beneath(command);
        command.args(["--agent", "dev", "run", "do it", "--json"]).args(options);
        if !options.contains(&"--model") {
            command.args(["--model", "scripted/script.yaml"]);
        }
        for variable in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_HOST"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a task whose calls need no approval.
    fn run(&self, script: &str, options: &[&str]) -> Told {
        let options: Vec<&str> = [&["--trust", "autonomous"], options].concat();
        Told::of(self.task(script, &options).stdin(Stdio::null()).output().unwrap())
    }
}

/// The output of a task.
struct Told {
    output: Output,
    events: Vec<Value>,
}

impl Told {
    fn of(output: Output) -> Self {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { output, events }
    }

    /// The data of every event of this name.
    fn all(&self, name: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["event"] == name).map(|event| &event["data"]).collect()
    }

    /// The last event.
    fn end(&self) -> &Value {
        let last = self.events.last().unwrap_or_else(|| panic!("{:?}", self.output));
        assert_eq!(last["event"], "chat:stream-end", "{last}");
        &last["data"]
    }

    fn code(&self) -> i32 {
        self.output.status.code().unwrap()
    }
}
