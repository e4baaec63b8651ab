//! `toolgate mcp approve`: shows the operator new or changed tools of servers, and asks for approval.

use serde_json::{Value, json};
use toolgate_assembly::servers::Servers;
use toolgate_connect::{Definition, Finding, HealthState, PinKey, PinState, PinnedTool};
use toolgate_types::{Sha256, Trust};

use super::mcp_classes::{SuggestedClass, block};
use super::mcp_list::{advice_json, advice_line};
use super::{close_servers, named_servers, print, print_json, serving_runtime};
use crate::approval_screen::{Screen, quoted};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::startup::resolve_settings;
use crate::terminal::{PLAIN_SCREEN, confirm, escape_line, warn};

pub(crate) fn run(
    common: &GlobalOptions,
    server: Option<&str>,
    tool: Option<&str>,
    agreement: &ApprovalSelection,
) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let which = named_servers(&settings, server)?;
    let runtime = serving_runtime()?;
    let servers = Servers::start(&settings, &runtime, which)?;
    let waiting = waiting(&servers, tool);
    for health in servers.health().iter().filter(|health| health.state != HealthState::Ready) {
        let error = health.last_error.as_deref().unwrap_or("it did not answer");
        warn(&format!("the server `{}` is not there, so this is what it offered last: {error}", health.name));
    }
    runtime.block_on(close_servers(Some(&servers)));
    let waiting = waiting?;
    if let (Some(tool), true) = (tool, waiting.is_empty()) {
        warn(&format!("no tool `{tool}` waits for approval"));
    }
    let page = ApprovalPage { settled: settled(&servers)?, waiting: &waiting };
    agreement.require_known_digests(&page)?;
    let answers: Vec<(&PendingTool, ApprovalAnswer)> = collect_answers(&page, agreement);
    let mut rows = Vec::new();
    for (one, answer) in &answers {
        if *answer == ApprovalAnswer::Yes {
            servers.pins().approve(&one.key, &one.tool, one.digest).map_err(|error| {
                CliError::error(error.to_string()).help("look at it again: run the command once more")
            })?;
        }
        rows.push(one.result_line(*answer, common.json || agreement.is_one_page()));
    }
    if agreement.is_one_page() && answers.iter().any(|(_, answer)| *answer == ApprovalAnswer::NoTerminal) {
        rows.push(page.text(PLAIN_SCREEN));
    }
    let approved = answers.iter().filter(|(_, answer)| *answer == ApprovalAnswer::Yes);
    let suggestions: Vec<SuggestedClass> = approved
        .filter_map(|(one, _)| SuggestedClass::of(&settings.loaded.config, one.key.server(), &one.offered))
        .collect();
    rows.push(block(&suggestions));
    match common.json {
        true => print_json(&Value::Array(answers.iter().map(|(one, answer)| one.json(*answer)).collect()))?,
        false if waiting.is_empty() => print("nothing waits for approval\n")?,
        false => print(&rows.concat())?,
    };
    if answers.iter().any(|(_, answer)| *answer == ApprovalAnswer::NoTerminal) {
        return Err(CliError {
            code: DENIED,
            ..CliError::error("there is no terminal to ask on, so nothing was approved")
        }
        .help("read what is shown, then pass --yes with --digest and the digest of what you agree to"));
    }
    Ok(SUCCESS)
}

/// What is approved without a question.
#[derive(Debug)]
pub(crate) enum ApprovalSelection {
    /// Nothing.
    Interactive,
    /// Everything that is pending, unseen.
    All,
    /// Exactly the definitions with these digests, which the operator has reviewed.
    Only(Vec<Sha256>),
    /// Everything on one page, after one question; or without one, exactly the page with this digest.
    Page(Option<Sha256>),
}

impl ApprovalSelection {
    pub(crate) fn of(all: bool, yes: bool, digests: Vec<Sha256>) -> Self {
        match (yes, digests.as_slice()) {
            (_, [digest]) if all => Self::Page(Some(*digest)),
            (false, []) if all => Self::Page(None),
            (true, []) => Self::All,
            (false, []) => Self::Interactive,
            (_, _) => Self::Only(digests),
        }
    }

    /// Whether all are shown and decided together.
    fn is_one_page(&self) -> bool {
        matches!(self, Self::Page(_))
    }

