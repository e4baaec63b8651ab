// Different texts that look alike: a generator for property tests, included by the tests of every renderer of an approval question.

use proptest::prelude::*;

/// Characters that are drawn alike, or not at all. The first of each group is ASCII, or empty.
const LOOK_ALIKE: [&[&str]; 22] = [
    &[" ", "\u{a0}", "\u{2002}", "\u{3000}", "\u{2800}", "\u{1680}", "\u{3164}", "\u{202f}"],
    &["", "\u{200b}", "\u{200d}", "\u{2060}", "\u{feff}", "\u{ad}", "\u{fe0f}", "\u{e0041}", "\u{202e}", "\u{2069}", "\u{34f}"],
    &["a", "\u{430}", "\u{ff41}", "\u{3b1}", "\u{251}", "\u{1d41a}"],
    &["c", "\u{441}", "\u{3f2}", "\u{ff43}", "\u{217d}"],
    &["e", "\u{435}", "\u{212e}", "\u{ff45}"],
    &["o", "\u{43e}", "\u{3bf}", "\u{585}", "\u{ff4f}", "\u{9e6}"],
    &["p", "\u{440}", "\u{3c1}", "\u{ff50}"],
    &["x", "\u{445}", "\u{3c7}", "\u{ff58}", "\u{2179}"],
    &["y", "\u{443}", "\u{3b3}", "\u{ff59}"],
    &["i", "\u{456}", "\u{3b9}", "\u{131}", "\u{2170}"],
    &["\u{e9}", "e\u{301}"],
    &["\u{ac00}", "\u{1100}\u{1161}"],
    &["-", "\u{2010}", "\u{2212}", "\u{2013}", "\u{ff0d}"],
    &["/", "\u{2215}", "\u{2044}", "\u{ff0f}"],
    &[";", "\u{37e}", "\u{ff1b}"],
    &["|", "\u{1c0}", "\u{2223}", "\u{2502}"],
    &[".", "\u{2024}", "\u{a4f8}", "\u{ff0e}"],
    &["'", "\u{2bc}", "\u{2019}", "\u{ff07}"],
    &["#", "\u{ff03}"],
    &["K", "\u{212a}", "\u{41a}", "\u{39a}"],
    &["        ", "\t"],
    &["漢", "п", "л", "λ", "\t", "\u{21e5}       "],
];

/// A text as it is drawn: lookalikes are mapped to one character.
pub(super) fn skeleton(shown: &str) -> String {
    let mut skeleton = shown.to_owned();
    // The last group does not look alike: it adds words of other scripts, and tabs.
    for group in LOOK_ALIKE.iter().take(LOOK_ALIKE.len() - 1) {
        let Some((first, others)) = group.split_first() else { continue };
        for other in others {
            skeleton = skeleton.replace(other, first);
        }
    }
    skeleton.trim_end().to_owned()
}

fn piece() -> impl Strategy<Value = (String, String)> {
    let alike = (0..LOOK_ALIKE.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let alike = alike.prop_map(|(group, one, other)| {
        let group = LOOK_ALIKE.get(group).copied().unwrap_or_default();
        let pick = |index: prop::sample::Index| index.get(group).to_string();
        (pick(one), pick(other))
    });
    let same = "[a-e \\\\u{}0-9+\"-]{0,4}|\\\\u\\{[0-9a-f]{1,4}\\}| {41,50}";
    prop_oneof![3 => alike, 1 => same.prop_map(|same| (same.clone(), same))]
}

/// Two texts that differ in lookalikes, in literal escapes, or in trailing blanks; occasionally in nothing.
pub(super) fn pair() -> impl Strategy<Value = (String, String)> {
    prop::collection::vec(piece(), 0..12).prop_map(|pieces| {
        let one = pieces.iter().map(|(one, _)| one.as_str()).collect();
        let other = pieces.iter().map(|(_, other)| other.as_str()).collect();
        (one, other)
    })
}
