//! What well-known servers need, as a proposal that a person agrees to. None of it is believed because of a name: it is written into the configuration,
//! shown first, and enforced by the sandbox.

/// What a package needs.
pub(super) struct KnownServer {
    packages: &'static [&'static str],
    /// Hosts that it talks to.
    pub(super) network: &'static [&'static str],
    /// Variables that it needs behind the gate.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// What a person should know.
    pub(super) note: Option<&'static str>,
}

const fn known(packages: &'static [&'static str], network: &'static [&'static str]) -> KnownServer {
    KnownServer { packages, network, environment: &[], note: None }
}

/// The risk of `network: public`.
const PUBLIC: &str = "it fetches whatever address it is given, so `network: public` is proposed: text that it brings can carry instructions, and what a \
    model knows can leave in an address; private addresses stay out of reach";

const BROWSER: &str = "it drives a browser, so `network: public` is proposed: pages can carry instructions, and what a model types leaves this machine; \
    the browser must be installed in the system, and needs `--no-sandbox` inside this sandbox";

const KNOWN: &[KnownServer] = &[
    KnownServer {
        // It writes beside its own program otherwise, which is read-only.
        environment: &[("MEMORY_FILE_PATH", "/toolgate/home/memory.jsonl")],
        ..known(&["@modelcontextprotocol/server-memory"], &[])
    },
    KnownServer { note: Some(PUBLIC), ..known(&["mcp-server-fetch", "firecrawl-mcp"], &["public"]) },
    KnownServer {
        note: Some(BROWSER),
        ..known(
            &["@playwright/mcp", "chrome-devtools-mcp", "@modelcontextprotocol/server-puppeteer"],
            &["public"],
        )
    },
    known(&["@upstash/context7-mcp"], &["context7.com", "mcp.context7.com"]),
    known(&["@notionhq/notion-mcp-server"], &["api.notion.com"]),
    known(&["@modelcontextprotocol/server-github"], &["api.github.com"]),
    known(&["@modelcontextprotocol/server-gitlab"], &["gitlab.com"]),
    known(&["@modelcontextprotocol/server-slack"], &["slack.com"]),
    known(
        &["@modelcontextprotocol/server-brave-search", "@brave/brave-search-mcp-server"],
        &["api.search.brave.com"],
    ),
    known(&["@modelcontextprotocol/server-google-maps"], &["maps.googleapis.com"]),
    known(&["tavily-mcp"], &["api.tavily.com"]),
    known(&["exa-mcp-server"], &["api.exa.ai"]),
    known(&["@stripe/mcp"], &["api.stripe.com"]),
    known(&["@sentry/mcp-server"], &["sentry.io", "*.sentry.io"]),
];

/// What is known about a package, by its name in its registry.
pub(super) fn known_server(package: &str) -> Option<&'static KnownServer> {
    KNOWN.iter().find(|known| known.packages.contains(&package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_once_and_by_its_whole_name() {
        let mut names: Vec<&str> = KNOWN.iter().flat_map(|known| known.packages).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(known_server("server-memory").is_none());
        assert!(known_server("@playwright/mcp").is_some());
    }
}
