//! `web_search`: the search engine for web searches.

use crate::decode::{ConfigField, KeySpec, Section, count, key, word};
use crate::keyword_enum::words;
use crate::models::variable_name;
use crate::problem::Located;
use crate::problem_report::ProblemReport;
use crate::url::{is_private, model_url};

const WEB_SEARCH: &[KeySpec] = &[
    key("backend", "backend: searxng"),
    key("url", "url: https://search.example.com"),
    key("key_env", "key_env: BRAVE_API_KEY"),
    key("max_results", "max_results: 5"),
];

/// `web_search`: the search engine for web searches. Absent means that there is no such tool.
#[derive(Clone, Debug)]
pub struct WebSearchConfig {
    /// `backend`: the search engine.
    pub backend: Located<SearchBackend>,
    /// `url`: its URL; SearXNG has no default.
    pub url: Option<Located<String>>,
    /// `key_env`: the variable with the API key.
    pub key_env: Option<Located<String>>,
    /// `max_results`: the default number of results.
    pub max_results: Option<u64>,
}

words! {
    /// A search engine.
    SearchBackend, "a search engine" {
        /// An instance of SearXNG.
        Searxng = "searxng",
        /// Brave Search.
        Brave = "brave",
        /// Tavily.
        Tavily = "tavily",
    }
}

pub(crate) fn web_search(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<WebSearchConfig> {
    let section = Section::read(field, WEB_SEARCH, report)?;
    if section.lacks("backend") {
        let help = "say who is asked, such as `backend: searxng`".to_owned();
        report.node(&field.node, "`web_search` has no `backend`", Some(help));
    }
    let backend = section.get("backend", report, word::<SearchBackend>);
    let url = section.get("url", report, model_url);
    let key_env = section.get("key_env", report, variable_name);
    let max_results = section.get("max_results", report, count);
    let backend = backend?;
    if backend.value == SearchBackend::Searxng && section.lacks("url") {
        let help = "say where it is, such as `url: https://search.example.com`".to_owned();
        report.located(&backend, "every SearXNG is somebody's own", Some(help));
    }
    let has_key = key_env.is_some() || backend.value != SearchBackend::Searxng;
    if let Some(url) = url.as_ref().filter(|url| has_key && !is_private(&url.value)) {
        let help = "use https".to_owned();
        report.located(url, "a key would go over the network for all to read", Some(help));
    }
    Some(WebSearchConfig { backend, url, key_env, max_results })
}
