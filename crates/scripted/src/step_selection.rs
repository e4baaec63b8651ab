//! Selects the next step. The conversation shows which ones were used; the server is stateless.

use crate::conversation::{
    ModelTurn, SentConversation, SentTurn, ToolCallResult, is_same_tool, prompt_before, results_before,
};
use crate::reply::step_of;
use crate::script::{Memory, Script, ScriptStep, Switch, When};

/// The step that answers this conversation: the first unused one that matches.
pub(crate) fn choose(script: &Script, conversation: &SentConversation) -> Option<usize> {
    let begin = match script.memory {
        Memory::Prompt => conversation.since_prompt(),
        Memory::Conversation => 0,
    };
    let mut used = vec![false; script.steps.len()];
    for (position, turn) in conversation.turns.iter().enumerate().skip(begin) {
        let SentTurn::Model(said) = turn else { continue };
        if let Some(used) =
            step_of_turn(script, &used, conversation, position, said).and_then(|step| used.get_mut(step))
        {
            *used = true;
        }
    }
    let view = StepContext::at(conversation, conversation.turns.len());
    first(script, &used, |step| may_call(step, conversation.tools_on) && fits_now(step, &view, conversation))
}

/// Whether a turn lacks thinking blocks of the model, which a server requires while calls are open.
pub(crate) fn lacks_thoughts(script: &Script, conversation: &SentConversation) -> bool {
    let turns = conversation.turns.iter().skip(conversation.since_prompt());
    turns.into_iter().any(|turn| {
        let SentTurn::Model(said) = turn else { return false };
        let step =
            said.calls.iter().find_map(|call| step_of(&call.id)).and_then(|step| script.steps.get(step));
        step.is_some_and(|step| said.thoughts < step.thoughts())
    })
}

/// The step of a turn: by the ids of its calls, else the step that would have been selected then.
fn step_of_turn(
    script: &Script,
    used: &[bool],
    conversation: &SentConversation,
    position: usize,
    said: &ModelTurn,
) -> Option<usize> {
    let marked = said.calls.iter().find_map(|call| step_of(&call.id));
    marked.or_else(|| {
        let view = StepContext::at(conversation, position);
        // Whether tools could be called then is unknown, but whether one was called is known.
        first(script, used, |step| {
            step.has_calls() != said.calls.is_empty() && fits(step.when.as_ref(), &view)
        })
    })
}

fn first(script: &Script, used: &[bool], mut fits: impl FnMut(&ScriptStep) -> bool) -> Option<usize> {
    let steps = script.steps.iter().zip(used);
    steps
        .enumerate()
        .find(|(_, (step, used))| (step.repeat || !**used) && fits(step))
        .map(|(number, _)| number)
}

/// A model does not call tools that are disabled, unless the script insists.
fn may_call(step: &ScriptStep, tools_on: bool) -> bool {
    let insists = step.when.as_ref().is_some_and(|when| when.tools == Some(Switch::Off));
    tools_on || insists || !step.has_calls()
}

fn fits_now(step: &ScriptStep, view: &StepContext<'_>, conversation: &SentConversation) -> bool {
    let Some(when) = &step.when else { return true };
    let tools = when.tools.is_none_or(|tools| (tools == Switch::On) == conversation.tools_on);
    let is_offered = |tool: &String| conversation.offered.iter().any(|offered| is_same_tool(offered, tool));
    tools && when.offered.as_ref().is_none_or(is_offered) && fits(Some(when), view)
}

/// The data that a condition is evaluated on.
struct StepContext<'c> {
    system: &'c str,
    prompt: &'c str,
    results: &'c [ToolCallResult],
}

impl<'c> StepContext<'c> {
    fn at(conversation: &'c SentConversation, position: usize) -> Self {
        let before = conversation.turns.get(..position).unwrap_or_default();
        Self { system: &conversation.system, prompt: prompt_before(before), results: results_before(before) }
    }
}

fn fits(when: Option<&When>, view: &StepContext<'_>) -> bool {
    let Some(when) = when else { return true };
    let has = |wanted: &Option<String>, text: &str| {
        wanted.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
    };
    has(&when.prompt, view.prompt) && has(&when.system, view.system) && fits_results(when, view.results)
}

