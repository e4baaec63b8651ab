//! `SIGKILL` at any moment: during calls, of two gates that share a state directory, and during recovery.

use std::time::{Duration, Instant};

use toolgate_attack::spread;

use crate::gate::{Gate, Program};
use crate::load::Load;
use crate::place::Place;

/// The audit log grows with every call; a fresh directory now and then keeps the checks cheap.
const KILLS_PER_PLACE: u64 = 50;

pub(crate) fn run(program: &Program, kills: u64) -> String {
    let (mut calls, mut answered, mut interrupted, mut records, mut in_recovery) = (0, 0, 0, 0, 0);
    let (mut kill, mut slowest) = (0, Duration::ZERO);
    while kill < kills {
        let place = Place::new(&["a", "b"]);
        for round in 0..KILLS_PER_PLACE.min(kills - kill) {
            kill += 1;
            if round % 4 == 3 {
                // Killed during recovery from the last kill.
                let (gate, client) = Gate::start(program, &place.settings);
                std::thread::sleep(Duration::from_micros((spread(kill) * 8000.0) as u64));
                gate.kill();
                drop(client);
                in_recovery += 1;
                continue;
            }
            let writers: &[&'static str] = if round % 4 == 2 { &["a", "b"] } else { &["a"] };
            let begun = Instant::now();
            let started = writers.iter().map(|writer| {
                let (gate, client) = Gate::open(program, &place.settings);
                (gate, Load::begin(client, &place, writer, format!("k{kill}{writer}")))
            });
            let started: Vec<(Gate, Load)> = started.collect();
            slowest = slowest.max(begun.elapsed());
            std::thread::sleep(Duration::from_micros(1000 + (spread(kill) * 25_000.0) as u64));
            let mut diaries = Vec::new();
            for ((gate, load), writer) in started.into_iter().zip(writers) {
                gate.kill();
                diaries.push((*writer, load.gone()));
            }
            // The next start recovers.
            let (_gate, _client) = Gate::open(program, &place.settings);
            let sums = place.judge(&diaries);
            assert_eq!(sums.unrecorded, 0);
            calls += sums.begun;
            answered += sums.answered;
            interrupted += sums.interrupted;
            records = sums.records.max(records);
        }
        place.verify(program);
    }
    format!(
        "{kill} kills, {in_recovery} of them of gates that were putting back: {calls} calls, {answered} answered, {interrupted} interrupted and recorded, up to {records} records in one place; \
         nothing torn, lost or doubled; slowest start {} ms",
        slowest.as_millis()
    )
}