    /// An unknown digest means that the servers now offer something else than was reviewed: then nothing is approved.
    fn require_known_digests(&self, page: &ApprovalPage<'_>) -> Result<(), CliError> {
        let is_known = |digest: &Sha256| page.waiting.iter().any(|one| one.digest == *digest);
        let unknown = match self {
            Self::Only(digests) => digests.iter().find(|digest| !is_known(digest)),
            Self::Page(Some(digest)) => Some(digest).filter(|digest| page.digest() != **digest),
            Self::Interactive | Self::All | Self::Page(None) => None,
        };
        let Some(unknown) = unknown else { return Ok(()) };
        let message =
            format!("nothing that waits for approval has the digest `{unknown}`, so nothing was approved");
        let failed = CliError { code: DENIED, ..CliError::error(message) };
        Err(failed.help("look again: a server may offer something else than it did"))
    }
}

/// A tool that awaits approval.
pub(super) struct PendingTool {
    key: PinKey,
    tool: String,
    state: PinState,
    digest: Sha256,
    offered: Definition,
    /// Its definition, or what changed in it.
    diff: String,
    description: String,
    /// Why the definition cannot become a tool, if it cannot.
    unusable: Option<String>,
    /// Findings in the definition that the operator should review.
    advice: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApprovalAnswer {
    Yes,
    No,
    /// There was no terminal to ask on.
    NoTerminal,
}

impl ApprovalAnswer {
    /// The answer of a terminal, if there is one.
    fn of(answer: Option<bool>) -> Self {
        match answer {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::NoTerminal,
        }
    }
}

pub(super) fn waiting(servers: &Servers, tool: Option<&str>) -> Result<Vec<PendingTool>, CliError> {
    let mut waiting = Vec::new();
    for key in servers.names().iter().filter_map(|server| servers.pin_key(server)) {
        let pins = servers.pins().for_server(&key).map_err(|error| {
            CliError::error(error.to_string())
                .help("every tool of the server stays suspended until the file is removed")
        })?;
        let wanted = pins.tools().filter(|(name, _)| tool.is_none_or(|tool| tool == *name));
        waiting.extend(wanted.filter_map(|(name, pinned)| PendingTool::of(&key, name, pinned)));
    }
    Ok(waiting)
}

/// The names of the tools that are agreed to already.
fn settled(servers: &Servers) -> Result<Vec<String>, CliError> {
    let mut settled = Vec::new();
    for key in servers.names().iter().filter_map(|server| servers.pin_key(server)) {
        let pins = servers.pins().for_server(&key).map_err(|error| CliError::error(error.to_string()))?;
        let agreed = pins.tools().filter(|(_, pinned)| pinned.state() == PinState::Agreed);
        settled.extend(agreed.map(|(name, _)| format!("{}__{}", key.server(), escape_line(name))));
    }
    Ok(settled)
}

/// Tools that were agreed to, and that their servers no longer list.
pub(super) fn gone(servers: &Servers) -> Result<Vec<String>, CliError> {
    let mut gone = Vec::new();
    for key in servers.names().iter().filter_map(|server| servers.pin_key(server)) {
        let pins = servers.pins().for_server(&key).map_err(|error| CliError::error(error.to_string()))?;
        let missing = pins.tools().filter(|(_, pinned)| pinned.state() == PinState::Gone);
        gone.extend(missing.map(|(name, _)| format!("{}__{name}", key.server())));
    }
    Ok(gone)
}

/// All tools on one page: a list in which what is new or changed is marked, then each of these whole.
struct ApprovalPage<'w> {
    settled: Vec<String>,
    waiting: &'w [PendingTool],
}

impl ApprovalPage<'_> {
    /// The digest of everything that waits.
    fn digest(&self) -> Sha256 {
        let parts: Vec<Value> =
            self.waiting.iter().map(|one| json!([one.key.server().as_str(), one.tool, one.digest])).collect();
        Sha256::of(json!(["toolgate.mcp.page.v1", parts]).to_string().as_bytes())
    }

    fn text(&self, screen: Screen) -> String {
        if self.waiting.is_empty() {
            return String::new();
        }
        let mark = |one: &PendingTool| if one.state == PinState::Changed { '~' } else { '+' };
        let waiting = self.waiting.iter().map(|one| (one.name(), mark(one), one.state.as_str()));
        let settled = self.settled.iter().map(|name| (name.clone(), ' ', PinState::Agreed.as_str()));
        let mut rows: Vec<(String, char, &str)> = waiting.chain(settled).collect();
        rows.sort();
        let mut text: String =
            rows.iter().map(|(name, mark, state)| format!("{mark} {name:<48} {state}\n")).collect();
        text.push('\n');
        text.extend(self.waiting.iter().map(|one| one.question(screen)));
        text.push_str(&format!("The digest of this page: {}\n", self.digest()));
        text
    }
}

