//! The program's own code in memory.
#![expect(unsafe_code, reason = "giving pages back has no safe wrapper; the block is one call")]
#![expect(clippy::disallowed_methods, reason = "reads what the kernel says about this process")]

use std::ops::Range;

/// Returns the pages of the program's own code to the kernel. Code that runs next is mapped again from the page cache.
///
/// A started program needs little of its startup code, and for each page touched the kernel mapped the 16 around it: an idle `toolgate mcp` is 22.5 MiB
/// resident without this, and 5.8 MiB with it.
pub(crate) fn madvise_dontneed() {
    let here = madvise_dontneed as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Some(text) = maps.lines().find_map(|line| program_text(line, here)) else { return };
    // SAFETY: the range is one whole file mapping of this program that is not writable, so every page equals the file and is read back from there
    // when it is used.
    let _ = unsafe { libc::madvise(text.start as *mut libc::c_void, text.len(), libc::MADV_DONTNEED) };
}

/// The range of a mapping that contains this address, is backed by a file, and is executable but not writable.
fn program_text(line: &str, here: usize) -> Option<Range<usize>> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    let is_code = fields.next()? == "r-xp";
    let has_file = fields.nth(2)? != "0";
    (is_code && has_file && range.contains(&here)).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_a_file_is_given_back() {
        for (line, expected) in [
            ("1000-3000 r-xp 00001000 fd:00 1234   /bin/toolgate", Some(0x1000..0x3000)),
            ("1000-3000 r--p 00001000 fd:00 1234   /bin/toolgate", None),
            ("1000-3000 rwxp 00001000 fd:00 1234   /bin/toolgate", None),
            ("1000-3000 r-xp 00000000 00:00 0 ", None),
            ("1000-2000 r-xp 00001000 fd:00 1234   /bin/toolgate", None),
            ("", None),
        ] {
            assert_eq!(program_text(line, 0x2800), expected, "{line}");
        }
    }

    #[test]
    fn the_program_goes_on() {
        let resident = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let here = madvise_dontneed as *const () as usize;
            let mut lines = maps.lines().skip_while(|line| program_text(line, here).is_none());
            let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
            resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        madvise_dontneed();
        assert!(resident() < before, "of {before} kB nothing was given back");
    }
}
