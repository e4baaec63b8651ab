//! `toolgate run` and `toolgate chat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use toolgate_conversation::AgentOverrides;

use super::lifetime;

#[derive(Args, Clone, Debug)]
pub(crate) struct RunArguments {
    /// The prompt, or - to read it from standard input
    #[arg(value_name = "PROMPT | -")]
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) conversation: ConversationArguments,
}

// The model of a conversation, and its limits.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AgentArguments {
    /// The model: anthropic/NAME, openai/NAME, openai-chat/NAME, openrouter/NAME, ollama/NAME, scripted/FILE, or of a provider under `models:` [default: `model:` of the configuration, else what the environment has a key for]
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// What stands before the conversation, in place of the usual words; @FILE reads it from a file
    #[arg(long, value_name = "TEXT | @FILE")]
    pub(crate) system: Option<String>,
    /// How many steps of a turn may call tools; 0 and less mean the default [default: 20; 200 in profile studio]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_iterations: Option<i64>,
    /// How long a turn may take: 90s, 5m, 1h [default: 30m; 5m without tools]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) time_limit: Option<Duration>,
    /// Make calls of one step together where all of them only read
    #[arg(long)]
    pub(crate) parallel_reads: bool,
}

// Options of a conversation.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConversationArguments {
    #[command(flatten)]
    pub(crate) agent: AgentArguments,
    /// Go on with this conversation: its id, the beginning of it, or last
    #[arg(long, visible_alias = "resume", value_name = "ID", conflicts_with_all = ["continue_last", "ephemeral"])]
    pub(crate) session: Option<String>,
    /// Go on with the last conversation of this workspace
    #[arg(long = "continue", conflicts_with = "ephemeral")]
    pub(crate) continue_last: bool,
    /// Keep the conversation in memory only
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Write down what the model's server sends, byte by byte and without keys
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

impl AgentArguments {
    /// What takes precedence over the configuration.
    pub(crate) fn overrides(&self) -> AgentOverrides {
        AgentOverrides {
            system: self.system.clone(),
            max_iterations: self.max_iterations,
            time_limit: self.time_limit,
            parallel_reads: self.parallel_reads,
        }
    }
}
