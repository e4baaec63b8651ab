//! A partial lexer for Cedar.

/// Maximum nesting of an expression, where a chain of operators counts as nesting. Cedar processes
/// expressions recursively, so a deeper one could overflow the stack and abort the process instead of being
/// rejected.
const MAX_NESTING: usize = 600;

/// The cost of brackets and `if`: each adds all levels of the grammar.
const BRACKET_DEPTH: usize = 20;

/// The stack size for Cedar's parser: enough for the deepest expression, however much of the current stack is
/// used.
const STACK_BYTES: usize = 64 << 20;

/// Runs recursive work on expressions on a large stack.
pub(super) fn with_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::grow(STACK_BYTES, work)
}

/// The offset where an expression becomes too deep, if it does. In a file, every policy is counted
/// separately.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let mut operators = vec![0_usize];
    for token in tokens(text) {
        match token.text {
            "(" | "[" | "{" => operators.push(BRACKET_DEPTH),
            ")" | "]" | "}" if operators.len() > 1 => drop(operators.pop()),
            ";" => operators = vec![0],
            "," => operators.last_mut().into_iter().for_each(|count| *count = BRACKET_DEPTH),
            "if" => operators.last_mut().into_iter().for_each(|count| *count += BRACKET_DEPTH),
            text if is_operator(text) => operators.last_mut().into_iter().for_each(|count| *count += 1),
            _ => {}
        }
        if operators.iter().sum::<usize>() > MAX_NESTING {
            return Some(token.offset);
        }
    }
    None
}

fn is_operator(text: &str) -> bool {
    matches!(text, "." | "|" | "&" | "+" | "-" | "*" | "!" | "<" | ">" | "=" | "in" | "has" | "like" | "is")
}

/// The tokens of a text, in order.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = CedarToken<'_>> {
    CedarLexer { rest: text, offset: 0 }
}

/// A token: a word, a string, `::`, or one other character.
pub(super) struct CedarToken<'t> {
    pub(super) text: &'t str,
    pub(super) offset: usize,
}

/// Splits text into tokens, skipping comments and white space.
struct CedarLexer<'t> {
    rest: &'t str,
    offset: usize,
}

impl<'t> CedarLexer<'t> {
    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.offset += taken.len();
        taken
    }

    fn skip_trivia(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.take(space);
            if !self.rest.starts_with("//") {
                return;
            }
            self.take(self.rest.find(['\n', '\r']).unwrap_or(self.rest.len()));
        }
    }
}

impl<'t> Iterator for CedarLexer<'t> {
    type Item = CedarToken<'t>;

    fn next(&mut self) -> Option<CedarToken<'t>> {
        self.skip_trivia();
        let offset = self.offset;
        let first = self.rest.chars().next()?;
        let length = match first {
            '"' => string_length(self.rest),
            _ if is_word(first) => self.rest.find(|letter| !is_word(letter)).unwrap_or(self.rest.len()),
            _ if self.rest.starts_with("::") => 2,
            '?' => 1 + self.rest.get(1..)?.find(|letter| !is_word(letter)).unwrap_or(self.rest.len() - 1),
            _ => first.len_utf8(),
        };
        Some(CedarToken { text: self.take(length), offset })
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The length of a string literal with its quotes; the whole text if it is unterminated.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}