fn fits_results(when: &When, results: &[ToolCallResult]) -> bool {
    if when.result.is_none() && when.contains.is_none() && when.lacks.is_none() {
        return true;
    }
    results.iter().any(|outcome| {
        let is_tool = when.result.as_ref().is_none_or(|tool| is_same_tool(tool, &outcome.tool));
        let contains = when.contains.as_ref().is_none_or(|text| outcome.text.contains(text.as_str()));
        let lacks = when.lacks.as_ref().is_none_or(|text| !outcome.text.contains(text.as_str()));
        is_tool && contains && lacks
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::ModelTurnCall;

    fn script(text: &str) -> Script {
        Script::parse("test.yaml", text).unwrap()
    }

    fn asked(prompt: &str) -> SentConversation {
        let mut conversation = SentConversation { tools_on: true, ..SentConversation::default() };
        conversation.prompt(prompt);
        conversation
    }

    fn called(conversation: &mut SentConversation, id: &str, tool: &str, text: &str) {
        conversation
            .model_turn(|said| said.calls.push(ModelTurnCall { id: id.to_owned(), tool: tool.to_owned() }));
        conversation.result(ToolCallResult { tool: tool.to_owned(), text: text.to_owned() });
    }

    const BRANCHES: &str = "
steps:
  - calls: [{tool: read_file}]
  - when: {result: read_file, contains: Hello}
    say: It says hello.
  - say: It says something else.
";

    #[test]
    fn what_came_back_decides_and_a_step_is_used_once() {
        let script = script(BRANCHES);
        let mut conversation = asked("go");
        assert_eq!(choose(&script, &conversation), Some(0));
        called(&mut conversation, "call_0000s0c0", "read_file", "Hello, world");
        assert_eq!(choose(&script, &conversation), Some(1));
        let mut conversation = asked("go");
        called(&mut conversation, "call_0000s0c0", "read_file", "Goodbye");
        assert_eq!(choose(&script, &conversation), Some(2));
    }

    #[test]
    fn steps_are_known_again_without_marks_and_after_results_were_shortened() {
        let script = script(BRANCHES);
        // A foreign id: the step that would have been selected then counts.
        let mut conversation = asked("go");
        called(&mut conversation, "x", "read_file", "Hello");
        assert_eq!(choose(&script, &conversation), Some(1));
        // A changed result does not make an old step available again.
        let script = self::script(
            "
steps:
  - calls: [{tool: a}]
  - {when: {contains: one}, calls: [{tool: b}]}
  - say: done
",
        );
        let mut conversation = asked("go");
        called(&mut conversation, "call_0000s0c0", "a", "left out");
        called(&mut conversation, "call_0001s1c0", "b", "one");
        assert_eq!(choose(&script, &conversation), Some(2));
    }

    #[test]
    fn every_prompt_begins_anew_unless_the_conversation_counts() {
        let steps = "steps: [{say: first}, {say: second}]";
        let mut conversation = asked("one");
        conversation.model_turn(|_| ());
        conversation.prompt("two");
        assert_eq!(choose(&script(steps), &conversation), Some(0));
        assert_eq!(choose(&script(&format!("memory: conversation\n{steps}")), &conversation), Some(1));
    }

    #[test]
    fn without_tools_calls_are_left_out_unless_the_script_insists() {
        let polite = script("steps: [{repeat: true, calls: [{tool: a}]}, {say: done}]");
        let hostile = script("steps: [{when: {tools: off}, calls: [{tool: a}]}, {say: done}]");
        let mut conversation = asked("go");
        assert_eq!(choose(&polite, &conversation), Some(0));
        assert_eq!(choose(&hostile, &conversation), Some(1));
        conversation.tools_on = false;
        assert_eq!(choose(&polite, &conversation), Some(1));
        assert_eq!(choose(&hostile, &conversation), Some(0));
    }

    #[test]
    fn a_script_that_is_over_has_nothing_and_one_that_repeats_never_ends() {
        let mut conversation = asked("go");
        for turn in 0..3 {
            called(&mut conversation, &format!("call_{turn:04}s0c0"), "a", "same");
        }
        assert_eq!(choose(&script("steps: [{calls: [{tool: a}]}]"), &conversation), None);
        assert_eq!(choose(&script("steps: [{repeat: true, calls: [{tool: a}]}]"), &conversation), Some(0));
    }

    #[test]
    fn every_condition_counts() {
        let mut conversation = asked("please read it");
        conversation.system = "You are careful".to_owned();
        conversation.offered = vec!["fs_read".to_owned()];
        called(&mut conversation, "x", "fs_read", "Hello");
        for (when, fits) in [
            ("prompt: read it", true),
            ("prompt: write it", false),
            ("system: careful", true),
            ("system: careless", false),
            ("offered: fs.read", true),
            ("offered: fs.write", false),
            ("result: fs.read", true),
            ("result: fs.write", false),
            ("result: fs.read, contains: Hello", true),
            ("result: fs.read, contains: Bye", false),
            ("lacks: Bye", true),
            ("lacks: Hello", false),
            ("tools: on", true),
            ("tools: off", false),
            ("prompt: read, system: careless", false),
        ] {
            let script = script(&format!("steps: [{{when: {{{when}}}, say: yes}}, {{say: no}}]"));
            assert_eq!(choose(&script, &conversation), Some(usize::from(!fits)), "{when}");
        }
    }
}
