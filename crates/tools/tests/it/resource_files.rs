//! Resource requests: calls that a frontend makes to read files by URI.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolgate_gate::{CallOptions, ResourceRequest};
use toolgate_tools::{CallResponse, Profile, ProfiledGate};
use toolgate_types::{DocumentContent, ErrorCode, HashedText, ResourceContent, Sha256};

use crate::assembled::{scratch, state_key};
use crate::reads::{call, front_of, records};

const MOST: u64 = 1000;

fn browse(front: &ProfiledGate, tool: &str, arguments: Value, browse: ResourceRequest) -> CallResponse {
    call(front, tool, arguments, CallOptions { resource: Some(browse), ..CallOptions::default() })
}

fn whole() -> ResourceRequest {
    ResourceRequest::ReadWhole { max_bytes: MOST }
}

fn code(called: &CallResponse) -> Option<ErrorCode> {
    called.failed.as_ref().map(|(_, failure)| failure.code)
}

/// The audited digest of an answer.
fn digest(scratch: &Path, answer: &[u8]) -> String {
    toolgate_audit::output_digest(&state_key(scratch), Sha256::of(answer)).to_string()
}

#[test]
fn a_file_is_given_as_it_is_and_the_record_is_of_that() {
    let bytes: Vec<u8> = (0..=255).collect();
    let text = DocumentContent::Text("é\n\"\n".into());
    let base64 = |bytes: &[u8]| DocumentContent::Base64(STANDARD.encode(bytes));
    for (profile, tool) in [(Profile::NATIVE, "read_file"), (Profile::CREW, "fs.read")] {
        let scratch = scratch();
        let front = front_of(profile, scratch.path());
        for (content, given) in [
            ("é\n\"\n".as_bytes(), text.clone()),
            (b"", DocumentContent::Text(HashedText::default())),
            (&[b'x'; MOST as usize], DocumentContent::Text("x".repeat(MOST as usize).into())),
            (&bytes, base64(&bytes)),
            (b"a\0b", base64(b"a\0b")),
            ("é".as_bytes().split_last().unwrap().1, base64(b"\xc3")),
        ] {
            std::fs::write(scratch.path().join("work/file"), content).unwrap();
            let called = browse(&front, tool, json!({"path": "@project/file"}), whole());
            if profile == Profile::CREW && matches!(given, DocumentContent::Base64(_)) {
                assert_eq!((code(&called), &called.resource), (Some(ErrorCode::BinaryFile), &None));
                continue;
            }
            assert_eq!(called.bytes(), called.answer.text.len() + given.data().len());
            let about = called.structured().unwrap();
            assert_eq!(about["sha256"], Sha256::of(content).to_string(), "{about}");
            let record = records(scratch.path()).pop().unwrap();
            assert_eq!(record["response"]["outputBytes"], given.data().len());
            assert_eq!(record["response"]["outputHash"], digest(scratch.path(), given.data().as_bytes()));
            let Some(ResourceContent::File(content)) = called.resource else { panic!("{called:?}") };
            assert_eq!(content, given);
        }
    }
}

#[test]
fn a_file_longer_than_the_request_takes_is_refused() {
    let scratch = scratch();
    let front = front_of(Profile::NATIVE, scratch.path());
    for (bytes, bound, is_refused) in [
        (MOST, whole(), false),
        (MOST + 1, whole(), true),
        (MOST + 1, ResourceRequest::ReadWhole { max_bytes: MOST + 1 }, false),
        // The limit of an answer to a model is not the limit of a resource.
        ((1 << 20) + 1, ResourceRequest::ReadWhole { max_bytes: 2 << 20 }, false),
    ] {
        for byte in [b'x', 0] {
            std::fs::write(scratch.path().join("work/file"), vec![byte; bytes as usize]).unwrap();
            let called = browse(&front, "read_file", json!({"path": "file"}), bound.clone());
            let refused = is_refused.then_some(ErrorCode::ReadLimit);
            assert_eq!(code(&called), refused, "{bytes} bytes of {byte}, {bound:?}");
            assert_eq!(called.resource.is_none(), is_refused);
        }
    }
}

#[test]
fn a_page_is_given_as_files_and_the_record_is_of_that() {
    let scratch = scratch();
    let front = front_of(Profile::NATIVE, scratch.path());
    for (name, content) in [("a", "1"), ("b \"\n", "22"), ("c", "")] {
        std::fs::write(scratch.path().join("work").join(name), content).unwrap();
    }
    let arguments = json!({"glob": "**/*", "path": "@project", "max_results": 2});
    let page = |after: Option<&str>| {
        let after = after.map(str::to_owned);
        let called = browse(&front, "find_files", arguments.clone(), ResourceRequest::ListPage { after });
        (called.resource.unwrap(), records(scratch.path()).pop().unwrap()["response"].clone())
    };
    let file = |name: &str, bytes: u64| (name.to_owned(), bytes);
    for (after, files, next) in [
        (None, vec![file("a", 1), file("b \"\n", 2)], Some("b \"\n".to_owned())),
        (Some("b \"\n"), vec![file("c", 0)], None),
        (Some("c"), Vec::new(), None),
    ] {
        let (browsed, recorded) = page(after);
        let json = json!(files).to_string();
        assert_eq!(browsed, ResourceContent::Page { files, next });
        assert_eq!(recorded["outputHash"], digest(scratch.path(), json.as_bytes()));
        assert_eq!(recorded["outputBytes"], json.len());
    }
}

#[test]
fn tools_show_what_they_are_for_and_nothing_else() {
    let page = || ResourceRequest::ListPage { after: None };
    for (profile, tool, arguments, wanted) in [
        (Profile::NATIVE, "find_files", json!({"glob": "*", "path": "file"}), whole()),
        (Profile::NATIVE, "read_file", json!({"path": "file"}), page()),
        (Profile::NATIVE, "list_directory", json!({"path": "."}), page()),
        (Profile::NATIVE, "write_file", json!({"path": "file", "content": "new"}), whole()),
        (Profile::NATIVE, "write_file", json!({"path": "file", "content": "new"}), page()),
        (Profile::NATIVE, "delete_file", json!({"path": "file"}), whole()),
        (Profile::CREW, "fs.list", json!({"path": "@project/"}), page()),
        (Profile::STUDIO, "file_read", json!({"path": "file"}), whole()),
    ] {
        let scratch = scratch();
        let front = front_of(profile, scratch.path());
        std::fs::write(scratch.path().join("work/file"), "old").unwrap();
        let called = browse(&front, tool, arguments, wanted);
        assert_eq!(code(&called), Some(ErrorCode::NotPermitted), "{profile} {tool}: {called:?}");
        assert!(called.resource.is_none());
        assert_eq!(std::fs::read_to_string(scratch.path().join("work/file")).unwrap(), "old");
    }
}
