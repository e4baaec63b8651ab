//! Tables of Markdown pages.

/// The rows of all tables below a heading, up to the next heading of any kind, without the header rows.
pub(crate) fn rows<'p>(page: &'p str, heading: &str) -> Vec<Vec<&'p str>> {
    let mut below = page.lines().skip_while(|line| *line != heading);
    assert!(below.next().is_some(), "the page has no heading `{heading}`");
    let lines: Vec<&str> = below.take_while(|line| !line.starts_with('#')).collect();
    let is_row = |index: usize| lines[index].starts_with('|') && !lines[index].starts_with("|---");
    let is_head = |index: usize| lines.get(index + 1).is_some_and(|next| next.starts_with("|---"));
    let rows = (0..lines.len()).filter(|index| is_row(*index) && !is_head(*index));
    rows.map(|index| lines[index].trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}
