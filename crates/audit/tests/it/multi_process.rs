//! Many threads of many processes on one directory.

use std::collections::BTreeSet;

use crate::child::start;
use crate::fixture::{AuditFixture, id, sound_records};

#[test]
fn no_line_is_lost_torn_or_doubled() {
    let place = AuditFixture::new();
    let children: Vec<_> = (0..4).map(|process| start("append", &place.directory, process)).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let records = sound_records(&place.directory);
    let calls: BTreeSet<_> = records.iter().map(|record| record.trace_id).collect();
    assert_eq!((records.len(), calls), (4000, (0..4000).map(id).collect()));
    assert_eq!(place.verify().records_after_checkpoint, 0);
}
