//! Every hostile path of the table, through every tool of every profile.

use serde::Deserialize;
use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Tree, code_of};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Decision, ErrorCode, Stage};

use crate::dress::{Operation, Wording, answered_code, attempts};
use crate::fixture::{DENIED_SECRET, Fixture, OUTSIDE_SECRET};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    path: String,
    all: Option<Expected>,
    read: Option<Expected>,
    list: Option<Expected>,
    search: Option<Expected>,
    write: Option<Expected>,
    change: Option<Expected>,
    only: Option<String>,
    except: Option<String>,
    needs: Option<Need>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Expected {
    Code(ErrorCode),
    Skip(Skip),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Skip {
    Skip,
}

const SKIP: Expected = Expected::Skip(Skip::Skip);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Need {
    Device,
}

impl Row {
    fn table() -> Vec<Self> {
        serde_saphyr::from_str(include_str!("../data/hostile_paths.yaml")).expect("a good table")
    }

    fn is_for(&self, profile: Profile, fixture: &Fixture) -> bool {
        self.only.as_deref().is_none_or(|only| only == profile.name())
            && self.except.as_deref() != Some(profile.name())
            && (self.needs != Some(Need::Device) || fixture.has_device)
    }

    /// The code that an operation must be refused with; `None` if it is not tried.
    fn expected(&self, operation: Operation) -> Option<ErrorCode> {
        let own = match operation {
            Operation::Read => self.read,
            Operation::Search => self.search.or(self.read),
            Operation::List | Operation::Find => self.list,
            Operation::Write | Operation::Append | Operation::MoveTo | Operation::PatchCreate => self.write,
            Operation::Edit | Operation::Delete | Operation::MoveFrom | Operation::PatchModify => {
                self.change.or(self.write)
            }
            // Whether it is in `@state` is checked before whether it exists.
            Operation::Frontmatter => self.change.filter(|change| *change == SKIP).or(self.write),
        };
        match own.or(self.all)? {
            Expected::Code(code) => Some(code),
            Expected::Skip(Skip::Skip) => None,
        }
    }

    fn is_relative(&self) -> bool {
        let odd_start = self.path.starts_with(['@', '/', '\\', '~', '$']) || self.path.contains(':');
        !odd_start && !self.path.trim().is_empty()
    }
}

/// A profile over its own fixture, with everything that must not change.
struct Siege {
    profile: Profile,
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    fixture: Fixture,
    wording: Wording,
    before: Vec<Tree>,
    calls: Vec<(CallResponse, ErrorCode, String)>,
    problems: Vec<String>,
}

impl Siege {
    fn begin(profile: Profile) -> Self {
        let fixture = Fixture::new();
        let bench = BenchOptions::new(profile, &fixture.workspace, &fixture.state)
            .home(&fixture.workspace.join("home"))
            .state_home(&fixture.workspace.join("var"))
            .package(&fixture.package)
            .open();
        let mut siege = Self {
            profile,
            bench,
            wording: Wording::load(),
            before: Vec::new(),
            fixture,
            calls: Vec::new(),
            problems: Vec::new(),
        };
        siege.allowed_paths_work();
        siege.before = siege.look();
        siege
    }

    /// Without this, a gate that refuses everything would pass.
    fn allowed_paths_work(&self) {
        let prefix = if self.profile == Profile::CREW { "@project/" } else { "" };
        for path in
            ["plain.txt", "./src//main.rs", "good_link", "good_abs/guide.md", ".env.example", ".git/HEAD"]
        {
            let path = format!("{prefix}{path}");
            let attempt = &attempts(self.profile, &path, "")[0];
            self.bench.must(attempt.tool, json!({"path": path}));
        }
        if self.profile != Profile::CREW {
            let absolute = self.fixture.workspace.join("src/../plain.txt");
            let answer =
                self.bench.must(attempts(self.profile, "", "")[0].tool, json!({"path": absolute})).answer;
            assert!(!answer.text.contains(self.root()), "{}", answer.text);
        }
    }

    fn root(&self) -> &str {
        self.fixture.scratch.path().to_str().unwrap()
    }

    /// Everything except the gate's own files, which every call appends to; of those, the run's files and the undo journal.
    fn look(&self) -> Vec<Tree> {
        let (runs, journal) = (self.fixture.state.join("runs"), self.fixture.state.join("journal.toolgate"));
        let mut trees =
            vec![Tree::without(self.fixture.scratch.path(), &[&self.fixture.state]), Tree::of(&journal)];
        if runs.exists() {
            trees.push(Tree::without(&runs, &[&runs.join("run/logs")]));
        }
        trees
    }

    fn attack(&mut self, row: &Row, path: &str, instead: Option<ErrorCode>) {
        let plain = if self.profile == Profile::CREW { "@project/plain.txt" } else { "plain.txt" };
        for attempt in attempts(self.profile, path, plain) {
            let Some(code) = row.expected(attempt.operation) else { continue };
            let code = instead.unwrap_or(code);
            let what = format!(
                "{} / {} / {:?} {:.200}",
                self.profile,
                row.name,
                attempt.operation,
                format!("{path:?}")
            );
            let called = self.bench.call(attempt.tool, attempt.arguments);
            let code = match attempt.operation {
                // A patch is text: names that cannot be written in it make it invalid, and it is refused before any file is accessed.
                Operation::PatchCreate | Operation::PatchModify
                    if code_of(&called) == Some(ErrorCode::PatchInvalid) =>
                {
                    ErrorCode::PatchInvalid
                }
                _ => code,
            };
            let problems = self.problems_of(&called, code, path);
            if !problems.is_empty() {
                // Later rows are compared with the present state, so that one hole is reported once.
                self.before = self.look();
                self.problems.push(format!(
                    "{what}: {}\n    {}",
                    called.answer.text,
                    problems.join("\n    ")
                ));
            }
            self.calls.push((called, code, what));
        }
    }

    /// What is wrong with how a call was refused.
    fn problems_of(&self, called: &CallResponse, code: ErrorCode, path: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |fine: bool, problem: String| problems.extend((!fine).then_some(problem));
        check(called.answer.is_error, "it was not refused".to_owned());
        check(code_of(called) == Some(code), format!("{:?} instead of {code:?}", code_of(called)));
        if code_of(called) == Some(code) && code != ErrorCode::PatchInvalid {
            let (told, word) = (answered_code(self.profile, called), self.wording.of(self.profile, code));
            check(told == word, format!("the model was told {told} instead of {word}"));
        }
        let decision = if code.is_denial() { Decision::Denied } else { Decision::Error };
        check(called.decision == decision, format!("the decision is not {decision:?}"));
        let at_work = matches!(&called.failed, Some((Stage::Execution, _)));
        check(at_work, "it did not end while the tool was at work".to_owned());
        check(!self.tells_a_secret(called), "a secret left".to_owned());
        check(!self.tells_a_host_path(called, path), "a host path left".to_owned());
        for (before, now) in self.before.iter().zip(&self.look()) {
            let differences = before.differences(now);
            check(differences.is_empty(), format!("it changed {}", differences.join(", ")));
        }
        problems
    }

    fn tells_a_secret(&self, called: &CallResponse) -> bool {
        let told = told(called);
        [OUTSIDE_SECRET, DENIED_SECRET].iter().any(|secret| told.contains(secret))
    }

    /// The path that the model itself wrote may be quoted to it.
    fn tells_a_host_path(&self, called: &CallResponse, path: &str) -> bool {
        told(called).replace(path, "").contains(self.root())
    }

    /// Exactly one record per call, consistent with the answer.
    fn end(self) -> usize {
        assert!(self.problems.is_empty(), "{} problems:\n{}", self.problems.len(), self.problems.join("\n"));
        let records = self.bench.records();
        for (called, code, what) in &self.calls {
            let of_call = &records[&called.call];
            assert_eq!(of_call.len(), 1, "{what}");
            let record = &of_call[0];
            let denial = record.denial.as_ref().unwrap();
            assert_eq!((denial.stage, denial.code), (Stage::Execution, *code), "{what}");
            assert_eq!(record.decision, called.decision, "{what}");
            assert!(record.response.is_none(), "{what}");
        }
        self.bench.verify_audit();
        self.calls.len()
    }
}

/// Everything that a model sees.
fn told(called: &CallResponse) -> String {
    let structured = called.structured().map(|structured| structured.to_string()).unwrap_or_default();
    format!("{}\n{structured}", called.answer.text)
}

fn besiege(profile: Profile) {
    let rows = Row::table();
    assert!(rows.len() >= 80, "only {} rows", rows.len());
    let mut siege = Siege::begin(profile);
    for row in &rows {
        if !row.is_for(profile, &siege.fixture) {
            continue;
        }
        let path = siege.fixture.expand(&row.path);
        if profile != Profile::CREW || path.trim_start_matches(['.', '/']).starts_with('@') {
            siege.attack(row, &path, None);
            continue;
        }
        // What is not a path at all is refused before its alias is resolved.
        let is_no_path = path.trim().is_empty() || path.contains('\0') || path.len() > 4096;
        siege.attack(row, &path, (!is_no_path).then_some(ErrorCode::OutsideWorkspace));
        if row.is_relative() {
            siege.attack(row, &format!("@project/{path}"), None);
        }
    }
    let calls = siege.end();
    println!("{profile}: {calls} hostile calls refused");
}

#[test]
fn native_refuses_hostile_paths() {
    besiege(Profile::NATIVE);
}

#[test]
fn crew_refuses_hostile_paths() {
    besiege(Profile::CREW);
}

#[test]
fn claw_refuses_hostile_paths() {
    besiege(Profile::CLAW);
}

#[test]
fn sidecar_refuses_hostile_paths() {
    besiege(Profile::SIDECAR);
}

#[test]
fn studio_refuses_hostile_paths() {
    besiege(Profile::STUDIO);
}
