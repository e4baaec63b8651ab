//! Every attack of the table from inside the sandbox: stopped with all layers on, and shown to succeed without those that stop it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolgate_attack::Report;

use crate::sandbox_host::{Who, tools};
use crate::sandbox_table::{Guard, Row, damage};

/// How the rows of one table ended.
#[derive(Default)]
struct Score {
    stopped: AtomicUsize,
    shown: AtomicUsize,
    alone: AtomicUsize,
    problems: Mutex<Vec<String>>,
}

impl Score {
    fn problem(&self, row: &Row, what: &str, report: &Report) {
        let problem = format!("{}: {what}\n    {report:?}", row.name);
        self.problems.lock().unwrap().push(problem);
    }

    fn attack(&self, row: &Row, who: Who) {
        self.is_stopped(row, who);
        self.succeeds_without(row, who);
        for guard in row.guards(who) {
            if row.guards(who).len() > 1 {
                self.is_stopped_by_one(row, who, *guard);
            }
        }
    }

    fn is_stopped(&self, row: &Row, who: Who) {
        let mut host = row.host(who);
        let report = host.carry_out(row.confined(&host));
        if let Some(refused) = &report.refused {
            self.problem(row, &format!("not run at all: {refused}"), &report);
        } else if row.has_succeeded(&mut host, &report) {
            self.problem(row, "SUCCEEDED with every layer on", &report);
        } else {
            let damage = damage(&mut host, &report);
            match damage.is_empty() {
                true => drop(self.stopped.fetch_add(1, Ordering::Relaxed)),
                false => self.problem(row, &format!("did damage: {}", damage.join(", ")), &report),
            }
        }
    }

    /// One success shows that the attack works; on a busy machine some need a retry.
    fn succeeds_without(&self, row: &Row, who: Who) {
        let mut last = None;
        for _ in 0..3 {
            let mut host = row.host(who);
            let report = host.carry_out(row.without(&host, row.guards(who)));
            if row.has_succeeded(&mut host, &report) {
                self.shown.fetch_add(1, Ordering::Relaxed);
                return;
            }
            last = Some(report);
        }
        if let Some(report) = last {
            self.problem(row, &format!("stopped even without {:?}", row.guards(who)), &report);
        }
    }

    /// With all the others off, one layer is enough.
    fn is_stopped_by_one(&self, row: &Row, who: Who, guard: Guard) {
        let off: Vec<Guard> = row.guards(who).iter().copied().filter(|other| *other != guard).collect();
        let mut host = row.host(who);
        let report = host.carry_out(row.without(&host, &off));
        match row.has_succeeded(&mut host, &report) {
            false => drop(self.alone.fetch_add(1, Ordering::Relaxed)),
            true => self.problem(row, &format!("not stopped by {guard:?} alone"), &report),
        }
    }
}

/// Runs every row that applies to such a gate, two at a time.
fn attack_as(who: Who) {
    if !who.is_possible() {
        println!("note: only root can be both gates; as {who:?} nothing was tried");
        return;
    }
    let _kept_for_all_rows = tools();
    // To run a single row during development.
    let only = std::env::var("SANDBOX_ROW").ok();
    let rows = Row::table();
    let chosen: Vec<&Row> = rows
        .iter()
        .filter(|row| row.is_for(who) && only.as_ref().is_none_or(|only| row.name.contains(only.as_str())))
        .collect();
    let (possible, impossible): (Vec<&Row>, Vec<&Row>) =
        chosen.into_iter().partition(|row| row.lacks().is_none());
    for row in &impossible {
        println!("note: `{}` was left out: this machine lacks {:?}", row.name, row.lacks().unwrap());
    }
    let score = Score::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(row) = possible.get(next.fetch_add(1, Ordering::Relaxed)) {
                    score.attack(row, who);
                }
            });
        }
    });
    let Score { stopped, shown, alone, problems } = score;
    println!(
        "{who:?}: {} attacks, {} stopped, {} shown to succeed without their guards, {} times one guard alone was enough",
        possible.len(),
        stopped.into_inner(),
        shown.into_inner(),
        alone.into_inner()
    );
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn attacks_on_a_gate_of_root_are_stopped() {
    attack_as(Who::Root);
}

#[test]
fn attacks_on_a_gate_of_an_ordinary_user_are_stopped() {
    attack_as(Who::User);
}

#[test]
fn the_table_is_long_enough_and_every_name_is_used_once() {
    let rows = Row::table();
    assert!(rows.len() >= 75, "only {} rows", rows.len());
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows.len());
    for who in [Who::Root, Who::User] {
        let count = rows.iter().filter(|row| row.is_for(who)).count();
        assert!(count >= 60, "only {count} rows as {who:?}");
    }
}
