//! `toolgate mcp approve`: an operator sees what is new or changed about tools of servers, and agrees to it or not.

use serde_json::{Value, json};
use toolgate_connect::{Definition, Finding, HealthState, PinState, PinnedTool, ServerName};
use toolgate_types::{Sha256, Trust};

use super::mcp_list::{advice_json, advised};
use super::{close, named_servers, print, print_json, serving_runtime};
use crate::arguments::Common;
use crate::exit::{DENIED, DONE, Failed};
use crate::question::{Screen, quoted};
use crate::servers::Servers;
use crate::settings::settle;
use crate::terminal::{PAPER, complain, confirm, reveal_line};

pub(crate) fn run(
    common: &Common,
    server: Option<&str>,
    tool: Option<&str>,
    agreement: &Agreement,
) -> Result<u8, Failed> {
    let settings = settle(common, Trust::Guided)?;
    let which = named_servers(&settings, server)?;
    let runtime = serving_runtime()?;
    let servers = Servers::start(&settings, &runtime, which)?;
    let waiting = waiting(&servers, tool);
    for health in servers.health().iter().filter(|health| health.state != HealthState::Ready) {
        let error = health.last_error.as_deref().unwrap_or("it did not answer");
        complain(&format!(
            "the server `{}` is not there, so this is what it offered last: {error}",
            health.name
        ));
    }
    runtime.block_on(close(Some(&servers)));
    let waiting = waiting?;
    if let (Some(tool), true) = (tool, waiting.is_empty()) {
        complain(&format!("no tool `{tool}` waits for approval"));
    }
    agreement.refuse_unknown(&waiting)?;
    let answers: Vec<(&Waiting, Answer)> = answers(&waiting, agreement);
    let mut rows = Vec::new();
    for (one, answer) in &answers {
        if *answer == Answer::Yes {
            servers.pins().approve(&one.server, &one.tool, one.digest).map_err(|error| {
                Failed::error(error.to_string()).help("look at it again: run the command once more")
            })?;
        }
        rows.push(one.told(*answer, common.json));
    }
    match common.json {
        true => print_json(&Value::Array(answers.iter().map(|(one, answer)| one.json(*answer)).collect()))?,
        false if rows.is_empty() => print("nothing waits for approval\n")?,
        false => print(&rows.concat())?,
    };
    if answers.iter().any(|(_, answer)| *answer == Answer::Nobody) {
        return Err(Failed {
            code: DENIED,
            ..Failed::error("there is no terminal to ask on, so nothing was approved")
        }
        .help("read what is shown, then pass --yes with --digest and the digest of what you agree to"));
    }
    Ok(DONE)
}

/// What is agreed to without asking.
#[derive(Debug)]
pub(crate) enum Agreement {
    /// Nothing.
    Asked,
    /// Whatever is offered, unseen.
    Everything,
    /// Exactly the definitions with these digests, which somebody has seen.
    Only(Vec<Sha256>),
}

impl Agreement {
    pub(crate) fn of(yes: bool, digests: Vec<Sha256>) -> Self {
        match (yes, digests.is_empty()) {
            (_, false) => Self::Only(digests),
            (true, true) => Self::Everything,
            (false, true) => Self::Asked,
        }
    }

    /// A digest that nothing has says that something else is offered than was shown: then nothing at all is agreed to.
    fn refuse_unknown(&self, waiting: &[Waiting]) -> Result<(), Failed> {
        let Self::Only(digests) = self else { return Ok(()) };
        let is_unknown = |digest: &&Sha256| !waiting.iter().any(|one| one.digest == **digest);
        let Some(unknown) = digests.iter().find(is_unknown) else { return Ok(()) };
        let message =
            format!("nothing that waits for approval has the digest `{unknown}`, so nothing was approved");
        let failed = Failed { code: DENIED, ..Failed::error(message) };
        Err(failed.help("look again: a server may offer something else than it did"))
    }
}

