//! The screen of a terminal as SVG.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

const CELL_WIDTH: f32 = 8.4;
const ROW_HEIGHT: f32 = 18.0;
const MARGIN: f32 = 16.0;
const TITLE_HEIGHT: f32 = 34.0;

const BACKGROUND: &str = "#14161b";
const FOREGROUND: &str = "#d6d9e0";

/// The sixteen colours that a terminal names.
const NAMED: [&str; 16] = [
    "#2b2f38", "#f07178", "#a6d189", "#e5c07b", "#82aaff", "#c792ea", "#7fdbca", "#c8ccd4", "#6b7280",
    "#ff8b92", "#b9e39b", "#f2d08b", "#9cbcff", "#d8a9f5", "#9be8da", "#ffffff",
];

/// How a run of cells is drawn.
#[derive(Clone, Debug, PartialEq)]
struct Style {
    foreground: String,
    background: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
}

impl Style {
    fn of(cell: &Cell) -> Self {
        let (mut foreground, mut background) =
            (color(cell.fgcolor()).unwrap_or_else(|| FOREGROUND.to_owned()), color(cell.bgcolor()));
        if cell.inverse() {
            let behind = background.replace(foreground);
            foreground = behind.unwrap_or_else(|| BACKGROUND.to_owned());
        }
        Self {
            foreground,
            background,
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
        }
    }
}

fn color(color: Color) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        Color::Idx(index @ 0..16) => Some(NAMED[usize::from(index)].to_owned()),
        Color::Idx(index @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = index - 16;
            let (red, green, blue) = (level(cube / 36), level(cube / 6 % 6), level(cube % 6));
            Some(format!("#{red:02x}{green:02x}{blue:02x}"))
        }
        Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
    }
}

/// A run of cells of one style.
struct Run {
    column: u16,
    columns: u16,
    text: String,
    style: Style,
}

/// The screen in a window with this title: from the row that contains `first` on, without the empty rows below.
pub(crate) fn window(screen: &Screen, first: &str, title: &str) -> String {
    let columns = screen.size().1.get();
    let top = screen.rows(0, columns).position(|row| row.contains(first)).unwrap_or(0);
    let top = u16::try_from(top).unwrap();
    let rows: Vec<Vec<Run>> = (top..screen.size().0.get()).map(|row| runs(screen, row, columns)).collect();
    let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    let width = f32::from(columns) * CELL_WIDTH + 2.0 * MARGIN;
    let height = TITLE_HEIGHT + used as f32 * ROW_HEIGHT + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         font-family=\"ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (place, fill) in ["#f07178", "#e5c07b", "#a6d189"].iter().enumerate() {
        let x = MARGIN + 6.0 + place as f32 * 18.0;
        let _ = writeln!(svg, "<circle cx=\"{x:.0}\" cy=\"17\" r=\"5.5\" fill=\"{fill}\"/>");
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"22\" fill=\"#8b92a0\" text-anchor=\"middle\" font-size=\"13\">{}</text>",
        width / 2.0,
        escaped(title)
    );
    for (row, runs) in rows.iter().take(used).enumerate() {
        let top = TITLE_HEIGHT + row as f32 * ROW_HEIGHT;
        runs.iter().for_each(|run| draw(&mut svg, run, top));
    }
    svg.push_str("</svg>\n");
    svg
}

fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else { continue };
        if cell.is_wide_continuation() {
            continue;
        }
        let (style, text) = (Style::of(cell), if cell.has_contents() { cell.contents() } else { " " });
        let width = if cell.is_wide() { 2 } else { 1 };
        match runs.last_mut() {
            Some(run) if run.style == style => {
                run.text.push_str(text);
                run.columns += width;
            }
            _ => runs.push(Run { column, columns: width, text: text.to_owned(), style }),
        }
    }
    let is_seen = |run: &Run| run.style.background.is_some() || !run.text.trim().is_empty();
    runs.retain(is_seen);
    runs
}

fn draw(svg: &mut String, run: &Run, top: f32) {
    let (x, width) = (MARGIN + f32::from(run.column) * CELL_WIDTH, f32::from(run.columns) * CELL_WIDTH);
    if let Some(background) = &run.style.background {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{ROW_HEIGHT}\" fill=\"{background}\"/>"
        );
    }
    if run.text.trim().is_empty() {
        return;
    }
    let style = &run.style;
    let mut attributes = format!("fill=\"{}\"", style.foreground);
    for (is_set, attribute) in [
        (style.bold, " font-weight=\"bold\""),
        (style.dim, " opacity=\"0.6\""),
        (style.italic, " font-style=\"italic\""),
        (style.underline, " text-decoration=\"underline\""),
    ] {
        if is_set {
            attributes.push_str(attribute);
        }
    }
    // The length keeps columns aligned in whatever font the reader has.
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" {attributes}>{}</text>",
        top + 13.5,
        escaped(&run.text)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
