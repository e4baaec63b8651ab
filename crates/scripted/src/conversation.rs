//! A conversation as a client sent it, independent of the wire.

/// The turns so far, and the available tools.
#[derive(Debug, Default)]
pub(crate) struct SentConversation {
    pub(crate) system: String,
    pub(crate) turns: Vec<SentTurn>,
    /// The offered tools, by their names on the wire.
    pub(crate) offered: Vec<String>,
    /// Whether they may be called in this step.
    pub(crate) tools_on: bool,
}

#[derive(Debug)]
pub(crate) enum SentTurn {
    Prompt(String),
    Model(ModelTurn),
    Results(Vec<ToolCallResult>),
}

/// The model's part of one step, as far as the next step depends on it.
#[derive(Debug, Default)]
pub(crate) struct ModelTurn {
    pub(crate) calls: Vec<ModelTurnCall>,
    /// How many thinking blocks were sent back intact.
    pub(crate) thoughts: usize,
}

#[derive(Debug)]
pub(crate) struct ModelTurnCall {
    pub(crate) id: String,
    pub(crate) tool: String,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct ToolCallResult {
    pub(crate) tool: String,
    pub(crate) text: String,
}

impl SentConversation {
    /// Adds a prompt. Consecutive prompts are merged.
    pub(crate) fn prompt(&mut self, text: &str) {
        match self.turns.last_mut() {
            Some(SentTurn::Prompt(before)) => {
                before.push('\n');
                before.push_str(text);
            }
            _ => self.turns.push(SentTurn::Prompt(text.to_owned())),
        }
    }

    /// Adds to the model's current turn, or starts one.
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

    /// Adds the result of a call.
    pub(crate) fn result(&mut self, outcome: ToolCallResult) {
        match self.turns.last_mut() {
            Some(SentTurn::Results(results)) => results.push(outcome),
            _ => self.turns.push(SentTurn::Results(vec![outcome])),
        }
    }

    /// The tool of an earlier call, by the call's id.
    pub(crate) fn tool_of(&self, id: &str) -> String {
        let calls = self.turns.iter().rev().filter_map(|turn| match turn {
            SentTurn::Model(said) => said.calls.iter().find(|call| call.id == id),
            _ => None,
        });
        calls.map(|call| call.tool.clone()).next().unwrap_or_default()
    }

    /// The number of steps the model has taken.
    pub(crate) fn steps(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn, SentTurn::Model(_))).count()
    }

    /// The index after the last prompt.
    pub(crate) fn since_prompt(&self) -> usize {
        self.turns.iter().rposition(|turn| matches!(turn, SentTurn::Prompt(_))).map_or(0, |prompt| prompt + 1)
    }

    pub(crate) fn last_prompt(&self) -> &str {
        prompt_before(&self.turns)
    }

    /// The result of the last call.
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

/// The results since the model's last step in these turns.
pub(crate) fn results_before(turns: &[SentTurn]) -> &[ToolCallResult] {
    let since = turns.iter().rev().take_while(|turn| !matches!(turn, SentTurn::Model(_)));
    let results = since.filter_map(|turn| match turn {
        SentTurn::Results(results) => Some(results.as_slice()),
        _ => None,
    });
    results.last().unwrap_or_default()
}

/// Whether two names mean the same tool. Wires with a restricted character set use names with other characters replaced.
pub(crate) fn is_same_tool(one: &str, other: &str) -> bool {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') { character } else { '_' }
    };
    one.chars().map(plain).eq(other.chars().map(plain))
}
