//! The binary: wiring, exit codes, ambient authority.

mod exit;
mod arguments;
mod state_usage;
mod approval_screen;
mod answer_row;
mod card_screen;
mod edit_call;
mod approval_prompt;
mod approval_grants;
mod server_prompt;
mod terminal;
mod startup;
mod browser;
mod trust_screen;
mod log;
mod pager;
mod telemetry;
mod interrupt;
mod conversation;
mod chat;
mod commands;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use crate::arguments::{Cli, Command, GlobalOptions, McpCommand, TokenCommand, ToolsCommand};
use crate::exit::CliError;
use crate::terminal::{escape_control_chars, paint, set_plain, set_quiet, set_verbose, wants_colour};

fn main() -> ExitCode {
    interrupt::survive_file_size_limit();
    if let Some(code) = commands::completions::answer() {
        return ExitCode::from(code);
    }
    let arguments = match Cli::from_command_line() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::SUCCESS };
            if error.use_stderr() && wants_json() {
                print_error(&usage_error(&error));
            }
            // An error is ignored: a closed standard output is no failure of `--help`.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    if arguments.common.quiet {
        set_quiet();
    }
    if arguments.common.plain {
        set_plain();
    }
    if arguments.common.verbose {
        set_verbose();
    }
    log::install(arguments.common.log, arguments.common.log_level);
    telemetry::start_from_environment();
    // Standard output of `toolgate mcp` is the connection to its client.
    let is_json = arguments.common.json && !matches!(arguments.command, Command::Mcp { command: None, .. });
    let code = run(arguments).unwrap_or_else(|failed| {
        if is_json && !commands::has_printed() {
            print_error(&failed);
        }
        report(&failed);
        failed.code
    });
    telemetry::flush();
    ExitCode::from(code)
}

fn run(arguments: Cli) -> Result<u8, CliError> {
    let common = arguments.common;
    match arguments.command {
        Command::Call { tool, arguments, timeout } => commands::call::run(&common, tool, &arguments, timeout),
        Command::Tools { format, command: None } => commands::tools::run(&common, format),
        Command::Tools { command: Some(ToolsCommand::New { name, output, words }), .. } => {
            commands::tools_new::run(&common, &name, output.as_deref(), &words)
        }
        Command::Check { files, strict } => commands::check::run(&common, &files, strict),
        Command::Trust(arguments) => commands::trust::run(&common, &arguments),
        Command::Grants { command } => commands::grants::run(&common, command),
        Command::Run(arguments) => commands::run::run(&common, &arguments),
        Command::Chat(arguments) => commands::chat::run(&common, &arguments),
        Command::Scripted { file, listen } => commands::scripted::run(&common, &file, listen),
        Command::Mcp { command: None, roots_below } => commands::mcp::run(&common, roots_below.as_deref()),
        Command::Mcp { command: Some(command), .. } => mcp(&common, command),
        Command::Serve(arguments) => commands::serve::run(&common, &arguments),
        Command::Token(TokenCommand::Mint { subject, permissions, lifetime, audience }) => {
            commands::token::mint(&common, &subject, permissions, lifetime, audience)
        }
        Command::Audit(command) => commands::audit::run(&common, command),
        Command::Sessions(command) => commands::sessions::run(&common, command),
        Command::Changes { session, all } => commands::changes::list(&common, session.as_deref(), all),
        Command::Undo { call, session, force } => {
            commands::changes::undo(&common, call.as_deref(), session.as_deref(), force)
        }
        Command::Doctor { offline } => commands::doctor::run(&common, offline),
        Command::Eval(arguments) => commands::eval::run(&common, &arguments),
        Command::Models { provider } => commands::models::run(&common, provider.as_deref()),
        Command::Man { directory } => commands::man::run(directory.as_deref()),
        Command::Completions { shell } => commands::completions::run(shell),
    }
}

fn mcp(common: &GlobalOptions, command: McpCommand) -> Result<u8, CliError> {
    match command {
        McpCommand::Install(wanted) => commands::mcp_install::run(common, &wanted),
        McpCommand::Uninstall(wanted) => commands::mcp_uninstall::run(common, &wanted),
        McpCommand::Import(wanted) => commands::mcp_import::run(common, &wanted),
        McpCommand::Wrap(wanted) => commands::mcp_wrap::wrap(common, &wanted),
        McpCommand::Unwrap(wanted) => commands::mcp_wrap::unwrap(common, &wanted),
        McpCommand::Add(wanted) => commands::mcp_add::run(common, &wanted),
        McpCommand::Update(wanted) => commands::mcp_packages::update(common, &wanted),
        McpCommand::Login(wanted) => commands::mcp_login::login(common, &wanted),
        McpCommand::Logout(wanted) => commands::mcp_login::logout(common, &wanted),
        McpCommand::Logs { server, follow } => commands::mcp_logs::run(common, &server, follow),
        McpCommand::List { server } => commands::mcp_list::run(common, server.as_deref()),
        McpCommand::Approve { server, tool, all, yes, digests } => {
            let agreement = commands::mcp_approve::ApprovalSelection::of(all, yes, digests);
            commands::mcp_approve::run(common, server.as_deref(), tool.as_deref(), &agreement)
        }
    }
}

/// Prints why a command failed.
fn report(failed: &CliError) {
    let colour = wants_colour(io::stderr().is_terminal());
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{} {}", paint("error:", "1;31", colour), escape_control_chars(&failed.message));
    if let Some(help) = &failed.help {
        let _ = writeln!(stderr, "{} {}", paint("help:", "1;36", colour), escape_control_chars(help));
    }
}

/// Whether the command line asks for JSON, also where it could not be parsed.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}

/// The first paragraph of clap's message without its label, and its tip, such as the nearest command.
fn usage_error(error: &clap::Error) -> CliError {
    let text = error.to_string();
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let first = paragraphs.next().unwrap_or_default();
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: "));
    CliError::usage(first.strip_prefix("error: ").unwrap_or(first))
        .help(tip.unwrap_or("`toolgate --help` lists the commands and options"))
}

/// Prints why a command failed as JSON. A message that cannot be written does not change the exit code.
fn print_error(failed: &CliError) {
    let CliError { code, message, help } = failed;
    let error = serde_json::json!({"code": exit::name(*code), "message": message, "help": help});
    let _ = commands::print_json(&serde_json::json!({ "error": error }));
}
