//! `toolgate run`: one task for a model.

use std::io::{self, IsTerminal as _, Read as _};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_agent::{EndReason, Ended, EventSink, Numbered, numbered};

use super::{Reader, close, print, serving_runtime};
use crate::arguments::{Common, RunArguments};
use crate::chat::{Look, View};
use crate::conversation::{Person, Sitting, Wait, With, exit_code};
use crate::exit::{Failed, PROVIDER};
use crate::interrupt::Interrupt;
use crate::reload::keep_up;
use crate::terminal::{can_erase, complain, reveal, screen};

/// A task longer than this is none.
const MOST_WORDS: u64 = 4 * 1024 * 1024;

/// How long work that blocks may take to notice that everything is over.
const LAST_MOMENT: Duration = Duration::from_secs(1);

pub(crate) fn run(common: &Common, arguments: &RunArguments) -> Result<u8, Failed> {
    let prompt = prompt(&arguments.prompt)?;
    let interrupt = Interrupt::listen();
    let runtime = serving_runtime()?;
    let (sitting, reloader) = Sitting::begin(common, &arguments.conversation, &runtime, Wait::Yes)?;
    let shown = Shown::of(common);
    let ended = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        let keeping_up = tokio::spawn(keep_up(reloader));
        let person = Person::default();
        let events = shown.events(common, person.clone(), interrupt.token());
        let with = With { person, cancelled: interrupt.token(), events };
        let ended = match sitting.talk().await {
            Ok(mut talk) => sitting.turn(&mut talk, &prompt, with).await,
            Err(failed) => Err(failed),
        };
        keeping_up.abort();
        close(sitting.servers.as_deref()).await;
        ended
    });
    runtime.shutdown_timeout(LAST_MOMENT);
    shown.tell(&ended?)
}

/// Where what becomes of the task is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Every event on standard output, for programs.
    Events,
    /// Words as they come, on the terminal.
    Live,
    /// The answer on standard output, once it is there.
    Answer,
}

impl Shown {
    fn of(common: &Common) -> Self {
        match (common.json, io::stdout().is_terminal()) {
            (true, _) => Self::Events,
            (false, true) => Self::Live,
            (false, false) => Self::Answer,
        }
    }

    fn events(self, common: &Common, person: Person, stop: CancellationToken) -> EventSink {
        if self == Self::Events {
            // Whoever stops reading has lost interest in the rest.
            return numbered(move |event| match print_event(&event) {
                Ok(Reader::There) => {}
                Ok(Reader::Gone) | Err(_) => stop.cancel(),
            });
        }
        let on_terminal = !common.quiet && io::stderr().is_terminal();
        let view = View::new(Look {
            answer: (self == Self::Live).then(|| Box::new(io::stdout()) as _),
            aside: on_terminal.then(|| Box::new(io::stderr()) as _),
            screen: Box::new(|| screen(io::stderr())),
            can_erase: can_erase(on_terminal),
            can_open: false,
            person,
        });
        Arc::new(move |event| view.show(event))
    }

    /// What is left to say at the end. The answer is results; why there is none is not.
    fn tell(self, ended: &Ended) -> Result<u8, Failed> {
        let code = exit_code(ended.reason);
        if self == Self::Events {
            return Ok(code);
        }
        match ended.reason {
            EndReason::ProviderError => return Err(Failed { code: PROVIDER, ..Failed::error(&ended.text) }),
            EndReason::Done => {}
            reason => complain(&format!("stopped: {reason}")),
        }
        if self == Self::Answer && !ended.text.is_empty() {
            print(&format!("{}\n", reveal(ended.text.trim_end())))?;
        }
        Ok(code)
    }
}

fn print_event(event: &Numbered) -> Result<Reader, Failed> {
    let line = serde_json::to_string(event).map_err(|error| Failed::error(error.to_string()))?;
    print(&format!("{line}\n"))
}

fn prompt(text: &str) -> Result<String, Failed> {
    let text = match text {
        "-" => {
            let mut read = String::new();
            io::stdin().take(MOST_WORDS).read_to_string(&mut read).map_err(|error| {
                Failed::usage(format!("the task cannot be read from standard input: {error}"))
            })?;
            read
        }
        given => given.to_owned(),
    };
    match text.trim().is_empty() {
        true => Err(Failed::usage("there is nothing to tell the model")
            .help("write the task as one argument, or - to read it from standard input")),
        false => Ok(text),
    }
}
