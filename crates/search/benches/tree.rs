//! Searching, finding and listing beside ripgrep and a bare directory read, in one run over one tree.
//!
//! `cargo bench -p toolgate-search --bench tree`; wants `rg` in the path, and says so when there is none.
//! The measured processes take turns, so that whatever else the machine does falls on both alike.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use toolgate_search::{FindOptions, ListOptions, SearchOptions, Start, Target, find, list, search};
use toolgate_types::Stop;

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
                search(Target::Tree(Start::root(&root)), &everything, &options, &Stop::never()).unwrap();
            assert_eq!(found.effort.files_searched, 20_000);
            assert_eq!(found.matches.len(), 5, "{what}");
        };
        against_ripgrep(what, &tree, arguments, &ours);
    }
    let options = FindOptions { max_results: 100_000, ..FindOptions::new("file00*.txt") };
    against_ripgrep("find by name", &tree, &["--files", "-g", "file00*.txt"], &|| {
        assert_eq!(
            find(Start::root(&root), &everything, &options, &Stop::never()).unwrap().paths.len(),
            4000
        );
    });
    against_bare_reading(&folder.path().join("flat"));
}

/// 20 × 20 directories of 50 files of half a kilobyte to nine and a half, five of them with the needle.
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
    let (mut their_times, mut our_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        their_times.push(timed(|| assert!(theirs())));
        our_times.push(timed(ours));
    }
    let after = cpu_ticks();
    let (theirs, ours) = (median(their_times), median(our_times));
    let cpu = |index: usize| (after[index] - before[index]) as f64 * 10.0 / ROUNDS as f64;
    println!(
        "{what}: rg {theirs:.2?} (cpu {:.0} ms), ours {ours:.2?} (cpu {:.0} ms), ratio {:.3}",
        cpu(1),
        cpu(0),
        ours.as_secs_f64() / theirs.as_secs_f64()
    );
}

/// Hundredths of a second that this process and the ones it waited for have spent.
fn cpu_ticks() -> [u64; 2] {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<u64> =
        stat.rsplit(')').next().unwrap().split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    [fields[11] + fields[12], fields[13] + fields[14]]
}

fn against_bare_reading(flat: &Path) {
    fs::create_dir_all(flat).unwrap();
    for number in 0..1000 {
        fs::write(flat.join(format!("entry-{:04}.txt", number * 7919 % 1000)), "x").unwrap();
    }
    let handle = File::open(flat).unwrap();
    let everything = |_: &Path, _: bool| true;
    let bare = || {
        let read = fs::read_dir(flat).unwrap();
        let mut entries: Vec<(OsString, bool)> = read
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.file_type().unwrap().is_dir()))
            .collect();
        entries.sort_unstable();
        assert_eq!(black_box(entries).len(), 1000);
    };
    for with_size in [false, true] {
        let options =
            ListOptions { max_entries: 1000, include_hidden: true, include_symlinks: true, with_size };
        let ours = || {
            let listing = list(Start::root(&handle), &everything, &options, &Stop::never()).unwrap();
            assert_eq!(black_box(listing).entries.len(), 1000);
        };
        let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS * 20 {
            bare_times.push(timed(bare));
            our_times.push(timed(ours));
        }
        let (bare, ours) = (median(bare_times), median(our_times));
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        let sizes = if with_size { " with sizes" } else { "" };
        println!("list 1,000{sizes}: bare sorted read {bare:.2?}, ours {ours:.2?}, ratio {ratio:.3}");
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
