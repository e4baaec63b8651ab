//! `toolgate eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::lifetime;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EvalArguments {
    #[command(subcommand)]
    pub(crate) command: Option<EvalCommand>,
    /// Files with cases, directories of them, or names of cases that came along [default: all that came along]
    #[arg(value_name = "CASES")]
    pub(crate) cases: Vec<String>,
    /// A model that plays the cases, as for `toolgate run` [default: the script of each case]
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// How often each case is played; it passes if every try does
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tries: usize,
    /// How many cases are played concurrently [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// How long one conversation may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = lifetime)]
    pub(crate) timeout: std::time::Duration,
    /// Write a report for continuous integration, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a page with the evidence of each case
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Keep a copy of the record of each case in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) records: Option<PathBuf>,
    /// List the cases instead of playing them
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Attack the gate with generated calls of a compromised model
    Hostile(HostileArguments),
}

#[derive(Args, Debug)]
pub(crate) struct HostileArguments {
    /// How many calls are made
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) calls: usize,
    /// How many sequences are played at least, of about eleven calls each
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) sequences: usize,
    /// What the calls are generated from: the same number, the same calls [default: another one each time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Attack only these gates
    #[arg(long, value_name = "NAME")]
    pub(crate) target: Vec<String>,
    /// How many gates are attacked concurrently [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Where a case is written for each failure
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// List the gates instead of attacking them
    #[arg(long)]
    pub(crate) list: bool,
}
