//! A conversation as it was sent, whatever the wire.

/// What was said so far, and what may be done now.
#[derive(Debug, Default)]
pub(crate) struct SentConversation {
    pub(crate) system: String,
    pub(crate) turns: Vec<SentTurn>,
    /// The tools that can be called, by their names on the wire.
    pub(crate) offered: Vec<String>,
    /// Whether they may be called now.
    pub(crate) tools_on: bool,
}

#[derive(Debug)]
pub(crate) enum SentTurn {
    Prompt(String),
    Model(ModelTurn),
    Results(Vec<ToolCallResult>),
}

/// What the model said in one step, as far as it matters for the next.
#[derive(Debug, Default)]
pub(crate) struct ModelTurn {
    pub(crate) calls: Vec<ModelTurnCall>,
    /// How many thoughts came back whole.
    pub(crate) thoughts: usize,
}

#[derive(Debug)]
pub(crate) struct ModelTurnCall {
    pub(crate) id: String,
    pub(crate) tool: String,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) struct ToolCallResult {
    pub(crate) tool: String,
    pub(crate) text: String,
}

impl SentConversation {
    /// Adds what a person said. Prompts that follow each other are one.
    pub(crate) fn prompt(&mut self, text: &str) {
        match self.turns.last_mut() {
            Some(SentTurn::Prompt(before)) => {
                before.push('\n');
                before.push_str(text);
            }
            _ => self.turns.push(SentTurn::Prompt(text.to_owned())),
        }
    }

    /// Adds to what the model said, in the step that is under way or in a new one.
    pub(crate) fn model_turn(&mut self, add: impl FnOnce(&mut ModelTurn)) {
        match self.turns.last_mut() {
            Some(SentTurn::Model(said)) => add(said),
            _ => {
                let mut said = ModelTurn::default();
                add(&mut said);
                self.turns.push(SentTurn::Model(said));
            }
        }
    }

    /// Adds what became of a call.
    pub(crate) fn result(&mut self, outcome: ToolCallResult) {
        match self.turns.last_mut() {
            Some(SentTurn::Results(results)) => results.push(outcome),
            _ => self.turns.push(SentTurn::Results(vec![outcome])),
        }
    }

    /// The tool of a call that was made before, by the call's id.
    pub(crate) fn tool_of(&self, id: &str) -> String {
        let calls = self.turns.iter().rev().filter_map(|turn| match turn {
            SentTurn::Model(said) => said.calls.iter().find(|call| call.id == id),
            _ => None,
        });
        calls.map(|call| call.tool.clone()).next().unwrap_or_default()
    }

    /// How many steps the model has taken.
    pub(crate) fn steps(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn, SentTurn::Model(_))).count()
    }

    /// Where what follows the last prompt begins.
    pub(crate) fn since_prompt(&self) -> usize {
        self.turns.iter().rposition(|turn| matches!(turn, SentTurn::Prompt(_))).map_or(0, |prompt| prompt + 1)
    }

    pub(crate) fn last_prompt(&self) -> &str {
        prompt_before(&self.turns)
    }

    /// What the last call of all came back with.
    pub(crate) fn last_result(&self) -> &str {
        let results = self.turns.iter().rev().find_map(|turn| match turn {
            SentTurn::Results(results) => results.last(),
            _ => None,
        });
        results.map_or("", |outcome| &outcome.text)
    }
}

/// The last prompt of these turns.
pub(crate) fn prompt_before(turns: &[SentTurn]) -> &str {
    let prompt = turns.iter().rev().find_map(|turn| match turn {
        SentTurn::Prompt(text) => Some(text.as_str()),
        _ => None,
    });
    prompt.unwrap_or_default()
}

/// What came back since the model's last step in these turns.
pub(crate) fn results_before(turns: &[SentTurn]) -> &[ToolCallResult] {
    let since = turns.iter().rev().take_while(|turn| !matches!(turn, SentTurn::Model(_)));
    let results = since.filter_map(|turn| match turn {
        SentTurn::Results(results) => Some(results.as_slice()),
        _ => None,
    });
    results.last().unwrap_or_default()
}

/// Whether two names mean one tool. Wires that take few characters are told names in which others are replaced.
pub(crate) fn is_same_tool(one: &str, other: &str) -> bool {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') { character } else { '_' }
    };
    one.chars().map(plain).eq(other.chars().map(plain))
}
