//! Tickets: threads and tasks that wait for the disk.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use toolgate_audit::{AuditError, AuditLog, GroupedWrite, LogOptions};
use toolgate_types::CallId;

use crate::fixture::{AuditFixture, alice, allowed, id, intent};

#[test]
fn a_ticket_is_settled_when_the_disk_confirms() {
    let place = AuditFixture::new();
    let log = place.open();
    let first = log.append(&allowed(id(1), &alice())).unwrap();
    let second = log.append(&allowed(id(2), &alice())).unwrap();
    assert!(!first.is_durable() && !second.is_durable());
    second.wait().unwrap();
    assert!(first.is_durable(), "one round settles all before it");
    let mut ready = pin!(first);
    assert_eq!(ready.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
}

#[test]
fn what_is_appended_is_there_at_once_and_what_is_submitted_when_its_ticket_is_settled() {
    let place = AuditFixture::new();
    let log = place.open();
    drop(log.append(&allowed(id(1), &alice())).unwrap());
    assert_eq!(place.sound_records().len(), 1);
    log.submit(&allowed(id(2), &alice())).unwrap().wait().unwrap();
    assert_eq!(place.sound_records().len(), 2);
    for number in 3..100 {
        drop(log.submit(&allowed(id(number), &alice())).unwrap());
    }
    log.close().unwrap();
    assert_eq!(place.sound_records().len(), 99, "closing waits for what nobody waited for");
}

#[test]
fn a_ticket_outlives_its_log() {
    let place = AuditFixture::new();
    let log = place.open();
    let appended = log.append(&allowed(id(1), &alice())).unwrap();
    let polled = log.append(&allowed(id(2), &alice())).unwrap();
    let submitted = log.submit(&allowed(id(3), &alice())).unwrap();
    log.close().unwrap();
    appended.wait().unwrap();
    submitted.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(polled).unwrap();
}

#[test]
fn tasks_and_threads_wait_together() {
    let place = AuditFixture::new();
    let options = LogOptions { checkpoint_every: 16, ..LogOptions::new(&place.directory) };
    let log = Arc::new(AuditLog::open(options, &toolgate_types::StateKey::new([7; 32])).unwrap().0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20 {
                    log.append(&allowed(CallId::fresh(), &alice())).unwrap().wait().unwrap();
                }
            });
        }
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..16 {
                let log = Arc::clone(&log);
                tasks.spawn(async move {
                    for _ in 0..10 {
                        let (call, caller) = (CallId::fresh(), alice());
                        if task % 2 == 0 {
                            log.intent(&intent(call, &caller)).unwrap().await.unwrap();
                            log.append(&allowed(call, &caller)).unwrap().await.unwrap();
                        } else {
                            log.submit(&allowed(call, &caller)).unwrap().await.unwrap();
                        }
                    }
                });
            }
            tasks.join_all().await;
        });
    });
    Arc::into_inner(log).unwrap().close().unwrap();
    assert_eq!(place.sound_records().len(), 2 * 20 + 16 * 10);
    assert_eq!(place.verify().records_after_checkpoint, 0);
}

fn poll(write: &mut GroupedWrite) -> Poll<Result<(), AuditError>> {
    pin!(write).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn calls_that_end_together_are_written_with_the_first_that_is_polled_again() {
    let place = AuditFixture::new();
    let log = place.open();
    let mut writes: Vec<GroupedWrite> =
        (1..=200).map(|number| log.append_grouped(&allowed(id(number), &alice())).unwrap()).collect();
    writes.iter_mut().for_each(|write| assert!(poll(write).is_pending()));
    assert_eq!(place.sound_records().len(), 0, "others may join");
    assert_eq!(poll(&mut writes[70]), Poll::Ready(Ok(())));
    assert_eq!(place.sound_records().len(), 64, "a group has a bound, and the others have not begun");
    writes.iter_mut().enumerate().filter(|(at, _)| *at != 70).for_each(|(_, write)| {
        assert_eq!(poll(write), Poll::Ready(Ok(())));
    });
    assert_eq!(place.sound_records().len(), 200);
}

#[test]
fn a_record_in_a_group_does_not_need_its_call() {
    let place = AuditFixture::new();
    let log = place.open();
    let mut polled = log.append_grouped(&allowed(id(1), &alice())).unwrap();
    assert!(poll(&mut polled).is_pending());
    drop(polled);
    assert_eq!(place.sound_records().len(), 1, "a call that is dropped has its record");
    let unpolled = log.append_grouped(&allowed(id(2), &alice())).unwrap();
    log.close().unwrap();
    assert_eq!(place.sound_records().len(), 2, "closing waits for no call");
    drop(unpolled);
    assert_eq!(place.sound_records().len(), 2);
}

#[test]
fn groups_of_many_threads_lose_and_double_nothing() {
    let place = AuditFixture::new();
    let log = place.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    for _ in 0..20 {
                        let calls =
                            (0..10).map(|_| log.append_grouped(&allowed(CallId::fresh(), &alice())).unwrap());
                        let calls: Vec<GroupedWrite> = calls.collect();
                        for call in calls {
                            call.await.unwrap();
                        }
                    }
                });
            });
        }
    });
    let records = place.sound_records();
    let calls: std::collections::BTreeSet<String> =
        records.iter().map(|record| record.trace_id.to_string()).collect();
    assert_eq!((records.len(), calls.len()), (800, 800));
}
