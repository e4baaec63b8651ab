//! The parsers of untrusted bytes: the same result however the bytes are split.

use proptest::prelude::*;
use toolgate_egress::wire::body::BodyReframer;
use toolgate_egress::wire::client_hello::{ClientHello, read_client_hello};
use toolgate_egress::wire::http::{BodyFraming, ProxyRequest, read_head};
use toolgate_egress::wire::socks::{read_greeting, read_request};
use toolgate_egress::wire::{ParseStatus, ProxyProtocol};

use crate::tls::client_hello;

/// Chunks as a client may write them: any split, any case, extensions, trailers.
fn chunked(data: &[u8], cut: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    for (index, chunk) in data.chunks(cut).enumerate() {
        let extension = if index % 2 == 0 { ";name=\"value\"" } else { "" };
        wire.extend_from_slice(format!("{:03X}{extension}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\nX-Trailer: dropped\r\n\r\n");
    wire
}

/// The reference model: what a server decodes from these chunks.
fn unchunked(mut wire: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let end = wire.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&wire[..end]).unwrap(), 16).unwrap();
        wire = &wire[end + 2..];
        data.extend_from_slice(&wire[..size]);
        assert_eq!(&wire[size..size + 2], b"\r\n");
        wire = &wire[size + 2..];
        if size == 0 {
            assert!(wire.is_empty(), "something was smuggled behind the end");
            return data;
        }
    }
}

fn pass(framing: BodyFraming, wire: &[u8], cut: usize) -> (Vec<u8>, bool) {
    let mut body = BodyReframer::new(framing);
    let mut out = Vec::new();
    for piece in wire.chunks(cut) {
        body.pass(piece, &mut out).unwrap();
    }
    (out, body.is_finished())
}

proptest! {
    #[test]
    fn chunked_bodies_keep_their_data_and_lose_what_follows(
        data in proptest::collection::vec(any::<u8>(), 0..600), cut in 1usize..700, piece in 1usize..50,
    ) {
        let mut wire = chunked(&data, cut);
        wire.extend_from_slice(b"GET http://evil.example/ HTTP/1.1\r\n\r\n");
        let (out, finished) = pass(BodyFraming::Chunked, &wire, piece);
        prop_assert!(finished);
        prop_assert_eq!(unchunked(&out), data);
    }

    #[test]
    fn plain_bodies_end_where_they_said(
        data in proptest::collection::vec(any::<u8>(), 0..600), length in 0usize..600, piece in 1usize..50,
    ) {
        let (out, finished) = pass(BodyFraming::Length(length as u64), &data, piece);
        prop_assert_eq!(&out[..], &data[..length.min(data.len())]);
        prop_assert_eq!(finished, data.len() >= length);
    }

    #[test]
    fn a_head_is_partial_until_it_is_whole(
        path in "[a-z/]{0,20}", extra in "[ -~]{0,30}", rest in any::<[u8; 4]>(),
    ) {
        let head = format!("GET http://example.com/{path} HTTP/1.1\r\nX-Extra: {extra}\r\n\r\n");
        for length in 0..head.len() {
            prop_assert_eq!(read_head(&head.as_bytes()[..length]), Ok(ParseStatus::Partial));
        }
        let whole = [head.as_bytes(), &rest].concat();
        let Ok(ParseStatus::Complete { value: ProxyRequest::Forward(forward), length }) = read_head(&whole) else {
            return Err(TestCaseError::fail("not whole"));
        };
        prop_assert_eq!(length, head.len());
        let expected = format!(
            "GET /{path} HTTP/1.1\r\nHost: example.com\r\nX-Extra: {}\r\nConnection: close\r\n\r\n",
            extra.trim_matches(' '),
        );
        prop_assert_eq!(String::from_utf8(forward.head).unwrap(), expected);
    }

    #[test]
    fn a_hello_is_the_same_in_any_records(name in "[a-z]{1,10}\\.example", record in 1usize..400) {
        let hello = client_hello(Some(&name), &[], record);
        for length in 0..hello.len() {
            prop_assert_eq!(read_client_hello(&hello[..length]), Ok(ParseStatus::Partial));
        }
        let expected = ParseStatus::Complete { value: ClientHello::ServerName(name), length: hello.len() };
        prop_assert_eq!(read_client_hello(&hello), Ok(expected));
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = bytes.first().map(|first| ProxyProtocol::detect(*first));
        let _ = read_head(&bytes);
        let _ = read_greeting(&bytes);
        let _ = read_request(&bytes);
        let _ = read_client_hello(&bytes);
        let _ = BodyReframer::new(BodyFraming::Chunked).pass(&bytes, &mut Vec::new());
        // The same after a prefix that gets further into the parser.
        let _ = read_request(&[&[5, 1, 0], &bytes[..]].concat());
        let _ = read_client_hello(&[&[0x16, 3, 1, 0, 200, 1, 0, 0, 196], &bytes[..]].concat());
    }

    #[test]
    fn a_damaged_hello_is_never_another_name(at in 0usize..600, value: u8) {
        let mut hello = client_hello(Some("good.example"), &[], 10_000);
        let at = at % hello.len();
        hello[at] = value;
        if let Ok(ParseStatus::Complete { value: ClientHello::ServerName(name), .. }) = read_client_hello(&hello) {
            let different = name.bytes().zip(b"good.example").filter(|(left, right)| left != *right).count();
            prop_assert!(name.len() == 12 && different <= 1, "{}", name);
        }
    }
}
