//! `toolgate eval`.

use std::path::PathBuf;

use clap::Args;

use super::lifetime;

#[derive(Args, Debug)]
pub(crate) struct EvalArguments {
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
    /// List the cases instead of playing them
    #[arg(long)]
    pub(crate) list: bool,
}