fn collect_answers<'w>(
    page: &ApprovalPage<'w>,
    agreement: &ApprovalSelection,
) -> Vec<(&'w PendingTool, ApprovalAnswer)> {
    let waiting = page.waiting;
    let of_page = match agreement {
        ApprovalSelection::Page(Some(_)) => Some(ApprovalAnswer::Yes),
        ApprovalSelection::Page(None) if !waiting.is_empty() => {
            let question = format!("Agree to all {} that are marked?", waiting.len());
            Some(ApprovalAnswer::of(confirm(|screen| page.text(screen), &question)))
        }
        _ => None,
    };
    let answer = |one: &PendingTool| match agreement {
        ApprovalSelection::Page(_) => of_page.unwrap_or(ApprovalAnswer::No),
        ApprovalSelection::All => ApprovalAnswer::Yes,
        ApprovalSelection::Only(digests) if digests.contains(&one.digest) => ApprovalAnswer::Yes,
        ApprovalSelection::Only(_) => ApprovalAnswer::No,
        ApprovalSelection::Interactive => {
            ApprovalAnswer::of(confirm(|screen| one.question(screen), &format!("Agree to {}?", one.name())))
        }
    };
    waiting.iter().map(|one| (one, answer(one))).collect()
}

impl PendingTool {
    fn of(key: &PinKey, name: &str, pinned: &PinnedTool) -> Option<Self> {
        let state = pinned.state();
        let offered: &Definition = pinned.offered()?;
        let shown = match state {
            PinState::New => offered.escaped(),
            PinState::Changed => pinned.diff(),
            PinState::Agreed | PinState::Gone => return None,
        };
        Some(Self {
            key: key.clone(),
            tool: name.to_owned(),
            state,
            digest: offered.digest(),
            offered: offered.clone(),
            diff: shown,
            description: offered.escaped_description(),
            unusable: offered.check().err(),
            advice: offered.advice(),
        })
    }

    /// Agrees to exactly this definition.
    pub(super) fn approve(&self, servers: &Servers) -> Result<(), String> {
        servers.pins().approve(&self.key, &self.tool, self.digest).map_err(|error| error.to_string())
    }

    fn name(&self) -> String {
        format!("{}__{}", self.key.server(), escape_line(&self.tool))
    }

    /// The text of the question. Every line from the server is behind the gutter.
    pub(super) fn question(&self, screen: Screen) -> String {
        let (name, state) = (self.name(), self.state.as_str());
        let description = match self.description.is_empty() {
            true => "The server says nothing about it.\n".to_owned(),
            false => format!("The server says about it, in {}", quoted(&self.description, screen)),
        };
        let useless =
            self.unusable.as_ref().map(|reason| format!("It cannot be used: {}\n", escape_line(reason)));
        let what = if self.state == PinState::Changed { "What is different, in " } else { "All of it, in " };
        // Findings come last, right above the question.
        let advice: String =
            self.advice.iter().map(|finding| screen.line(&advice_line(finding), "1;33")).collect();
        let addresses = if advice.is_empty() { "" } else { "It may address the model:\n" };
        format!(
            "{name} is {state}.\n{}{description}{what}{}Its digest: {}\n{addresses}{advice}\n",
            useless.unwrap_or_default(),
            quoted(&self.diff, screen),
            self.digest
        )
    }

    fn result_line(&self, answer: ApprovalAnswer, quiet: bool) -> String {
        let name = self.name();
        match answer {
            ApprovalAnswer::Yes => format!("agreed to {name} ({})\n", self.digest),
            ApprovalAnswer::No => format!("{name} stays suspended\n"),
            ApprovalAnswer::NoTerminal if quiet => String::new(),
            ApprovalAnswer::NoTerminal => self.question(PLAIN_SCREEN),
        }
    }

    fn json(&self, answer: ApprovalAnswer) -> Value {
        json!({
            "server": self.key.server().as_str(), "tool": self.tool, "state": self.state.as_str(), "digest": self.digest,
            "definition": self.diff, "suggestedClass": self.offered.suggested_class(), "approved": answer == ApprovalAnswer::Yes,
            "advice": self.advice.iter().map(advice_json).collect::<Vec<_>>(),
        })
    }
}
