//! Several processes over one database, and processes killed in the middle of their work.

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use toolgate_llm::Message;
use toolgate_session::{ListFilter, SessionError};

use crate::child::{sayings, start};
use crate::support::{Place, assistant, id, result, results, user, wait};

#[test]
fn whatever_was_said_to_be_there_is_there_once_and_nothing_by_halves() {
    let place = Place::new();
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let (mut next, mut promised) = (0, Vec::new());
    for _ in 0..40 {
        let mut child = start("work", &place.file(), next);
        let mut said = sayings(&mut child).map(|number| number.parse::<u64>().unwrap());
        let heard_before_the_end = (random.next_u32() % 20) as usize;
        promised.extend(said.by_ref().take(heard_before_the_end));
        child.kill().unwrap();
        child.wait().unwrap();
        promised.extend(said);
        // One more than the last may have been written before it could be reported.
        next = promised.last().copied().unwrap_or(0) + 1;
        let kept = kept(&place);
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]), "twice, or in another order: {kept:?}");
        assert!(promised.iter().all(|number| kept.contains(number)), "{promised:?} but {kept:?}");
        let unsaid = kept.iter().filter(|number| !promised.contains(number)).count();
        promised.extend(kept.iter().filter(|number| !promised.contains(number)).copied().collect::<Vec<_>>());
        promised.sort_unstable();
        assert!(unsaid <= 1, "{unsaid} more than one process can have on its way");
        next = next.max(kept.last().copied().unwrap_or(0));
    }
    assert!(promised.len() > 100, "{}", promised.len());
}

/// The numbers of everything stored, in the order written. Each call has exactly one result.
fn kept(place: &Place) -> Vec<u64> {
    let number = |text: &str| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    wait(async {
        let store = place.open().await;
        let mut session = match store.open_session(&id("s")).await {
            Err(SessionError::Unknown { .. }) => return Vec::new(),
            other => other.unwrap(),
        };
        // Answering the open calls makes the stored results visible.
        session.interrupt("interrupted").await.unwrap();
        let mut kept = Vec::new();
        for message in session.messages() {
            match message {
                Message::User { text, .. } => kept.push(number(text)),
                Message::Assistant(said) => kept.push(number(&said.text())),
                Message::Results { results } => {
                    let calls: Vec<&str> = results.iter().map(|result| result.call.as_str()).collect();
                    assert_eq!(calls, ["a", "b", "c"]);
                    let mut numbers: Vec<u64> = results
                        .iter()
                        .filter(|result| !result.is_error)
                        .map(|result| number(&result.text))
                        .collect();
                    numbers.sort_unstable();
                    kept.extend(numbers);
                }
            }
        }
        kept
    })
}

#[test]
fn a_hold_ends_with_its_process() {
    let place = Place::new();
    let mut child = start("hold", &place.file(), 0);
    assert_eq!(sayings(&mut child).next().as_deref(), Some("holds"));
    let process = Some(child.id());
    wait(async {
        let store = place.open().await;
        let refused = store.open_session(&id("s")).await.map(drop).unwrap_err();
        assert_eq!(refused, SessionError::InUse { id: id("s"), process });
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait(async {
        let store = place.open().await;
        store.open_session(&id("s")).await.unwrap();
        store.delete(&id("s")).await.unwrap();
    });
}

#[test]
fn processes_write_at_once_and_no_session_holds_words_of_another() {
    let place = Place::new();
    let children: Vec<_> = (0..4).map(|process| start("talk", &place.file(), process)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    wait(async {
        let store = place.open().await;
        let sessions = store.list(&ListFilter::default()).await.unwrap();
        assert_eq!(sessions.len(), 12);
        for summary in sessions {
            let session = store.open_session(&summary.id).await.unwrap();
            let expected: Vec<Message> = (0..20)
                .flat_map(|round| {
                    let words = format!("{} {round}", summary.id);
                    [user(&words), assistant(&words, &["a"]), results(&[result("a", &words)])]
                })
                .collect();
            assert_eq!(session.messages(), expected);
        }
    });
}
