//! Runs what the pages show.

use crate::page::{self, Exchange, Page, Piece};
use crate::scratch::{Scratch, within_a_day};
use crate::volatile::{ids, settled};

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
        let command =
            known.iter().fold(self.command.clone(), |text, (shown, real)| text.replace(shown, real));
        let real = scratch.shown(&command);
        known.extend(ids(&self.output).into_iter().zip(ids(&real)));
        let real = known.iter().fold(real, |text, (shown, real)| text.replace(real, shown));
        if settled(&real) == settled(&self.output) {
            return None;
        }
        let difference = format!("{page}: $ {}\n--- shown\n{}--- real\n{real}", self.command, self.output);
        self.output = real;
        Some(difference)
    }
}