/// A tool that somebody has to agree to.
struct Waiting {
    server: ServerName,
    tool: String,
    state: PinState,
    digest: Sha256,
    /// What it is, or what is different about it.
    shown: String,
    description: String,
    /// Why no tool can be made of it, if none can.
    useless: Option<String>,
    /// What in it a person should look at before agreeing.
    advice: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    /// Nobody could be asked.
    Nobody,
}

fn waiting(servers: &Servers, tool: Option<&str>) -> Result<Vec<Waiting>, Failed> {
    let mut waiting = Vec::new();
    for server in servers.names() {
        let pins = servers.pins().for_server(&server).map_err(|error| {
            Failed::error(error.to_string())
                .help("every tool of the server stays suspended until the file is removed")
        })?;
        let wanted = pins.tools().filter(|(name, _)| tool.is_none_or(|tool| tool == *name));
        waiting.extend(wanted.filter_map(|(name, pinned)| Waiting::of(&server, name, pinned)));
    }
    Ok(waiting)
}

fn answers<'w>(waiting: &'w [Waiting], agreement: &Agreement) -> Vec<(&'w Waiting, Answer)> {
    let answer = |one: &Waiting| match agreement {
        Agreement::Everything => Answer::Yes,
        Agreement::Only(digests) if digests.contains(&one.digest) => Answer::Yes,
        Agreement::Only(_) => Answer::No,
        Agreement::Asked => {
            match confirm(|screen| one.question(screen), &format!("Agree to {}?", one.name())) {
                Some(true) => Answer::Yes,
                Some(false) => Answer::No,
                None => Answer::Nobody,
            }
        }
    };
    waiting.iter().map(|one| (one, answer(one))).collect()
}

impl Waiting {
    fn of(server: &ServerName, name: &str, pinned: &PinnedTool) -> Option<Self> {
        let state = pinned.state();
        let offered: &Definition = pinned.offered()?;
        let shown = match state {
            PinState::New => offered.escaped(),
            PinState::Changed => pinned.diff(),
            PinState::Agreed | PinState::Gone => return None,
        };
        Some(Self {
            server: server.clone(),
            tool: name.to_owned(),
            state,
            digest: offered.digest(),
            shown,
            description: offered.escaped_description(),
            useless: offered.check().err(),
            advice: offered.advice(),
        })
    }

    fn name(&self) -> String {
        format!("{}__{}", self.server, reveal_line(&self.tool))
    }

    /// What a person reads before agreeing. Every word of the server stands behind an edge.
    fn question(&self, screen: Screen) -> String {
        let (name, state) = (self.name(), self.state.as_str());
        let description = match self.description.is_empty() {
            true => "The server says nothing about it.\n".to_owned(),
            false => format!("The server says about it, in {}", quoted(&self.description, screen)),
        };
        let useless =
            self.useless.as_ref().map(|reason| format!("It cannot be used: {}\n", reveal_line(reason)));
        let what = if self.state == PinState::Changed { "What is different, in " } else { "All of it, in " };
        // What a server says to the model stands last, right above the question.
        let advice: String =
            self.advice.iter().map(|finding| screen.line(&advised(finding), "1;33")).collect();
        let addresses = if advice.is_empty() { "" } else { "It may address the model:\n" };
        format!(
            "{name} is {state}.\n{}{description}{what}{}Its digest: {}\n{addresses}{advice}\n",
            useless.unwrap_or_default(),
            quoted(&self.shown, screen),
            self.digest
        )
    }

    fn told(&self, answer: Answer, quiet: bool) -> String {
        let name = self.name();
        match answer {
            Answer::Yes => format!("agreed to {name} ({})\n", self.digest),
            Answer::No => format!("{name} stays suspended\n"),
            Answer::Nobody if quiet => String::new(),
            Answer::Nobody => self.question(PAPER),
        }
    }

    fn json(&self, answer: Answer) -> Value {
        json!({
            "server": self.server.as_str(), "tool": self.tool, "state": self.state.as_str(), "digest": self.digest,
            "definition": self.shown, "approved": answer == Answer::Yes,
            "advice": self.advice.iter().map(advice_json).collect::<Vec<_>>(),
        })
    }
}
