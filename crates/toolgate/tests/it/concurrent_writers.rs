//! Two processes that change one file.

use serde_json::{Value, json};

use crate::fixture::CliFixture;

/// Increments a number in a file: read, then write unless it changed in between.
fn increment(place: &CliFixture) {
    loop {
        let (code, read) = place.call("read_file", &json!({"path": "counter.txt"}));
        assert_eq!(code, 0, "{read}");
        let read = &read["structured"];
        let number: u64 = read["content"].as_str().unwrap().trim().parse().unwrap();
        let arguments: Value = json!({
            "path": "counter.txt", "content": format!("{}\n", number + 1), "if_match_sha256": read["sha256"],
        });
        let (code, written) = place.call("write_file", &arguments);
        if code == 0 {
            return;
        }
        assert_eq!((code, &written["code"]), (1, &json!("precondition_failed")), "{written}");
    }
}

#[test]
fn guarded_writes_of_two_processes_lose_no_update() {
    const EACH: u64 = 20;
    let place = CliFixture::new();
    let file = place.workspace.join("counter.txt");
    std::fs::write(&file, "0\n").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..EACH).for_each(|_| increment(&place)));
        }
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", 2 * EACH));
    place.must(&["audit", "verify"]);
}
