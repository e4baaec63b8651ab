//! What well-known servers need, as a proposal that a person agrees to. None of it is believed because of a name: it is written into the configuration,
//! shown first, and enforced by the sandbox.

use toolgate_text::nearest_name::nearest_name;

/// What a package needs.
pub(super) struct KnownServer {
    packages: &'static [&'static str],
    /// Hosts that it talks to.
    pub(super) network: &'static [&'static str],
    /// Variables that it needs behind the gate.
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// What a person should know.
    pub(super) note: Option<&'static str>,
    /// Packages that are installed beside it.
    pub(super) with: &'static [&'static str],
    /// Whether it changes the files that its arguments name, and is of no use otherwise.
    pub(super) writes: bool,
    /// How it takes a browser.
    pub(super) browser: Option<&'static BrowserArguments>,
}

/// How a server takes a browser that is installed in the system, as arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrowserArguments {
    /// The option that names the program.
    pub(super) program: &'static str,
    /// What else it needs inside the sandbox: no screen, and no sandbox of its own, which cannot be made in another one.
    pub(super) more: &'static [&'static str],
    /// Options with which it starts no browser, or one of the person's choice.
    pub(super) replaced_by: &'static [&'static str],
}

const PLAYWRIGHT: BrowserArguments = BrowserArguments {
    program: "--executable-path",
    more: &["--headless", "--no-sandbox"],
    replaced_by: &["--executable-path", "--cdp-endpoint", "--endpoint", "--extension", "--config"],
};

const DEVTOOLS: BrowserArguments = BrowserArguments {
    program: "--executablePath",
    more: &["--headless", "--chromeArg=--no-sandbox"],
    replaced_by: &[
        "--executablePath",
        "-e",
        "--browserUrl",
        "--browser-url",
        "-u",
        "--wsEndpoint",
        "-w",
        "--autoConnect",
    ],
};

const fn known(packages: &'static [&'static str], network: &'static [&'static str]) -> KnownServer {
    KnownServer { packages, network, environment: &[], note: None, with: &[], writes: false, browser: None }
}

/// The risk of `network: public`.
const PUBLIC: &str = "it fetches whatever address it is given, so `network: public` is proposed: text that it brings can carry instructions, and what a \
    model knows can leave in an address; private addresses stay out of reach";

const BROWSER: &str = "it drives a browser, so `network: public` is proposed: pages can carry instructions, and what a model types leaves this machine; \
    the browser runs without its own sandbox, inside this one";

const SQLITE: &str =
    "its newest release does not work with version 2 of the `mcp` package, so `mcp<2` is proposed beside it";

const KNOWN: &[KnownServer] = &[
    KnownServer {
        // It writes beside its own program otherwise, which is read-only.
        environment: &[("MEMORY_FILE_PATH", "/toolgate/home/memory.jsonl")],
        ..known(&["@modelcontextprotocol/server-memory"], &[])
    },
    KnownServer { note: Some(PUBLIC), ..known(&["mcp-server-fetch", "firecrawl-mcp"], &["public"]) },
    KnownServer {
        note: Some(BROWSER),
        browser: Some(&PLAYWRIGHT),
        // Elsewhere it would be a directory that it may not write to.
        environment: &[("PLAYWRIGHT_MCP_OUTPUT_DIR", "/toolgate/home/output")],
        ..known(&["@playwright/mcp"], &["public"])
    },
    KnownServer {
        note: Some(BROWSER),
        browser: Some(&DEVTOOLS),
        ..known(&["chrome-devtools-mcp"], &["public"])
    },
    KnownServer { note: Some(BROWSER), ..known(&["@modelcontextprotocol/server-puppeteer"], &["public"]) },
    KnownServer { note: Some(SQLITE), with: &["mcp<2"], writes: true, ..known(&["mcp-server-sqlite"], &[]) },
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

/// Well-known packages that need nothing.
const OTHERS: &[&str] = &[
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-everything",
    "@modelcontextprotocol/server-sequential-thinking",
    "mcp-server-time",
    "mcp-server-git",
];

/// How many letters two names may differ in to be mistaken for each other.
const MISTAKEN_LETTERS: usize = 2;

/// The well-known package that a name may be mistaken for.
pub(super) fn resembles(package: &str) -> Option<&'static str> {
    let names = || KNOWN.iter().flat_map(|known| known.packages).chain(OTHERS).copied();
    if names().any(|name| name == package) {
        return None;
    }
    nearest_name(package, names()).filter(|near| near.len().abs_diff(package.len()) <= MISTAKEN_LETTERS)
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

    #[test]
    fn a_name_that_may_be_mistaken_is_found() {
        for (name, expected) in [
            ("@modelcontextprotocol/server-memroy", Some("@modelcontextprotocol/server-memory")),
            ("@modelcontextprotocoI/server-memory", Some("@modelcontextprotocol/server-memory")),
            ("mcp-server-tlme", Some("mcp-server-time")),
            ("mcp-server-time", None),
            ("mcp-server-timezones", None),
            ("something-else", None),
        ] {
            assert_eq!(resembles(name), expected, "{name}");
        }
    }
}
