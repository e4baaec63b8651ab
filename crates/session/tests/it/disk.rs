//! Full disks.

use std::path::Path;
use std::process::{Command, Stdio};

use toolgate_llm::Message;

use crate::child::{sayings, start_within};
use crate::support::{Place, id, user, wait};

/// Adds messages until the disk is full. What was reported as stored is there afterwards and nothing else; with space again, it continues.
fn fill(prefix: &[&str], place: &Place, file: &Path, after: impl FnOnce()) -> Vec<String> {
    let mut child = start_within(prefix, "fill", file, 0);
    let said: Vec<String> = sayings(&mut child).collect();
    assert!(child.wait().unwrap().success());
    let did = said.iter().filter(|word| word.starts_with("did ")).count();
    assert!(did > 0, "{said:?}");
    after();
    wait(async {
        let store = place.open().await;
        let mut session = store.open_session(&id("s")).await.unwrap();
        let numbers: Vec<String> = session.messages().iter().map(number).collect();
        let promised = said.iter().filter_map(|word| word.strip_prefix("did "));
        assert!(promised.eq(numbers.iter().map(String::as_str)), "{said:?} but {numbers:?}");
        session.append(user("there is room again")).await.unwrap();
    });
    said.into_iter().filter(|word| !word.starts_with("did ")).collect()
}

fn number(message: &Message) -> String {
    let Message::User { text, .. } = message else { panic!() };
    text.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_file_that_may_not_grow_loses_nothing() {
    let place = Place::new();
    let prefix = ["sh", "-c", "trap '' XFSZ; ulimit -f 400; exec \"$@\"", "sh"];
    let failures = fill(&prefix, &place, &place.file(), || {});
    assert_eq!(failures, ["failed database_error"; 5]);
}

/// A small disk in its own mount namespace; its files are then copied to a larger one.
#[test]
fn a_full_disk_loses_nothing() {
    let script = "mount -t tmpfs -o size=512k tmpfs \"$0\" && \"$@\"; code=$?; cp -r \"$0\"/. \"$0\"/../rescued; exit $code";
    let place = Place::new();
    let (small, rescued) = (place.scratch.path().join("small"), place.scratch.path().join("rescued"));
    std::fs::create_dir(&small).unwrap();
    std::fs::create_dir(&rescued).unwrap();
    let small_name = small.to_str().unwrap();
    let namespaces: [&[&str]; 2] = [&[], &["--map-root-user"]];
    let works = |flags: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(["--mount", "--propagation", "private"]).args(**flags);
        probe.args(["mount", "-t", "tmpfs", "tmpfs", small_name]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let Some(flags) = namespaces.iter().find(works) else {
        println!("note: no mount namespace may be made here; the limit on file sizes is tried instead");
        return;
    };
    let mut prefix = vec!["unshare", "--mount", "--propagation", "private"];
    prefix.extend(*flags);
    prefix.extend(["sh", "-c", script, small_name]);
    let failures = fill(&prefix, &place, &small.join("sessions/sessions.db"), || {
        std::fs::rename(rescued.join("sessions"), place.folder()).unwrap();
    });
    assert_eq!(failures, ["failed disk_full"; 5]);
}
