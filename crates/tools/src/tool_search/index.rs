//! A BM25 index over names, descriptions and arguments.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use bm25::{Embedder, EmbedderBuilder, Embedding, Scorer};
use serde_json::Value;
use toolgate_gate::{Tool, ToolSpec};

use super::tokens::NameTokenizer;

/// How often the words of a name count, compared with those of its description.
const NAME_WEIGHT: usize = 3;

/// How many different words of a query count.
const MAX_QUERY_TOKENS: usize = 16;

/// An index over one set of tools.
pub(super) struct ToolIndex {
    tools: Arc<[Arc<dyn Tool>]>,
    embedder: Embedder<u32, NameTokenizer>,
    scorer: Scorer<usize>,
}

impl ToolIndex {
    pub(super) fn build(tools: Arc<[Arc<dyn Tool>]>) -> Self {
        let texts: Vec<String> = tools.iter().map(|tool| text(tool.spec())).collect();
        let corpus: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder: Embedder<u32, NameTokenizer> =
            EmbedderBuilder::with_tokenizer_and_fit_to_corpus(NameTokenizer, &corpus).build();
        let mut scorer = Scorer::new();
        for (place, text) in texts.iter().enumerate() {
            scorer.upsert(&place, embedder.embed(text));
        }
        Self { tools, embedder, scorer }
    }

    /// Whether it is over exactly these tools.
    pub(super) fn is_of(&self, tools: &[Arc<dyn Tool>]) -> bool {
        let is_same = |(one, other): (&Arc<dyn Tool>, &Arc<dyn Tool>)| Arc::ptr_eq(one, other);
        self.tools.len() == tools.len() && self.tools.iter().zip(tools).all(is_same)
    }

    /// The tools that fit best, the best first. Those that fit equally well keep their order.
    pub(super) fn search(&self, query: &str, most: usize) -> Vec<Arc<dyn Tool>> {
        let mut scored = self.scorer.matches(&self.embed(query));
        scored.sort_by(|one, other| {
            let by_score = other.score.partial_cmp(&one.score).unwrap_or(Ordering::Equal);
            by_score.then(one.id.cmp(&other.id))
        });
        scored.iter().take(most).filter_map(|found| self.tools.get(found.id).cloned()).collect()
    }

    /// A query with each of its words once.
    fn embed(&self, query: &str) -> Embedding<u32> {
        let (mut seen, mut embedding) = (HashSet::new(), self.embedder.embed(query));
        embedding.0.retain(|token| seen.insert(token.index));
        embedding.0.truncate(MAX_QUERY_TOKENS);
        embedding
    }
}

/// What a tool is found by.
fn text(spec: &ToolSpec) -> String {
    let mut text = format!("{} ", spec.name).repeat(NAME_WEIGHT);
    text.push_str(&spec.title);
    text.push(' ');
    for (name, property) in
        spec.input_schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        text.push_str(name);
        text.push(' ');
        text.push_str(property.get("description").and_then(Value::as_str).unwrap_or_default());
        text.push(' ');
    }
    text.push_str(&spec.description);
    text
}
