//! A wall clock that jumps: by days in both directions, before 1970, and far ahead.
//!
//! The machine's clock is not changed: an `LD_PRELOAD` library answers `clock_gettime(CLOCK_REALTIME)` with an offset from a file.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::gate::{Gate, Program};
use crate::load::Load;
use crate::place::Place;

const DAY: i64 = 24 * 3600;

const JUMPS: [(&str, i64); 7] = [
    ("a day ahead", DAY),
    ("back", 0),
    ("an hour back", -3600),
    ("before 1970", -80 * 365 * DAY),
    ("70 years ahead", 70 * 365 * DAY),
    ("a minute back", -60),
    ("now", 0),
];

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static const volatile long *offset;
static void __attribute__((constructor)) begin(void) {
    const char *path = getenv("TORTURE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (shared != MAP_FAILED) offset = shared;
    close(file);
}
int clock_gettime(clockid_t which, struct timespec *now) {
    int done = syscall(SYS_clock_gettime, which, now);
    if (done == 0 && offset && which == CLOCK_REALTIME) now->tv_sec += *offset;
    return done;
}
"#;

pub(crate) fn run(program: &Program) -> String {
    let mut place = Place::new(&["a"]);
    let root = place.settings.workspace.parent().unwrap().to_path_buf();
    let (source, library, offset) = (root.join("clock.c"), root.join("clock.so"), root.join("offset"));
    std::fs::write(&source, LIBRARY).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .unwrap();
    assert!(built.success(), "the library cannot be built");
    set(&offset, 0);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    place.settings.environment =
        vec![("LD_PRELOAD".to_owned(), text(&library)), ("TORTURE_CLOCK".to_owned(), text(&offset))];
    let (gate, client) = Gate::open(program, &place.settings);
    let load = Load::begin(client, &place, "a", "c".to_owned());
    for (_, jump) in JUMPS {
        set(&offset, jump);
        std::thread::sleep(Duration::from_millis(120));
    }
    let mut diary = load.end();
    drop(gate);
    // Every jump once more between two gates.
    for (number, (_, jump)) in JUMPS.into_iter().enumerate() {
        set(&offset, jump);
        let (gate, client) = Gate::open(program, &place.settings);
        let load = Load::begin(client, &place, "a", format!("c{number}"));
        std::thread::sleep(Duration::from_millis(50));
        let more = load.end();
        diary.begun.extend(more.begun);
        diary.answered.extend(more.answered);
        drop(gate);
    }
    let refused: Vec<_> = diary.answered.iter().filter(|(_, answer)| answer.is_err()).collect();
    assert!(refused.is_empty(), "refused because of the clock: {refused:?}");
    let sums = place.judge(&[("a", diary)]);
    place.verify(program);
    format!("{} jumps: {} calls, each with one record", 2 * JUMPS.len(), sums.answered)
}

fn set(offset: &Path, seconds: i64) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(offset).unwrap();
    file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
}
