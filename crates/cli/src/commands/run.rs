//! `toolgate run`: one task for a model.

mod events;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_agent::{EndReason, EventSink, TurnOutcome};

use self::events::{Begun, Printer, tell_not_begun};
use super::{LAST_MOMENT, close, print, serving_runtime};
use crate::ambient::read_bounded;
use crate::arguments::{Common, RunArguments};
use crate::chat::{Look, View};
use crate::conversation::{Answers, Asked, HOW_TO_ALLOW, Person, Sitting, Wait, With, exit_code};
use crate::exit::Failed;
use crate::interrupt::Interrupt;
use crate::reload::keep_up;
use crate::terminal::{can_erase, complain, reveal, screen};

pub(crate) fn run(common: &Common, arguments: &RunArguments) -> Result<u8, Failed> {
    let shown = Shown::of(common);
    let begun = Begun::default();
    let held = hold(common, arguments, shown, &begun);
    if let (Err(failed), AnswerGoes::AsEvents) = (&held, shown.answer)
        && !begun.has()
    {
        tell_not_begun(failed);
    }
    held
}

fn hold(common: &Common, arguments: &RunArguments, shown: Shown, begun: &Begun) -> Result<u8, Failed> {
    let prompt = prompt(&arguments.prompt)?;
    let interrupt = Interrupt::listen();
    let runtime = serving_runtime()?;
    let (sitting, reloader) = Sitting::begin(common, &arguments.conversation, &runtime, Wait::Yes)?;
    let by_program = shown.answer == AnswerGoes::AsEvents && is_answered_by_program(&arguments.prompt);
    let mut person = Person::default();
    let ended = runtime.block_on(async {
        let _watching = interrupt.watch()?;
        let keeping_up = tokio::spawn(keep_up(reloader));
        let stop = interrupt.token();
        let (mut events, printer) = shown.events(person.clone(), &stop, begun)?;
        if by_program {
            let answers = Answers::new(events);
            events = answers.sink();
            person = Person::answering(answers);
        }
        let with = With { person: person.clone(), cancelled: stop.clone(), events };
        let ended = match sitting.talk(&stop).await {
            Ok(mut talk) => sitting.turn(&mut talk, &prompt, with).await,
            Err(failed) => Err(failed),
        };
        keeping_up.abort();
        close(sitting.servers.as_deref()).await;
        if let Some(printer) = printer {
            printer.end(&stop).await;
        }
        ended
    });
    runtime.shutdown_timeout(LAST_MOMENT);
    shown.tell(&ended?, person.takes_asked())
}

/// Where what becomes of the task is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    answer: AnswerGoes,
    /// Whether somebody watches standard error.
    is_watched: bool,
}

/// How the answer comes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerGoes {
    /// Among all events, for programs.
    AsEvents,
    /// Word by word, on the terminal.
    Live,
    /// Once it is there.
    Whole,
}

impl Shown {
    fn of(common: &Common) -> Self {
        let answer = match (common.json, io::stdout().is_terminal()) {
            (true, _) => AnswerGoes::AsEvents,
            (false, true) => AnswerGoes::Live,
            (false, false) => AnswerGoes::Whole,
        };
        Self { answer, is_watched: !common.quiet && io::stderr().is_terminal() }
    }

    /// Whoever is told of everything, and who prints it, where that is another one.
    fn events(
        self,
        person: Person,
        stop: &CancellationToken,
        begun: &Begun,
    ) -> Result<(EventSink, Option<Printer>), Failed> {
        if self.answer == AnswerGoes::AsEvents {
            let printer = Printer::begin(stop)?;
            return Ok((printer.sink(stop.clone(), begun.clone()), Some(printer)));
        }
        let is_live = self.answer == AnswerGoes::Live;
        let view = View::new(Look {
            answer: is_live.then(|| Box::new(io::stdout()) as _),
            aside: self.is_watched.then(|| Box::new(io::stderr()) as _),
            screen: Box::new(move || if is_live { screen(io::stdout()) } else { screen(io::stderr()) }),
            can_erase: can_erase(is_live || self.is_watched),
            can_open: false,
            person,
        });
        Ok((Arc::new(move |event| view.show(event)), None))
    }

    /// What is left to say at the end. The answer is results; why there is none is not.
    fn tell(self, ended: &TurnOutcome, asked: Asked) -> Result<u8, Failed> {
        let code = exit_code(ended.reason, asked);
        let Self { answer, is_watched } = self;
        if asked == Asked::Nobody {
            complain(&format!("a call needed approval, and there was nobody to ask: {HOW_TO_ALLOW}"));
        }
        match ended.reason {
            _ if answer == AnswerGoes::AsEvents => return Ok(code),
            EndReason::ProviderError if is_watched => return Ok(code),
            EndReason::ProviderError => return Err(Failed { code, ..Failed::error(&ended.text) }),
            EndReason::Done => {}
            reason if !is_watched => complain(&format!("stopped: {reason}")),
            _ => {}
        }
        if answer == AnswerGoes::Whole && !ended.text.is_empty() {
            print(&format!("{}\n", reveal(ended.text.trim_end())))?;
        }
        Ok(code)
    }
}

/// Whether answers to questions come on standard input: a person at a terminal is asked there, and a task that was read from it has used it up.
fn is_answered_by_program(prompt: &str) -> bool {
    prompt != "-" && !io::stdin().is_terminal()
}

fn prompt(text: &str) -> Result<String, Failed> {
    let unreadable =
        |reason: String| Failed::usage(format!("the task cannot be read from standard input: {reason}"));
    let text = match text {
        "-" => {
            let bytes = read_bounded(io::stdin()).map_err(|error| unreadable(error.to_string()))?;
            String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?
        }
        given => given.to_owned(),
    };
    match text.trim().is_empty() {
        true => Err(Failed::usage("there is nothing to tell the model")
            .help("write the task as one argument, or - to read it from standard input")),
        false => Ok(text),
    }
}
