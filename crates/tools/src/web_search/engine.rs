//! The search engines' APIs: a query in, results out. Nothing here touches the network.

use reqwest::header::{AUTHORIZATION, HeaderName};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::json;
use toolgate_manifest::SearchBackend;

use super::result::EngineResult;

/// The HTTP request for a query.
#[derive(Debug)]
pub(super) struct EngineRequest {
    pub(super) method: Method,
    pub(super) address: Url,
    pub(super) body: Option<String>,
}

/// The header that carries the key.
pub(super) struct EngineKeyHeader {
    pub(super) name: HeaderName,
    pub(super) before: &'static str,
}

/// An engine's default address.
pub(super) fn default_address(backend: SearchBackend) -> Option<&'static str> {
    match backend {
        SearchBackend::Searxng => None,
        SearchBackend::Brave => Some("https://api.search.brave.com"),
        SearchBackend::Tavily => Some("https://api.tavily.com"),
    }
}

/// The default environment variable for an engine's key; `None` for engines that usually have none.
#[must_use]
pub fn default_key_variable(backend: SearchBackend) -> Option<&'static str> {
    match backend {
        SearchBackend::Searxng => None,
        SearchBackend::Brave => Some("BRAVE_API_KEY"),
        SearchBackend::Tavily => Some("TAVILY_API_KEY"),
    }
}

pub(super) fn key_header(backend: SearchBackend) -> EngineKeyHeader {
    match backend {
        // SearXNG has no keys of its own; a reverse proxy in front of it usually expects this header.
        SearchBackend::Searxng | SearchBackend::Tavily => {
            EngineKeyHeader { name: AUTHORIZATION, before: "Bearer " }
        }
        SearchBackend::Brave => {
            EngineKeyHeader { name: HeaderName::from_static("x-subscription-token"), before: "" }
        }
    }
}

/// The path of the search endpoint below the engine's address.
pub(super) fn path(backend: SearchBackend) -> &'static str {
    match backend {
        SearchBackend::Searxng | SearchBackend::Tavily => "/search",
        SearchBackend::Brave => "/res/v1/web/search",
    }
}

/// A request for `most` results.
pub(super) fn engine_request(
    backend: SearchBackend,
    endpoint: &Url,
    query: &str,
    most: u64,
) -> EngineRequest {
    let mut address = endpoint.clone();
    match backend {
        SearchBackend::Searxng => {
            address.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
            EngineRequest { method: Method::GET, address, body: None }
        }
        SearchBackend::Brave => {
            let count = most.to_string();
            let pairs = [("q", query), ("count", &count), ("text_decorations", "false")];
            address.query_pairs_mut().extend_pairs(pairs);
            EngineRequest { method: Method::GET, address, body: None }
        }
        SearchBackend::Tavily => {
            let body = json!({"query": query, "max_results": most, "search_depth": "basic"});
            EngineRequest { method: Method::POST, address, body: Some(body.to_string()) }
        }
    }
}

/// The response of SearXNG and of Tavily.
#[derive(Deserialize)]
struct ResultList {
    results: Vec<ResultItem>,
}

/// The response of Brave, which omits empty sections.
#[derive(Deserialize)]
struct BraveAnswer {
    #[serde(rename = "type")]
    kind: String,
    web: Option<ResultList>,
}

#[derive(Deserialize)]
struct ResultItem {
    url: String,
    title: Option<String>,
    #[serde(alias = "description")]
    content: Option<String>,
}

impl From<ResultItem> for EngineResult {
    fn from(item: ResultItem) -> Self {
        Self {
            title: item.title.unwrap_or_default(),
            url: item.url,
            snippet: item.content.unwrap_or_default(),
        }
    }
}

/// The results in a response; `None` if the response is not this engine's format.
pub(super) fn results(backend: SearchBackend, answer: &[u8]) -> Option<Vec<EngineResult>> {
    let items = match backend {
        SearchBackend::Searxng | SearchBackend::Tavily => {
            serde_json::from_slice::<ResultList>(answer).ok()?.results
        }
        SearchBackend::Brave => {
            let nested = serde_json::from_slice::<BraveAnswer>(answer)
                .ok()
                .filter(|nested| nested.kind == "search")?;
            nested.web.map(|web| web.results).unwrap_or_default()
        }
    };
    Some(items.into_iter().map(EngineResult::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_strictly() {
        use SearchBackend::{Brave, Searxng, Tavily};
        let found = |title: &str, words: &str| {
            Some(vec![EngineResult {
                title: title.to_owned(),
                url: "https://a.example/".to_owned(),
                snippet: words.to_owned(),
            }])
        };
        for (backend, answer, read) in [
            (
                Searxng,
                r#"{"query": "x", "results": [{"url": "https://a.example/", "title": "A", "content": "words", "engine": "e"}]}"#,
                found("A", "words"),
            ),
            (Searxng, r#"{"results": [{"url": "https://a.example/", "title": null}]}"#, found("", "")),
            (
                Tavily,
                r#"{"results": [{"url": "https://a.example/", "title": "A", "content": "w", "score": 0.5}]}"#,
                found("A", "w"),
            ),
            (
                Brave,
                r#"{"type": "search", "web": {"type": "search", "results": [{"url": "https://a.example/", "title": "A", "description": "w"}]}}"#,
                found("A", "w"),
            ),
            (Brave, r#"{"type": "search", "query": {}}"#, Some(Vec::new())),
            (Searxng, r#"{"results": []}"#, Some(Vec::new())),
            (Searxng, "{}", None),
            (Searxng, r#"{"results": [{"title": "without an address"}]}"#, None),
            (Searxng, r#"{"results": [{"url": 7}]}"#, None),
            (Searxng, r#"{"results": []} and more"#, None),
            (Searxng, "<html>", None),
            (Searxng, "", None),
            (Tavily, r#"{"results": null}"#, None),
            (Brave, r#"{"type": "ErrorResponse", "error": {}}"#, None),
            (Brave, r#"{"web": {"results": []}}"#, None),
            (Brave, "[]", None),
        ] {
            assert_eq!(results(backend, answer.as_bytes()), read, "{backend:?}: {answer}");
        }
    }
}
