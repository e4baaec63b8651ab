//! Texts that are likely to break line-oriented code: few different lines, mixed line ends, lines that look like parts of a patch.

use proptest::prelude::*;

pub(crate) fn line() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "b",
        "c",
        "",
        " ",
        "  b",
        "\tb",
        "-",
        "+",
        "- a",
        "+ a",
        "--",
        "-- ",
        "-- a",
        "++ a",
        "@@ -1 +1 @@",
        "\\ No newline",
        "diff --git a/x b/x",
        "é",
        "lone\rreturn",
        "a\r",
        "*** Begin Patch",
        "1",
    ])
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    let end = prop::sample::select(vec!["\n", "\n", "\n", "\r\n"]);
    (prop::collection::vec((line(), end), 0..12), any::<bool>()).prop_map(|(lines, final_end)| {
        let mut text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        if !final_end {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

/// The text with some of its lines replaced, removed or doubled.
pub(crate) fn changed(text: &str) -> impl Strategy<Value = String> + use<> {
    let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let steps = prop::collection::vec((any::<prop::sample::Index>(), line(), 0..4u8), 0..4);
    (steps, any::<bool>()).prop_map(move |(steps, cut)| {
        let mut lines = lines.clone();
        for (index, line, action) in steps {
            let at = index.index(lines.len() + 1);
            match action {
                0 if at < lines.len() => drop(lines.remove(at)),
                1 if at < lines.len() => lines[at] = format!("{line}\n"),
                _ => lines.insert(at, format!("{line}\n")),
            }
        }
        // Only the last line may lack its line end, or two lines would become one.
        let count = lines.len();
        for line in lines.iter_mut().take(count.saturating_sub(1)).filter(|line| !line.ends_with('\n')) {
            line.push('\n');
        }
        let mut text = lines.concat();
        if cut && text.ends_with('\n') {
            text.pop();
        }
        text
    })
}

/// Two related texts.
pub(crate) fn pair() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        text().prop_flat_map(|old| {
            let new = changed(&old);
            (Just(old), new)
        }),
        (text(), text()),
    ]
}
