//! Runs what the pages show.

use crate::page::{self, Exchange, Page, Piece};
use crate::scratch::{Scratch, within_a_day};
use crate::volatile::{ids, replaced, settled};

#[test]
fn every_example_prints_what_its_page_shows() {
    let update = std::env::var("TOOLGATE_DOCS").is_ok_and(|value| value == "update");
    let mut differences = Vec::new();
    for page in page::all() {
        let (page, found) = within_a_day(|| play(page.clone()));
        if update && !found.is_empty() {
            std::fs::write(&page.path, page.text()).unwrap();
        } else {
            differences.extend(found);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Runs a page from top to bottom in one directory, and returns it with the real output, and the differences.
fn play(mut page: Page) -> (Page, Vec<String>) {
    let scratch = Scratch::new();
    let mut known = Vec::new();
    let mut differences = Vec::new();
    for piece in &mut page.pieces {
        match piece {
            Piece::Prose(_) => {}
            Piece::File { path, content, .. } => scratch.write(path, content),
            Piece::Session(exchanges) => {
                for exchange in exchanges {
                    differences.extend(exchange.play(&scratch, &mut known, &page.name));
                }
            }
        }
    }
    (page, differences)
}

impl Exchange {
    /// `known` maps the ids that the page shows to those of this run, so that later commands can use them.
    fn play(&mut self, scratch: &Scratch, known: &mut Vec<(String, String)>, page: &str) -> Option<String> {
        let in_this_run =
            |word: &str| known.iter().find(|(shown, _)| shown == word).map(|(_, real)| real.clone());
        let command = replaced(&self.command, |word| in_this_run(word).unwrap_or_else(|| word.to_owned()));
        let real = scratch.shown(&command);
        let same_kind = |(shown, real): &(String, String)| shown.len() == real.len();
        known.extend(ids(&self.output).into_iter().zip(ids(&real)).filter(same_kind));
        let on_the_page =
            |word: &str| known.iter().find(|(_, real)| real == word).map(|(shown, _)| shown.clone());
        let real = replaced(&real, |word| on_the_page(word).unwrap_or_else(|| word.to_owned()));
        if settled(&real) == settled(&self.output) {
            return None;
        }
        let difference = format!("{page}: $ {}\n--- shown\n{}--- real\n{real}", self.command, self.output);
        self.output = real;
        Some(difference)
    }
}
