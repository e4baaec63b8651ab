//! A BM25 index over names, descriptions and arguments.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bm25::{Embedder, EmbedderBuilder, Embedding};
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
    postings: Postings,
}

/// The texts that have a word, by word, each with what the word weighs there. The scorer of `bm25` looks its weight up for each text and each word
/// of a query, and computes how rare the word is anew for each text: two thirds of the time of a search among 5,000 tools.
#[derive(Default)]
struct Postings {
    of: HashMap<u32, Vec<(usize, f32)>>,
    texts: usize,
}

impl Postings {
    fn add(&mut self, embedding: &Embedding<u32>) {
        let mut seen = HashSet::new();
        // Each occurrence of a word is listed, with the same weight.
        for token in embedding.iter().filter(|token| seen.insert(token.index)) {
            self.of.entry(token.index).or_default().push((self.texts, token.value));
        }
        self.texts += 1;
    }

    /// The scores of the texts that have a word of the query, in their order.
    #[expect(clippy::cast_precision_loss, reason = "counts of tools are far below 2^24")]
    fn scores(&self, query: &Embedding<u32>) -> Vec<(usize, f32)> {
        let mut scores: Vec<Option<f32>> = vec![None; self.texts];
        for having in query.iter().filter_map(|token| self.of.get(&token.index)) {
            let (all, count) = (self.texts as f32, having.len() as f32);
            let rarity = (1.0 + (all - count + 0.5) / (count + 0.5)).ln();
            for (place, weight) in having {
                if let Some(score) = scores.get_mut(*place) {
                    *score = Some(score.unwrap_or_default() + rarity * weight);
                }
            }
        }
        scores.into_iter().enumerate().filter_map(|(place, score)| Some((place, score?))).collect()
    }
}

impl ToolIndex {
    pub(super) fn build(tools: Arc<[Arc<dyn Tool>]>) -> Self {
        let texts: Vec<String> = tools.iter().map(|tool| text(tool.spec())).collect();
        let corpus: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder: Embedder<u32, NameTokenizer> =
            EmbedderBuilder::with_tokenizer_and_fit_to_corpus(NameTokenizer, &corpus).build();
        let mut postings = Postings::default();
        texts.iter().for_each(|text| postings.add(&embedder.embed(text)));
        Self { tools, embedder, postings }
    }

    /// Whether it is over exactly these tools.
    pub(super) fn is_of(&self, tools: &[Arc<dyn Tool>]) -> bool {
        let is_same = |(one, other): (&Arc<dyn Tool>, &Arc<dyn Tool>)| Arc::ptr_eq(one, other);
        self.tools.len() == tools.len() && self.tools.iter().zip(tools).all(is_same)
    }

    /// The tools that fit best, the best first. Those that fit equally well keep their order.
    pub(super) fn search(&self, query: &str, most: usize) -> Vec<Arc<dyn Tool>> {
        let mut scored = self.postings.scores(&self.embed(query));
        // Stable, so that equals keep their order.
        scored.sort_by(|(_, one), (_, other)| other.partial_cmp(one).unwrap_or(Ordering::Equal));
        scored.iter().take(most).filter_map(|(place, _)| self.tools.get(*place).cloned()).collect()
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

#[cfg(test)]
mod tests {
    use bm25::Scorer;

    use super::*;

    #[test]
    fn scores_are_those_of_the_crate() {
        let texts: Vec<String> = (0..60)
            .map(|number| {
                let more = ["issue", "branch page", "page page user", ""][number % 4];
                format!("create a {more} in product {} with an author", number / 7)
            })
            .collect();
        let corpus: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder: Embedder<u32, NameTokenizer> =
            EmbedderBuilder::with_tokenizer_and_fit_to_corpus(NameTokenizer, &corpus).build();
        let (mut postings, mut scorer) = (Postings::default(), Scorer::<usize>::new());
        for (place, text) in texts.iter().enumerate() {
            postings.add(&embedder.embed(text));
            scorer.upsert(&place, embedder.embed(text));
        }
        for query in ["page of product 3", "author", "issue issue user", "nothing of it", ""] {
            let mut embedded = embedder.embed(query);
            embedded.0.dedup_by_key(|token| token.index);
            let mut wanted: Vec<(usize, f32)> =
                scorer.matches(&embedded).into_iter().map(|found| (found.id, found.score)).collect();
            wanted.sort_by_key(|(place, _)| *place);
            assert_eq!(postings.scores(&embedded), wanted, "{query}");
        }
    }
}
