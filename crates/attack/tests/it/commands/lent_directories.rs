//! A directory outside of the workspace, which a person lets one call read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_attack::{code_of, person};
use toolgate_gate::ApprovalReply;
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Trust};

use super::Desk;
use crate::approval::Scripted;
use crate::fixture::write;

struct Talk {
    desk: Desk,
    person: Arc<Scripted>,
    _kept: tempfile::TempDir,
    home: PathBuf,
}

impl Talk {
    fn new(replies: impl IntoIterator<Item = ApprovalReply>, config: &str) -> Self {
        let kept = tempfile::Builder::new().prefix("toolgate-home-").tempdir_in("/var/tmp").unwrap();
        let home = kept.path().canonicalize().unwrap();
        for (file, content) in [
            ("other/notes.md", "notes\n"),
            ("other/.env", "KEY=nobody-reads-this\n"),
            ("other/deep/server.pem", "nobody-reads-this\n"),
            ("other/extra.deny", "nobody-reads-this\n"),
            (".ssh/id_rsa", "nobody-reads-this\n"),
            ("plain", "nobody-reads-this\n"),
        ] {
            write(&home.join(file), content);
        }
        std::os::unix::fs::symlink(home.join("other"), home.join("link")).unwrap();
        std::os::unix::fs::symlink(home.join(".ssh"), home.join("other/out")).unwrap();
        let person = Scripted::new(replies);
        let approver = Arc::clone(&person);
        let desk = Desk::with(Profile::NATIVE, |options| {
            options
                .home(&home)
                .config(config)
                .deny(&["**/*.deny"])
                .approver(approver, Duration::from_secs(600))
        });
        Self { desk, person, _kept: kept, home }
    }

    fn run(&self, line: &str) -> CallResponse {
        let caller = Caller { trust: Trust::Guided, ..person("s1") };
        self.desk.bench.call_as(caller, "run_command", json!({"command": line}))
    }

    fn offered(&self) -> Vec<String> {
        self.person.asked().last().unwrap().escalations.iter().map(|offer| offer.text()).collect()
    }

    fn path(&self, path: &str) -> String {
        self.home.join(path).display().to_string()
    }
}

fn lent(id: &str) -> ApprovalReply {
    ApprovalReply::Escalated(vec![id.to_owned()])
}

#[test]
fn a_directory_is_lent_for_one_call_read_only_and_recorded() {
    use ApprovalReply::Once;
    let talk = Talk::new([Once, lent("directory-1"), Once, Once], "");
    let other = talk.path("other");
    let line = format!(
        "cat {other}/notes.md && {{ cat {other}/.env {other}/deep/server.pem {other}/extra.deny {other}/out/id_rsa; \
         echo x > {other}/new; rm {other}/notes.md; ls {}; }} 2>&1",
        talk.home.display()
    );
    let refused = talk.run(&line);
    assert!(talk.offered().is_empty(), "nothing is offered before it was missing");
    let said = format!("[read denied: `{other}/notes.md`: commands see the workspace and the system");
    assert!(refused.answer.text.contains(&said), "{}", refused.answer.text);
    let allowed = talk.run(&line);
    assert_eq!(talk.offered(), [format!("let it read {other} for this call")]);
    let text = &allowed.answer.text;
    assert!(text.starts_with("notes\n") && !text.contains("nobody-reads-this"), "{text}");
    // Of the rest of the home directory nothing is there.
    assert!(text.contains("\nother\n") && !text.contains("plain"), "{text}");
    assert!(Path::new(&format!("{other}/notes.md")).exists() && !Path::new(&format!("{other}/new")).exists());
    let records = talk.desk.bench.records();
    assert_eq!(records[&allowed.call][0].request.escalation, [format!("read {other}")]);
    assert!(records[&refused.call][0].request.escalation.is_empty());
    let next = talk.run(&line);
    assert!(next.answer.text.contains(&said), "for that call alone: {}", next.answer.text);
}

