//! The last rows of the terminal, which are redrawn in place.
//!
//! Only rows that this region wrote are moved to and overwritten. A row that has scrolled out of the terminal cannot be reached any more and stays as
//! it is. A row is overwritten and only then erased to its end, so that nothing flickers.

use std::fmt::Write as _;

/// What the region shows next.
#[derive(Debug, Default)]
pub struct Frame {
    /// Rows that stay, above the others.
    pub complete: Vec<String>,
    /// Rows that may change.
    pub open: Vec<String>,
    /// A row below them.
    pub status: Option<String>,
}

/// The rows at the end of what was written. The cursor is behind the last one, or in the first column if there is none.
#[derive(Debug, Default)]
pub struct LiveRegion {
    drawn: Vec<String>,
    /// How many of the open rows have scrolled away.
    out_of_reach: usize,
}

impl LiveRegion {
    /// What to write to show a frame on a terminal with this many rows.
    pub fn draw(&mut self, frame: Frame, height: usize) -> String {
        let Frame { complete, open, status } = frame;
        let (complete_count, open_count) = (complete.len(), open.len());
        let has_status = status.is_some();
        let text = complete.into_iter().chain(open).skip(self.out_of_reach);
        let mut next: Vec<String> = text.chain(status).collect();
        let stays = open_count > 0 || has_status;
        let written = self.overwrite(&next, stays);
        let reach = height.saturating_sub(1 + usize::from(has_status)).max(1);
        let still_out = self.out_of_reach.saturating_sub(complete_count).min(open_count);
        self.out_of_reach = open_count.saturating_sub(reach).max(still_out);
        let kept = open_count - self.out_of_reach + usize::from(has_status);
        self.drawn = next.split_off(next.len().saturating_sub(kept));
        written
    }

    /// Removes the rows that may change, so that other rows can be written.
    pub fn clear(&mut self) -> String {
        self.draw(Frame::default(), usize::MAX)
    }

    /// The cursor ends behind the last row, or below it if nothing of the region stays.
    fn overwrite(&self, next: &[String], stays: bool) -> String {
        let same = self.drawn.iter().zip(next).take_while(|(drawn, next)| drawn == next).count();
        let end = if stays || next.is_empty() { "" } else { "\n" };
        if same == self.drawn.len() {
            let before = if same > 0 && same < next.len() { "\n" } else { "" };
            return format!("{before}{}{end}", next.get(same..).unwrap_or_default().join("\n"));
        }
        // If rows only go away, the last one that stays is written again: the cursor ends behind it.
        let same = same.min(next.len().saturating_sub(1));
        let up = self.drawn.len() - 1 - same;
        let mut written = String::from("\u{1b}[G");
        if up > 0 {
            let _ = write!(written, "\u{1b}[{up}A");
        }
        let rows: Vec<String> =
            next.get(same..).unwrap_or_default().iter().map(|row| format!("{row}\u{1b}[K")).collect();
        written + &rows.join("\n") + "\u{1b}[J" + end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_screen::{seen, seen_on};

    fn frame(complete: &[&str], open: &[&str], status: Option<&str>) -> Frame {
        let owned = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect();
        Frame { complete: owned(complete), open: owned(open), status: status.map(str::to_owned) }
    }

    #[test]
    fn rows_are_replaced_in_place() {
        let mut region = LiveRegion::default();
        let mut written = vec!["above\n".to_owned()];
        written.push(region.draw(frame(&[], &["one"], Some("waiting 1s")), 10));
        written.push(region.draw(frame(&[], &["one two", "three"], Some("waiting 2s")), 10));
        assert_eq!(seen(20, written.clone()), "above\none two\nthree\nwaiting 2s");
        written.push(region.draw(frame(&["ONE"], &["three"], None), 10));
        assert_eq!(seen(20, written.clone()), "above\nONE\nthree");
        written.push(region.draw(frame(&["three"], &[], None), 10));
        written.push("below".to_owned());
        assert_eq!(seen(20, written), "above\nONE\nthree\nbelow");
    }

    #[test]
    fn what_has_scrolled_away_is_left_and_nothing_is_written_twice() {
        let mut region = LiveRegion::default();
        let rows: Vec<String> = (0..30).map(|row| format!("row {row}")).collect();
        let mut written = vec!["above\n".to_owned()];
        for end in 1..=30 {
            let open: Vec<&str> = rows[..end].iter().map(String::as_str).collect();
            written.push(region.draw(frame(&[], &open, Some("status")), 5));
        }
        let all: Vec<&str> = rows.iter().map(String::as_str).collect();
        written.push(region.draw(frame(&all, &[], None), 5));
        assert_eq!(seen_on(5, 20, written.clone()), "row 26\nrow 27\nrow 28\nrow 29");
        let text = written.concat();
        assert!(rows.iter().all(|row| text.contains(row.as_str())));
        assert_eq!(text.matches("row 3\n").count() + text.matches("row 3\u{1b}[K\n").count(), 1, "{text:?}");
    }

    proptest! {
        #[test]
        fn any_sequence_of_frames_shows_the_last_one_below_what_is_complete(
            frames in prop::collection::vec(
                (prop::collection::vec("[a-c]{0,3}", 0..4), prop::collection::vec("[a-c]{0,3}", 0..6), prop::option::of("[x-z]")),
                1..12,
            )
        ) {
            let mut region = LiveRegion::default();
            let mut written = vec!["above\n".to_owned()];
            let mut expected = vec!["above".to_owned()];
            let mut last = Vec::new();
            for (complete, open, status) in frames {
                expected.extend(complete.iter().cloned());
                last = open.iter().cloned().chain(status.clone()).collect();
                written.push(region.draw(Frame { complete, open, status }, 300));
            }
            expected.extend(last);
            let expected = expected.join("\n");
            prop_assert_eq!(seen(20, written), expected.trim_end_matches('\n'));
        }
    }
}
