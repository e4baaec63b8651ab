//! One hunk: its header, and exactly the lines that the header announces.

use super::parse::{PatchReader, cuts_hunk_off, shown};
use super::{Hunk, HunkLine, PatchError, Sign};

/// Parses the hunk that begins at the next line.
pub(super) fn read(reader: &mut PatchReader<'_>, sent_with_crlf: bool) -> Result<Hunk, PatchError> {
    let line = reader.number();
    let text = reader.peek().unwrap_or_default();
    let header = HunkHeader::read(text).ok_or_else(|| PatchError::HunkHeader { line, text: shown(text) })?;
    reader.skip();
    // Counted before parsing, so that an error can show the correct header.
    let found = count_lines(reader);
    let wrong = || PatchError::Counts {
        line,
        said: (header.old_count, header.new_count),
        found,
        fitting: format!("@@ -{},{} +{},{} @@", header.old_start, found.0, header.new_start, found.1),
    };
    let lines = read_lines(reader, &header, sent_with_crlf)?.ok_or_else(wrong)?;
    if next_belongs_to_hunk(reader) {
        return Err(wrong());
    }
    Ok(Hunk { line, old_start: header.old_start, new_start: header.new_start, lines })
}

struct HunkHeader {
    old_start: usize,
    old_count: usize,
    new_start: usize,
    new_count: usize,
}

impl HunkHeader {
    /// `@@ -1,3 +1,4 @@ anything`; a count of one may be left out.
    fn read(line: &str) -> Option<Self> {
        let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        let (old_start, old_count) = range(old)?;
        let (new_start, new_count) = range(new)?;
        // Line 0 exists only as the place before a file, and a hunk must have lines.
        let sensible = (old_start > 0 || old_count == 0)
            && (new_start > 0 || new_count == 0)
            && (old_count > 0 || new_count > 0);
        sensible.then_some(Self { old_start, old_count, new_start, new_count })
    }
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((number(start)?, number(count)?))
}

/// A number without a sign; no file has more lines than fit into 32 bits.
fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse::<u32>().ok()?.try_into().ok() } else { None }
}

/// How many old and new lines seem to follow, whatever the header says.
fn count_lines(reader: &PatchReader<'_>) -> (usize, usize) {
    let (mut old, mut new, mut blank) = (0, 0, 0);
    for distance in 0.. {
        let Some(line) = reader.ahead(distance).filter(|_| !reader.names_ahead(distance)) else { break };
        match line.as_bytes().first() {
            // Trailing blank lines are just blank lines, not context lines that lost their space.
            None | Some(b'\r') => blank += 1,
            Some(b' ' | b'+' | b'-') if !reader.signature_ahead(distance) => {
                let sign = line.as_bytes().first();
                old += blank + usize::from(sign != Some(&b'+'));
                new += blank + usize::from(sign != Some(&b'-'));
                blank = 0;
            }
            Some(b'\\') => {}
            _ => break,
        }
    }
    (old, new)
}

/// Parses as many lines as the header announces; `None` when there are fewer.
fn read_lines(
    reader: &mut PatchReader<'_>,
    header: &HunkHeader,
    sent_with_crlf: bool,
) -> Result<Option<Vec<HunkLine>>, PatchError> {
    let (mut old_left, mut new_left) = (header.old_count, header.new_count);
    let mut lines: Vec<HunkLine> = Vec::new();
    let mut ended = MissingNewlines::default();
    loop {
        let line = reader.peek();
        if let Some(true) = line.map(|line| line.starts_with('\\')) {
            ended.mark(lines.last_mut(), reader.number())?;
        } else if old_left == 0 && new_left == 0 {
            return Ok(Some(lines));
        } else {
            let Some(text) = line.filter(|line| !cuts_hunk_off(line)) else { return Ok(None) };
            let line = read_line(text, sent_with_crlf).ok_or_else(|| reader.unexpected())?;
            let (takes_old, takes_new) = (line.sign != Sign::Add, line.sign != Sign::Remove);
            if (takes_old && old_left == 0) || (takes_new && new_left == 0) {
                return Ok(None);
            }
            old_left -= usize::from(takes_old);
            new_left -= usize::from(takes_new);
            ended.refuse_more(line.sign)?;
            lines.push(line);
        }
        reader.skip();
    }
}

/// A line of a hunk; `None` when it cannot be one. An empty context line that lost its space is accepted.
fn read_line(line: &str, sent_with_crlf: bool) -> Option<HunkLine> {
    let line = if sent_with_crlf { line.strip_suffix('\r').unwrap_or(line) } else { line };
    let (sign, text) = match line.as_bytes().first() {
        None | Some(b'\r') => (Sign::Context, Some(line)),
        Some(b' ') => (Sign::Context, line.get(1..)),
        Some(b'-') => (Sign::Remove, line.get(1..)),
        Some(b'+') => (Sign::Add, line.get(1..)),
        _ => return None,
    };
    Some(HunkLine { sign, text: format!("{}\n", text?) })
}

/// For each side, where the patch marked its last line as one without a line end.
#[derive(Default)]
struct MissingNewlines {
    old: Option<usize>,
    new: Option<usize>,
}

impl MissingNewlines {
    /// Removes the line end of the line before `\ No newline at end of file`.
    fn mark(&mut self, last: Option<&mut HunkLine>, marker: usize) -> Result<(), PatchError> {
        let Some(line) = last.filter(|line| line.text.ends_with('\n')) else {
            return Err(PatchError::EarlyEnd { line: marker });
        };
        line.text.pop();
        self.old = if line.sign == Sign::Add { self.old } else { Some(marker) };
        self.new = if line.sign == Sign::Remove { self.new } else { Some(marker) };
        Ok(())
    }

    fn refuse_more(&self, sign: Sign) -> Result<(), PatchError> {
        let marker = match sign {
            Sign::Context => self.old.or(self.new),
            Sign::Remove => self.old,
            Sign::Add => self.new,
        };
        marker.map_or(Ok(()), |line| Err(PatchError::EarlyEnd { line }))
    }
}

/// Whether the next line looks like a further line of a hunk that should be complete.
fn next_belongs_to_hunk(reader: &PatchReader<'_>) -> bool {
    let Some(line) = reader.peek().filter(|_| !reader.at_names()) else { return false };
    let signed = matches!(line.as_bytes().first(), Some(b' ' | b'+' | b'-'));
    signed && !line.trim().is_empty() && !reader.signature_ahead(0)
}
