//! `toolgate sessions`.

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SessionsCommand {
    /// List the conversations of this workspace, the one that was used last first
    List {
        /// Also those of other workspaces
        #[arg(long)]
        all: bool,
    },
    /// Show a conversation: what was said, the calls, and what came of them
    #[command(after_help = "Examples:
  toolgate sessions show last
  toolgate sessions show k3f9 --full")]
    Show {
        /// The conversation: its id, the beginning of it, or last
        id: String,
        /// Whole results and arguments, and what the model thought
        #[arg(long)]
        full: bool,
    },
    /// Go on with a conversation at the terminal, in the workspace and profile and as the agent that it was held with
    Resume {
        /// The conversation: its id, the beginning of it, or last
        id: String,
    },
    /// Write a whole conversation to standard output
    #[command(after_help = "Examples:
  toolgate sessions export last > conversation.jsonl
  toolgate sessions export k3f9 --format markdown > conversation.md")]
    Export {
        /// The conversation: its id, the beginning of it, or last
        id: String,
        /// What to write
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
    },
    /// Delete conversations, with every trace in the files; what their calls changed stays, and so does the record of them
    #[command(after_help = "Examples:
  toolgate sessions delete k3f9
  toolgate sessions delete k3f9 x7c2 --yes")]
    Delete {
        /// The conversations: their ids, the beginnings of them, or last
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object for each line: the session, then everything in it
    Jsonl,
    /// For reading
    Markdown,
}
