use std::num::NonZero;

use toolgate_render::{Frame, Layout, LiveRegion, StreamKind, TextStream};

/// A row of the gate that stands above everything.
pub(crate) const ABOVE: &str = "UP";

pub(crate) const COLOURS: Layout = Layout { columns: 60, unicode: true, colour: true };

/// What is written for a text that arrives in pieces of so many characters.
pub(crate) fn written(
    text: &str,
    piece: usize,
    layout: Layout,
    height: usize,
    status: Option<&str>,
) -> String {
    let mut stream = TextStream::new(StreamKind::Markdown, layout);
    let mut region = LiveRegion::default();
    let characters: Vec<char> = text.chars().collect();
    let mut written = String::new();
    for piece in characters.chunks(piece) {
        stream.push(&piece.iter().collect::<String>());
        let (complete, open) = (stream.take_complete(), stream.open_rows(false).to_vec());
        written += &region.draw(Frame { complete, open, status: status.map(str::to_owned) }, height);
    }
    stream.finish();
    written + &region.draw(Frame { complete: stream.take_complete(), ..Frame::default() }, height)
}

/// The rows of a terminal after a row of the gate and the text.
pub(crate) fn shown(text: &str, piece: usize, layout: Layout) -> String {
    let columns = u16::try_from(layout.columns).unwrap();
    let status = &"waiting 3s"[..layout.columns.min(11) - 1];
    let written = written(text, piece, layout, 2000, Some(status));
    // On the narrowest row an escape takes six rows.
    let rows = u16::try_from(40 + 6 * text.chars().count()).unwrap_or(2000).min(2000);
    on_screen(&written, rows, columns)
}

/// What a terminal shows below the row of the gate.
fn on_screen(written: &str, rows: u16, columns: u16) -> String {
    let size = |count: u16| NonZero::new(count).unwrap();
    let mut terminal = vt100::Parser::new(size(rows), size(columns), 0);
    terminal.process(format!("{ABOVE}\r\n{}", written.replace('\n', "\r\n")).as_bytes());
    let rows: Vec<String> = terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    let shown = rows.join("\n");
    shown
        .strip_prefix(&format!("{ABOVE}\n"))
        .expect("the gate's row is still there")
        .trim_end_matches('\n')
        .to_owned()
}
