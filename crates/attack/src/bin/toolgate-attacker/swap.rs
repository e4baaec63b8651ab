//! Exchanges what the gate accesses with symlinks that lead outside, in every way a process can.

use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// How often files that calls moved or deleted are recreated.
const REPAIR_EVERY: u64 = 64;

struct Swapper<'p> {
    workspace: &'p Path,
    outside: &'p Path,
}

pub(crate) fn run(workspace: &Path, outside: &Path) {
    let swapper = Swapper { workspace, outside };
    swapper.repair();
    let over = until_input_ends();
    println!("ready");
    let mut rounds: u64 = 0;
    while !over.load(Ordering::Relaxed) {
        if rounds.is_multiple_of(REPAIR_EVERY) {
            swapper.repair();
        }
        swapper.round();
        if rounds.is_multiple_of(2) {
            swapper.lay_traps();
        } else {
            swapper.take_traps_up();
        }
        rounds += 1;
    }
    println!("{rounds}");
}

fn until_input_ends() -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    over
}

impl Swapper<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    /// Recreates what is missing. Calls may move and delete the files inside; they never touch the symlinks.
    fn repair(&self) {
        for folder in ["dir", "deep/er", "middle/er"] {
            if self.at(folder).symlink_metadata().is_err() {
                let _ = std::fs::create_dir_all(self.at(folder));
            }
        }
        for file in ["dir/file.txt", "deep/er/file.txt", "middle/er/file.txt", "leaf.txt", "plain.txt"] {
            // With `O_NOFOLLOW`: this process itself must not touch what is outside.
            let flags = rustix::fs::OFlags::NOFOLLOW.bits().try_into().unwrap_or(0);
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
            let parent_is_real = self.at(file).parent().is_some_and(|parent| {
                parent.canonicalize().is_ok_and(|parent| parent.starts_with(self.workspace))
            });
            if parent_is_real && let Ok(mut made) = options.write(true).create_new(true).open(self.at(file)) {
                let _ = std::io::Write::write_all(&mut made, b"inside\n");
            }
        }
        for (name, target) in [
            ("dir.other", self.outside.join("dir")),
            ("leaf.other", self.outside.join("secret.txt")),
            ("deep.other", self.outside.join("deep")),
            ("middle/er.other", self.outside.join("deep/er")),
            ("alias.txt", PathBuf::from("plain.txt")),
            ("alias.other", PathBuf::from(".env")),
        ] {
            let _ = symlink(target, self.at(name));
        }
    }

    fn round(&self) {
        // Atomically (`RENAME_EXCHANGE`), so that the name always exists.
        for (one, other) in [
            ("dir", "dir.other"),
            ("leaf.txt", "leaf.other"),
            ("middle/er", "middle/er.other"),
            ("alias.txt", "alias.other"),
        ] {
            let _ = renameat_with(CWD, self.at(one), CWD, self.at(other), RenameFlags::EXCHANGE);
        }
        // In several steps, with moments when the name does not exist.
        let _ = std::fs::rename(self.at("deep"), self.at("deep.hidden"));
        let _ = std::fs::rename(self.at("deep.other"), self.at("deep"));
        let _ = std::fs::rename(self.at("deep"), self.at("deep.other"));
        let _ = std::fs::rename(self.at("deep.hidden"), self.at("deep"));
    }

    /// A dangling symlink where a new file is about to be created; a symlink where a directory is about to be created.
    fn lay_traps(&self) {
        let _ = symlink(self.outside.join("created.txt"), self.at("fresh.txt"));
        let _ = symlink(self.outside.join("dir"), self.at("newdir"));
    }

    /// Removes the symlinks, and what calls have created in their place, so that the next calls create it again.
    fn take_traps_up(&self) {
        let _ = self.remove_link("fresh.txt");
        let _ = self.remove_link("newdir");
        // Renamed first, so that no symlink can be inserted in between.
        if std::fs::rename(self.at("newdir"), self.at("newdir.gone")).is_ok() {
            let _ = self.remove_link("newdir.gone");
            let _ = std::fs::remove_dir_all(self.at("newdir.gone"));
        }
    }

    fn remove_link(&self, name: &str) -> std::io::Result<()> {
        let path = self.at(name);
        if path.symlink_metadata()?.is_symlink() { std::fs::remove_file(path) } else { Ok(()) }
    }
}
