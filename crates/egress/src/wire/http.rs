//! The head of an HTTP proxy request.
//!
//! Request smuggling relies on heads that proxy and server delimit differently. So a line ends with CRLF and nothing else, there are no folded lines,
//! no ambiguous lengths, and the head for the server is generated from what was parsed.

use crate::host::Host;
use crate::refusal_reason::RefusalReason;
use crate::wire::ParseStatus;

/// Maximum size of a head.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of headers.
const MAX_HEADERS: usize = 128;

/// Headers that concern only the hop between the client and this proxy.
const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"];

/// What the head of a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyRequest {
    /// `CONNECT host:port`: a tunnel.
    Connect {
        /// The host of the request line; the `Host` header is ignored.
        host: Host,
        /// The port of the request line.
        port: u16,
    },
    /// `GET http://host/path`: one request to forward.
    Forward(ForwardRequest),
}

/// A plain request, ready to forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRequest {
    /// The host of the URL.
    pub host: Host,
    /// The port of the URL.
    pub port: u16,
    /// The head for the server.
    pub head: Vec<u8>,
    /// The framing of its body.
    pub body: BodyFraming,
}

/// How the end of a request's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// This many bytes; zero without a body.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// Parses the head of a request.
///
/// # Errors
/// When it is malformed, too large, or its host is not in canonical form.
pub fn read_head(bytes: &[u8]) -> Result<ParseStatus<ProxyRequest>, RefusalReason> {
    read(bytes, |line, headers| line.request(headers))
}

