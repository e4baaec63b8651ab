//! Tables, with columns as wide as the row allows.

use pulldown_cmark::Alignment;

use crate::styled::{Cell, Style, StyledLine, Wrap, row_columns};

/// A column that would be narrower than this is not worth it: the cells of a row follow each other.
const MIN_COLUMN: usize = 4;

const SEPARATOR: &str = " | ";

/// A table while it is parsed.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) alignments: Vec<Alignment>,
    /// The first row is the header.
    pub(super) rows: Vec<Vec<StyledLine>>,
}

impl Table {
    /// Its rows for this many columns.
    pub(super) fn rows(&self, available: usize) -> Vec<Vec<Cell>> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let for_text = available.saturating_sub(SEPARATOR.len() * count.saturating_sub(1));
        if count == 0 || for_text / count < MIN_COLUMN {
            return self.rows.iter().flat_map(|row| run_on(row, available)).collect();
        }
        let widths = self.widths(count, for_text);
        let mut rows = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            self.push_row(row, &widths, &mut rows);
            if index == 0 {
                let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                rows.push(cells(&StyledLine::of(&dashes.join("-+-"), Style::DIM)));
            }
        }
        rows
    }

    /// The natural widths, the widest ones narrowed until the row fits.
    fn widths(&self, count: usize, for_text: usize) -> Vec<usize> {
        let widest =
            |column| self.rows.iter().filter_map(|row| row.get(column)).map(StyledLine::columns).max();
        let mut widths: Vec<usize> =
            (0..count).map(|column| widest(column).unwrap_or(0).clamp(1, for_text)).collect();
        while widths.iter().sum::<usize>() > for_text {
            let Some(widest) = widths.iter_mut().max() else { break };
            *widest -= 1;
        }
        widths
    }

    fn push_row(&self, row: &[StyledLine], widths: &[usize], rows: &mut Vec<Vec<Cell>>) {
        let empty = StyledLine::default();
        let columns = widths
            .iter()
            .enumerate()
            .map(|(column, width)| row.get(column).unwrap_or(&empty).rows(*width, Wrap::Words));
        let columns: Vec<Vec<&[Cell]>> = columns.collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut written = StyledLine::default();
            let mut cells_of_row: Vec<Cell> = Vec::new();
            for (column, (parts, width)) in columns.iter().zip(widths).enumerate() {
                let part = parts.get(line).copied().unwrap_or_default();
                let spare = width.saturating_sub(row_columns(part));
                let before = match self.alignments.get(column) {
                    Some(Alignment::Right) => spare,
                    Some(Alignment::Center) => spare / 2,
                    _ => 0,
                };
                let separator = if column == 0 { "" } else { SEPARATOR };
                written.push(separator, Style::DIM);
                written.push(&" ".repeat(before), Style::PLAIN);
                cells_of_row.append(&mut written.take());
                cells_of_row.extend_from_slice(part);
                if column + 1 < widths.len() {
                    written.push(&" ".repeat(spare - before), Style::PLAIN);
                }
            }
            rows.push(cells_of_row);
        }
    }
}

fn cells(line: &StyledLine) -> Vec<Cell> {
    line.rows(usize::MAX, Wrap::Anywhere).concat()
}

/// The cells of a row, one after the other.
fn run_on(row: &[StyledLine], available: usize) -> Vec<Vec<Cell>> {
    let mut line = StyledLine::default();
    for (column, cell) in row.iter().enumerate() {
        line.push(if column == 0 { "" } else { SEPARATOR }, Style::DIM);
        line.append(cell);
    }
    line.rows(available, Wrap::Words).into_iter().map(<[Cell]>::to_vec).collect()
}
