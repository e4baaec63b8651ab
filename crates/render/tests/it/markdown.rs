//! What Markdown looks like, and that it looks the same however it arrives.

use proptest::prelude::*;
use toolgate_render::Layout;

use crate::fixture::{COLOURS, shown, written};

const DOCUMENT: &str = "\
# The plan

We change **two** files, `a.rs` and *b.rs*; see [the docs](https://docs.example/x) or <https://y.example>.
A second line.

1. First, which is a long item that has to be wrapped somewhere in the row
2. Second
   - nested
   - [x] done
- bullet

> A quote with ~~old~~ text
> in two lines

| name | size |
|:-----|-----:|
| one | 1 |
| two, with a long text that does not fit into one row of it | 22 |

```rust
fn main() { // here
    println!(\"hello\");
}
```
After the code. ![logo](logo.png) <b>html</b> &amp; \\*no emphasis\\*

---
<!-- a comment -->

[ref]: https://r.example \"title\"
";

#[test]
fn a_document_is_rendered() {
    insta::assert_snapshot!("document", shown(DOCUMENT, 10_000, COLOURS));
}

#[test]
fn without_colours_the_marks_stay() {
    let plain = Layout { colour: false, unicode: false, columns: 50 };
    insta::assert_snapshot!("document_without_colours", shown(DOCUMENT, 10_000, plain));
    assert!(!written(DOCUMENT, 10_000, plain, 100, None).contains("\u{1b}["));
}

#[test]
fn styles_are_closed_at_the_end_of_each_row() {
    let written = written(DOCUMENT, 10_000, COLOURS, 100, None).replace('\u{1b}', "^");
    insta::assert_snapshot!("document_with_styles", written);
}

#[test]
fn rows_are_the_same_however_the_text_arrives() {
    let layouts = [60, 24, 8].map(|columns| Layout { columns, ..COLOURS });
    for layout in layouts.into_iter().chain([Layout { colour: false, ..COLOURS }]) {
        let whole = shown(DOCUMENT, 100_000, layout);
        for piece in [1, 2, 3, 7, 64] {
            assert_eq!(shown(DOCUMENT, piece, layout), whole, "in pieces of {piece}, {layout:?}");
        }
    }
}

/// Pieces of Markdown, of which documents are put together.
fn line() -> impl Strategy<Value = String> {
    let words = prop::collection::vec("[a-z]{1,9}", 1..12).prop_map(|words| words.join(" "));
    let mark = prop::sample::select(vec![
        "", "", "", "# ", "- ", "  - ", "1. ", "> ", "> > ", "- > ", "    ", "* ", "+ ", "- [ ] ",
    ]);
    let around = prop::sample::select(vec!["", "", "", "**", "*", "`", "~~", "***"]);
    let line =
        (mark, around, words).prop_map(|(mark, around, words)| format!("{mark}{around}{words}{around}"));
    prop_oneof![5 => line, 3 => Just(String::new())]
}

/// The letters of a text, in order.
fn letters(text: &str) -> String {
    text.chars().filter(|character| character.is_alphanumeric() && !character.is_ascii_digit()).collect()
}

proptest! {
    #[test]
    fn no_letter_is_lost_and_none_is_shown_twice(lines in prop::collection::vec(line(), 0..30), piece in 1..40_usize, columns in 12..90_usize) {
        let text = lines.join("\n");
        let shown = shown(&text, piece, Layout { columns, ..COLOURS });
        let expected = letters(&text.replace("[ ]", ""));
        prop_assert_eq!(letters(&shown), expected, "{}", shown);
    }

    #[test]
    fn any_document_is_the_same_however_it_arrives(lines in prop::collection::vec(line(), 0..20), piece in 1..30_usize) {
        let text = lines.join("\n");
        prop_assert_eq!(shown(&text, piece, COLOURS), shown(&text, 100_000, COLOURS));
    }
}