fn read<T>(
    bytes: &[u8],
    request: impl FnOnce(&RequestLine<'_>, &[HttpHeader<'_>]) -> Result<T, RefusalReason>,
) -> Result<ParseStatus<T>, RefusalReason> {
    let bytes = bytes.get(..MAX_HEAD_BYTES).unwrap_or(bytes);
    let Some(length) = head_length(bytes)? else {
        return if bytes.len() < MAX_HEAD_BYTES {
            Ok(ParseStatus::Partial)
        } else {
            Err(RefusalReason::TooLarge)
        };
    };
    let head = bytes.get(..length).ok_or(RefusalReason::Malformed("the head is not text"))?;
    let head = std::str::from_utf8(head).map_err(|_| RefusalReason::Malformed("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let line = RequestLine::parse(lines.next().unwrap_or_default())?;
    let headers = lines.take_while(|line| !line.is_empty()).map(HttpHeader::parse);
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    if headers.len() > MAX_HEADERS {
        return Err(RefusalReason::TooLarge);
    }
    if headers.iter().filter(|header| header.is("host")).count() > 1 {
        return Err(RefusalReason::Malformed("there is more than one Host header"));
    }
    Ok(ParseStatus::Complete { value: request(&line, &headers)?, length })
}

/// Parses the head of a request inside a tunnel, where its target is a path and its `Host` may name any site on the same server. The result's host is
/// the one in `Host`, or without any, that of the tunnel.
///
/// # Errors
/// As for [`read_head`].
pub fn read_head_in_tunnel(
    bytes: &[u8],
    host: &Host,
    port: u16,
) -> Result<ParseStatus<ForwardRequest>, RefusalReason> {
    read(bytes, |line, headers| line.request_in_tunnel(headers, host, port))
}

/// Whether the first bytes of a connection are an HTTP request; `None` while that is undecided. A server may skip empty lines before it (RFC 9112,
/// section 2.2), and accept any token as a method. Without a version there are no headers (HTTP/0.9), and so no `Host`.
#[must_use]
pub fn begins_request(bytes: &[u8]) -> Option<bool> {
    let start = bytes.iter().position(|byte| !b"\r\n \t".contains(byte))?;
    let rest = bytes.get(start..)?;
    let mut lines = rest.split(|byte| matches!(byte, b'\n' | 0));
    let (line, is_whole) = (lines.next()?, lines.next().is_some());
    let method = line.iter().take_while(|byte| is_token(**byte)).count();
    let has_version = line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    match line.get(method) {
        Some(b' ' | b'\t') if method > 0 && has_version => Some(true),
        Some(b' ' | b'\t') if method > 0 && !is_whole => None,
        None if !is_whole => None,
        _ => Some(false),
    }
}

/// The length of the head including its empty line, once it is complete. Every byte is checked, so that a line that does not end with CRLF is refused
/// as soon as it arrives.
fn head_length(bytes: &[u8]) -> Result<Option<usize>, RefusalReason> {
    let mut line_start = 0;
    for (index, pair) in bytes.windows(2).enumerate() {
        match pair {
            [b'\r', b'\n'] if index == line_start => return Ok(Some(index + 2)),
            [b'\r', b'\n'] => line_start = index + 2,
            [b'\r', _] => return Err(RefusalReason::Malformed("a carriage return stands alone")),
            [_, b'\n'] => return Err(RefusalReason::Malformed("a line feed stands alone")),
            [0..=8 | 11..=12 | 14..=31 | 127, _] => {
                return Err(RefusalReason::Malformed("the head holds a control character"));
            }
            _ => {}
        }
    }
    match bytes {
        [b'\n', ..] => Err(RefusalReason::Malformed("a line feed stands alone")),
        _ => Ok(None),
    }
}

struct RequestLine<'a> {
    method: &'a str,
    target: &'a str,
    version: &'a str,
}

impl<'a> RequestLine<'a> {
    fn parse(line: &'a str) -> Result<Self, RefusalReason> {
        let mut parts = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(RefusalReason::Malformed("the request line has not three parts"));
        };
        if !is_name(method) {
            return Err(RefusalReason::Malformed("the method is not a word"));
        }
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.is_empty() {
            return Err(RefusalReason::Malformed("the target holds characters that no URL has"));
        }
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(RefusalReason::Malformed("the version is neither HTTP/1.1 nor HTTP/1.0"));
        }
        Ok(Self { method, target, version })
    }

    fn request(&self, headers: &[HttpHeader<'_>]) -> Result<ProxyRequest, RefusalReason> {
        if self.method == "CONNECT" {
            let (host, port) = Host::parse_with_port(self.target, None)?;
            return Ok(ProxyRequest::Connect { host, port });
        }
        let body = self.framing(headers)?;
        let (authority, path) = split_url(self.target)?;
        let (host, port) = Host::parse_with_port(authority, Some(80))?;
        let head = self.rewritten(&host, port, &path, headers, body);
        Ok(ProxyRequest::Forward(ForwardRequest { host, port, head, body }))
    }

    fn request_in_tunnel(
        &self,
        headers: &[HttpHeader<'_>],
        host: &Host,
        port: u16,
    ) -> Result<ForwardRequest, RefusalReason> {
        let body = self.framing(headers)?;
        let named = headers.iter().find(|header| header.is("host")).map(|header| header.value);
        let (authority, path) = match self.target {
            path if path.starts_with('/') || path == "*" => (named, path.to_owned()),
            url => split_url(url).map(|(authority, path)| (Some(authority), path))?,
        };
        let host = match authority {
            Some(authority) => Host::parse_with_port(authority, Some(port))?.0,
            None => host.clone(),
        };
        let head = self.rewritten(&host, port, &path, headers, body);
        Ok(ForwardRequest { host, port, head, body })
    }

    fn framing(&self, headers: &[HttpHeader<'_>]) -> Result<BodyFraming, RefusalReason> {
        let values = |name| headers.iter().filter(move |header| header.is(name)).map(|header| header.value);
        let codings: Vec<&str> = values("transfer-encoding").collect();
        let lengths: Vec<&str> = values("content-length").collect();
        match (codings.as_slice(), lengths.as_slice()) {
            ([], []) => Ok(BodyFraming::Length(0)),
            ([], [length]) => parse_length(length).map(BodyFraming::Length),
            ([coding], []) if coding.eq_ignore_ascii_case("chunked") && self.version == "HTTP/1.1" => {
                Ok(BodyFraming::Chunked)
            }
            ([], _) => Err(RefusalReason::Malformed("there is more than one Content-Length header")),
            (_, []) => Err(RefusalReason::Malformed("the transfer coding is not chunked alone, in HTTP/1.1")),
            _ => Err(RefusalReason::Malformed("there are both Content-Length and Transfer-Encoding")),
        }
    }

    /// The head for the server: origin form, the URL's own host, no hop-by-hop headers, and one request only.
    fn rewritten(
        &self,
        host: &Host,
        port: u16,
        path: &str,
        headers: &[HttpHeader<'_>],
        body: BodyFraming,
    ) -> Vec<u8> {
        let port = if port == 80 { String::new() } else { format!(":{port}") };
        let mut head = format!("{} {path} {}\r\nHost: {host}{port}\r\n", self.method, self.version);
        let named: Vec<&str> = headers
            .iter()
            .filter(|header| header.is("connection"))
            .flat_map(|header| header.value.split(','))
            .map(str::trim)
            .collect();
        for header in headers.iter().filter(|header| header.is_forwarded(&named)) {
            head.extend([header.name, ": ", header.value, "\r\n"]);
        }
        if body == BodyFraming::Chunked {
            head.push_str("Transfer-Encoding: chunked\r\n");
        }
        head.push_str("Connection: close\r\n\r\n");
        head.into_bytes()
    }
}

/// The authority of an `http` URL, and its path in origin form.
fn split_url(target: &str) -> Result<(&str, String), RefusalReason> {
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err(RefusalReason::Malformed("the target is not a whole URL, as a proxy needs it"));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(RefusalReason::Unsupported("a scheme other than http (use CONNECT)"));
    }
    if rest.contains('#') {
        return Err(RefusalReason::Malformed("the URL has a fragment"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((authority, path))
}

/// A length in plain digits: `+5`, `5, 5` and `0x5` are parsed differently by different servers.
fn parse_length(text: &str) -> Result<u64, RefusalReason> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let length = text.parse().ok().filter(|_| plain);
    length.ok_or(RefusalReason::Malformed("the Content-Length is not a plain number"))
}

#[derive(Clone, Copy)]
struct HttpHeader<'a> {
    name: &'a str,
    value: &'a str,
}

impl<'a> HttpHeader<'a> {
    fn parse(line: &'a str) -> Result<Self, RefusalReason> {
        if line.starts_with([' ', '\t']) {
            return Err(RefusalReason::Malformed("a header is folded over two lines"));
        }
        let (name, value) = line.split_once(':').ok_or(RefusalReason::Malformed("a header has no colon"))?;
        if !is_name(name) {
            return Err(RefusalReason::Malformed("a header's name is not a word"));
        }
        Ok(Self { name, value: value.trim_matches([' ', '\t']) })
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it is forwarded to the server. `Content-Length` is, even if `Connection` names it: it frames the body.
    fn is_forwarded(&self, named: &[&str]) -> bool {
        let proxy = self.name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("proxy-"));
        let hop = HOP_BY_HOP.iter().any(|name| self.is(name)) || named.iter().any(|name| self.is(name));
        !self.is("host") && !proxy && (!hop || self.is("content-length"))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token)
}

/// The characters of a token: methods and header names.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
