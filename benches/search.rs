//! Search and find compared with ripgrep, in one run over one tree.
//!
//! Needs `rg` in `PATH`, and says so if it is missing.
//! The measured processes alternate, so that other load on the machine affects both alike.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use toolgate_benches::{Bench, in_turns, report};
use toolgate_search::{FindOptions, SearchOptions, SearchTarget, WalkRoot, find, search};
use toolgate_types::Deadline;

const ROUNDS: usize = 25;
const NEEDLE: &str = "zyzzyva";

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let bytes = grow(&tree);
    println!("20,000 files, {} MB, {ROUNDS} rounds, medians", bytes / 1_000_000);
    let root = File::open(&tree).unwrap();
    let everything = |_: &Path, _: bool| true;

    for (what, pattern, arguments, regex) in [
        ("rare literal", NEEDLE, &["-c", NEEDLE][..], false),
        ("rare literal, any case", NEEDLE, &["-ci", NEEDLE][..], false),
        ("rare regex", r"zyzz\w+a", &["-c", r"zyzz\w+a"][..], true),
        ("no literal in it", r"\d{4}-[a-z]+x", &["-c", r"\d{4}-[a-z]+x"][..], true),
    ] {
        let mut options = SearchOptions::new(pattern);
        options.regex = regex;
        options.case_sensitive = what != "rare literal, any case";
        let ours = || {
            let found =
                search(SearchTarget::Tree(WalkRoot::root(&root)), &everything, &options, &Deadline::never())
                    .unwrap();
            assert_eq!(found.stats.files_searched, 20_000);
            assert_eq!(found.matches.len(), 5, "{what}");
        };
        against_ripgrep(what, &tree, arguments, &ours);
    }
    let bench = Bench::over(&tree.canonicalize().unwrap(), &folder.path().join("state"));
    against_ripgrep("through the gate", &tree, &["-c", NEEDLE], &|| {
        let answer = bench.call("search_files", serde_json::json!({"pattern": NEEDLE}), true);
        assert_eq!(answer.text.lines().count(), 5);
    });
    let options = FindOptions { max_results: 100_000, ..FindOptions::new("file00*.txt") };
    against_ripgrep("find by name", &tree, &["--files", "-g", "file00*.txt"], &|| {
        assert_eq!(
            find(WalkRoot::root(&root), &everything, &options, &Deadline::never()).unwrap().paths.len(),
            4000
        );
    });
}

/// 20 × 20 directories of 50 files of 0.5 to 9.5 KB, five of them with the needle.
fn grow(tree: &Path) -> usize {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let letters = b"abcdefghijklmnopqrstuvwxyz";
    let word = |random: &mut Random| {
        let length = 2 + random.below(9);
        (0..length).map(|_| char::from(letters[random.below(26)])).collect::<String>()
    };
    let words: Vec<String> = (0..2000).map(|_| word(&mut random)).collect();
    let mut total = 0;
    for number in 0..20_000 {
        let directory = tree.join(format!("dir{:02}/sub{:02}", number / 1000, number / 50 % 20));
        if number % 50 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        let size = 500 + random.below(9000);
        let mut text = String::with_capacity(size + 100);
        while text.len() < size {
            for _ in 0..3 + random.below(8) {
                text += &words[random.below(words.len())];
                text.push(' ');
            }
            text.push('\n');
        }
        if number % 4000 == 17 {
            text.insert_str(0, "0007-fox and the zyzzyva needle\n");
        }
        total += text.len();
        fs::write(directory.join(format!("file{:03}.txt", number % 50)), text).unwrap();
    }
    total
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

fn against_ripgrep(what: &str, tree: &Path, arguments: &[&str], ours: &dyn Fn()) {
    let mut command = Command::new("rg");
    command.args(arguments).arg(".").current_dir(tree).stdin(Stdio::null()).stdout(Stdio::null());
    let mut theirs = || command.status().is_ok_and(|status| status.success());
    if !theirs() {
        println!("{what}: `rg` is missing or found nothing; not compared");
        return;
    }
    ours();
    let before = cpu_ticks();
    let (ours, theirs) = in_turns(ROUNDS, ours, || assert!(theirs()));
    let after = cpu_ticks();
    let cpu = |index: usize| (after[index] - before[index]) as f64 * 10.0 / ROUNDS as f64;
    println!("{what}: rg {theirs:.2?} (cpu {:.0} ms), ours {ours:.2?} (cpu {:.0} ms)", cpu(1), cpu(0));
    report(&format!("search/20k-files/{}", what.replace([' ', ','], "-")), ours, theirs, "rg", 1.15);
}

/// CPU time of this process and of the children it waited for, in hundredths of a second.
fn cpu_ticks() -> [u64; 2] {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<u64> =
        stat.rsplit(')').next().unwrap().split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    [fields[11] + fields[12], fields[13] + fields[14]]
}