/// What a command in the background writes is in no answer of its call, and names the path all the same.
#[test]
fn a_directory_is_offered_to_a_command_that_missed_it_in_the_background() {
    let talk = Talk::new([ApprovalReply::Once, lent("directory-1")], "");
    let line = format!("cat {}", talk.path("other/notes.md"));
    let end = || {
        let caller = || Caller { trust: Trust::Guided, ..person("s1") };
        let arguments = json!({"command": line, "background": true});
        let started = talk.desk.bench.call_as(caller(), "run_command", arguments).structured().unwrap();
        let check = json!({"id": started["background"], "wait_ms": 60_000});
        let mut text = String::new();
        while !text.contains(" is ended]") {
            text += &talk.desk.bench.call_as(caller(), "check_command", check.clone()).answer.text;
        }
        text
    };
    let refused = end();
    assert!(refused.contains("[read denied: "), "{refused}");
    assert!(end().starts_with("notes\n"));
    assert_eq!(talk.offered(), [format!("let it read {} for this call", talk.path("other"))]);
}

/// The answer is the same whether or not a path exists, and no question offers what must not be lent.
#[test]
fn what_must_not_be_lent_is_not_offered_and_no_answer_tells_what_exists() {
    let talk = Talk::new(vec![ApprovalReply::Once; 40], "");
    let home = talk.home.display().to_string();
    let state = talk.desk.state.display().to_string();
    for line in [
        format!("cat {home}/plain"),
        format!("ls {home}"),
        format!("cat {home}/.ssh/id_rsa"),
        format!("cat {home}/link/notes.md"),
        format!("cat {home}/other/../plain"),
        format!("cat {home}/missing/file"),
        format!("ls {state}"),
        format!("ls {}", talk.desk.workspace.display()),
        "ls /var".to_owned(),
        "ls /run/systemd".to_owned(),
        "ls /sys/kernel".to_owned(),
        "cat /etc/shadow /root/x".to_owned(),
    ] {
        talk.run(&line);
        talk.run(&line);
        assert!(talk.offered().is_empty(), "{line}: {:?}", talk.offered());
    }
    let answer = |path: &str| {
        let text = talk.run(&format!("cat {path}")).answer.text;
        text.replace(path, "PATH")
    };
    assert_eq!(answer(&talk.path("other/notes.md")), answer(&talk.path("other/missing")));
}

#[test]
fn an_answer_lends_only_what_was_offered_and_the_operator_may_forbid_it() {
    use ApprovalReply::Once;
    for forged in ["directory-2", "directory-0", "/etc", "host-1"] {
        let talk = Talk::new([Once, lent(forged)], "");
        let line = format!("cat {}", talk.path("other/notes.md"));
        talk.run(&line);
        assert_eq!(code_of(&talk.run(&line)), Some(ErrorCode::ApprovalDenied), "{forged}");
    }
    let talk = Talk::new([Once, Once], "sandbox: {escalation: {directories: false}}");
    let line = format!("cat {}", talk.path("other/notes.md"));
    talk.run(&line);
    assert!(!talk.run(&line).answer.text.contains("asks a person") && talk.offered().is_empty());
}

/// A directory that was exchanged between question and answer is not shown.
#[test]
fn a_directory_that_became_a_link_is_not_lent() {
    let talk = Talk::new([ApprovalReply::Once, lent("directory-1")], "");
    let (other, home) = (talk.home.join("other"), talk.home.clone());
    let line = format!("cat {}", talk.path("other/notes.md"));
    talk.run(&line);
    talk.person.before_answer(move || {
        std::fs::rename(&other, home.join("moved")).unwrap();
        std::os::unix::fs::symlink(home.join(".ssh"), &other).unwrap();
    });
    let called = talk.run(&line);
    assert_eq!(code_of(&called), Some(ErrorCode::NotPermitted), "{}", called.answer.text);
}
