//! What a package manager is configured for, as it says itself: no registry is named here.

use std::path::PathBuf;

/// A variable of the host's environment.
pub(crate) type Variable<'v> = &'v dyn Fn(&str) -> Option<String>;

/// Hosts of archives that are asked for at most: an index links to one or two.
pub(crate) const MAX_ARCHIVE_HOSTS: usize = 4;

/// What an installation reaches, and what it needs for that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryAccess {
    /// The URLs of the registries.
    pub registries: Vec<String>,
    /// The hosts, as URLs, that an index names as the place of its archives.
    pub archives: Vec<String>,
    /// Files that the configuration names: certificates.
    pub files: Vec<PathBuf>,
    /// The HTTP proxy in front of the registries.
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy.
    pub no_proxy: Vec<String>,
}

impl RegistryAccess {
    /// Adds the host of an archive; `false` if it is known.
    pub(crate) fn add_archive(&mut self, url: &str) -> bool {
        let Some(origin) = origin(url) else { return false };
        let known = self.registries.iter().filter_map(|url| self::origin(url));
        if known.chain(self.archives.iter().cloned()).any(|known| known == origin) {
            return false;
        }
        self.archives.push(origin);
        true
    }

    /// The variables of the environment count where the configuration names no proxy, as for the package managers themselves.
    fn with_environment(mut self, variable: Variable<'_>) -> Self {
        let set = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|set| !set.is_empty()));
        let is_tls = self.registries.iter().any(|url| url.starts_with("https://"));
        let names: &[&str] = match is_tls {
            true => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
            false => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        };
        self.proxy = self.proxy.or_else(|| set(names));
        if self.no_proxy.is_empty() {
            self.no_proxy = set(&["no_proxy", "NO_PROXY"]).map(|list| hosts(&list)).unwrap_or_default();
        }
        self
    }
}

fn hosts(list: &str) -> Vec<String> {
    list.split([',', ' ']).filter(|host| !host.is_empty()).map(str::to_owned).collect()
}

/// The scheme, host and port of a URL.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))?;
    let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    (!authority.is_empty()).then(|| format!("{scheme}://{authority}/"))
}

/// The registry of npm, those of scopes, and the certificates and the proxy for them, from `npm config list --json`. npm leaves out what holds a password.
pub(crate) fn npm_access(listed: &str, variable: Variable<'_>) -> Option<RegistryAccess> {
    let listed: serde_json::Value = serde_json::from_str(listed).ok()?;
    let settings = listed.as_object()?;
    let is_registry = |key: &str| key == "registry" || (key.starts_with('@') && key.ends_with(":registry"));
    let is_file =
        |key: &str| key == "cafile" || [":certfile", ":keyfile"].iter().any(|end| key.ends_with(end));
    let text = |key: &str| settings.get(key)?.as_str().filter(|text| !text.is_empty());
    let values = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        let found = settings.iter().filter(|(key, _)| wanted(key));
        found.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect()
    };
    let registries = values(&is_registry);
    let is_tls = registries.iter().any(|url| url.starts_with("https://"));
    let proxy = text("https-proxy").filter(|_| is_tls).or_else(|| text("proxy")).map(str::to_owned);
    // Beside a proxy of its own: npm lists the variable of its environment otherwise, which is the sandbox's.
    let listed = settings.get("noproxy").filter(|_| proxy.is_some());
    let no_proxy = match listed {
        Some(serde_json::Value::Array(list)) => {
            list.iter().filter_map(|host| host.as_str()).flat_map(hosts).collect()
        }
        Some(serde_json::Value::String(list)) => hosts(list),
        _ => Vec::new(),
    };
    let files = values(&is_file).into_iter().map(PathBuf::from).collect();
    let access = RegistryAccess { registries, archives: Vec::new(), files, proxy, no_proxy };
    (!access.registries.is_empty()).then(|| access.with_environment(variable))
}

/// What pip is configured for, from `pip config list`: `global.index-url='https://…'`, one on each line, and `:env:` for a variable. The index that it has
/// without configuration is in its help.
pub(crate) fn pip_access(listed: &str, help: &str, variable: Variable<'_>) -> RegistryAccess {
    let mut access = RegistryAccess::default();
    let (mut index, mut more) = (None, Vec::new());
    for line in listed.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches(|quote| matches!(quote, '\'' | '"')).replace("\\n", " ");
        let is_variable = key.starts_with(":env:");
        match key.trim().rsplit('.').next() {
            // A variable of the environment takes precedence over a file.
            Some("index-url") if index.is_none() || is_variable => index = Some(value),
            Some("extra-index-url" | "find-links") => {
                more.extend(value.split_whitespace().map(str::to_owned))
            }
            Some("cert" | "client-cert") => access.files.push(value.into()),
            Some("proxy") if access.proxy.is_none() || is_variable => access.proxy = Some(value),
            _ => {}
        }
    }
    let index = index.or_else(|| default_index(help, "(default ", ')'));
    access.registries = index.into_iter().chain(more).filter(|url| url.starts_with("http")).collect();
    access.with_environment(variable)
}

/// What uv is configured for, from `uv --show-settings`, which has all of its variables and files in it; it masks passwords. The index that it has without
/// configuration is in its help.
pub(crate) fn uv_access(settings: &str, help: &str, variable: Variable<'_>) -> RegistryAccess {
    let mut access = RegistryAccess::default();
    let mut has_default = false;
    let mut lines = settings.lines().map(str::trim);
    while let Some(line) = lines.next() {
        match line {
            "index_locations: IndexLocations {" => {
                while let Some(line) = lines.next().filter(|line| !line.starts_with("no_index:")) {
                    has_default |= line == "default: true,";
                    let given = (line == "given: Some(").then(|| lines.next().and_then(quoted)).flatten();
                    access.registries.extend(given.filter(|url| url.starts_with("http")));
                }
            }
            "https_proxy: Some(" | "http_proxy: Some(" => access.proxy = url_of(&mut lines).or(access.proxy),
            "no_proxy: Some(" => {
                let listed = lines.by_ref().take_while(|line| !line.starts_with(']'));
                access.no_proxy = listed.filter_map(quoted).collect();
            }
            _ => {}
        }
    }
    if !has_default {
        let index = default_index(help, "(by default: <", '>');
        access.registries.extend(index);
    }
    access.with_environment(variable)
}

/// The text of a line like `"a",`.
fn quoted(line: &str) -> Option<String> {
    let text = line.trim().trim_end_matches(',').strip_prefix('"')?.strip_suffix('"')?;
    Some(text.to_owned())
}

/// The URL that the fields of a `url::Url` spell out; none if it has a password, which is masked.
fn url_of<'l>(lines: &mut impl Iterator<Item = &'l str>) -> Option<String> {
    let (mut scheme, mut host, mut port, mut is_masked) = (None, None, String::new(), false);
    while let Some(line) = lines.next().filter(|line| !line.starts_with("path:")) {
        let mut value = || lines.next().map(|line| line.trim_matches(['"', ',']).to_owned());
        match line {
            "password: Some(" => is_masked = true,
            "Domain(" | "Ipv4(" => host = value(),
            "Ipv6(" => host = value().map(|host| format!("[{host}]")),
            "port: Some(" => port = value().map(|port| format!(":{port}")).unwrap_or_default(),
            _ if line.starts_with("scheme:") => {
                scheme = line.split_once(' ').and_then(|(_, text)| quoted(text))
            }
            _ => {}
        }
    }
    Some(format!("{}://{}{port}", scheme?, host.filter(|_| !is_masked)?))
}

/// The URL that follows these words of a help text, whose lines are wrapped.
fn default_index(help: &str, before: &str, end: char) -> Option<String> {
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    let mut urls = help.split(before).skip(1).filter_map(|rest| rest.split(end).next());
    urls.find(|url| url.starts_with("http") && !url.contains(' ')).map(str::to_owned)
}

/// The URLs of the archives that pip saw on the page of a package: `Found link URL (from PAGE)`.
pub(crate) fn pip_links(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.trim().strip_prefix("Found link ")?.split(' ').next())
}

/// The URLs that uv could not reach: `Failed to fetch: URL`, in some versions with backticks.
pub(crate) fn uv_links(said: &str) -> impl Iterator<Item = &str> {
    let end = |one: char| one == '`' || one.is_whitespace();
    let urls = said.split("Failed to fetch: ").skip(1);
    urls.filter_map(move |rest| rest.trim_start_matches('`').split(end).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unset(_: &str) -> Option<String> {
        None
    }

    fn registries(urls: &[&str]) -> RegistryAccess {
        let registries = urls.iter().map(|url| (*url).to_owned()).collect();
        RegistryAccess { registries, ..RegistryAccess::default() }
    }

    #[test]
    fn npm_says_its_registries_certificates_and_proxy() {
        let listed = r#"{"registry": "https://npm.example/", "@a:registry": "http://127.0.0.1:4/", "other": 1,
            "cafile": "/home/a/ca.pem", "//npm.example/:keyfile": "/home/a/key.pem", "proxy": "http://p.example:1",
            "noproxy": ["b.example", "c.example,d.example"]}"#;
        let found = npm_access(listed, &unset).unwrap();
        assert_eq!(found.registries, ["https://npm.example/", "http://127.0.0.1:4/"]);
        assert_eq!(found.files, [PathBuf::from("/home/a/ca.pem"), "/home/a/key.pem".into()]);
        assert_eq!(found.proxy.as_deref(), Some("http://p.example:1"));
        assert_eq!(found.no_proxy, ["b.example", "c.example", "d.example"]);
        assert_eq!(npm_access("npm error", &unset), None);
        assert_eq!(npm_access("{}", &unset), None);
        // The variables of the person count where npm's own configuration says nothing; the sandbox's `NO_PROXY` does not.
        let set = |name: &str| match name {
            "https_proxy" => Some("http://p.example:2".to_owned()),
            "NO_PROXY" => Some(".b.example".to_owned()),
            _ => None,
        };
        let listed = r#"{"registry": "https://npm.example/", "proxy": null, "noproxy": ["localhost"]}"#;
        let found = npm_access(listed, &set).unwrap();
        assert_eq!(
            (found.proxy.as_deref(), found.no_proxy),
            (Some("http://p.example:2"), vec![".b.example".to_owned()])
        );
    }

    #[test]
    fn pip_says_its_indexes_certificates_and_proxy() {
        let help = "  -i, --index-url <url>  Base URL (default\n                  https://default.example/simple). This";
        assert_eq!(pip_access("", help, &unset), registries(&["https://default.example/simple"]));
        assert_eq!(pip_access("", "no help", &unset), registries(&[]));
        let listed =
            ":env:.find-links='/opt/wheels'\nglobal.cert='/x/ca.pem'\nglobal.proxy='http://p.example:1'\n";
        let found = pip_access(listed, help, &unset);
        assert_eq!(found.registries, ["https://default.example/simple"]);
        assert_eq!(found.files, [PathBuf::from("/x/ca.pem")]);
        assert_eq!(found.proxy.as_deref(), Some("http://p.example:1"));
        let own =
            "global.index-url='https://a.example/simple'\nglobal.extra-index-url='https://b.example/'\n";
        assert_eq!(
            pip_access(own, help, &unset).registries,
            ["https://a.example/simple", "https://b.example/"]
        );
        let both = format!(":env:.index-url='http://127.0.0.1:1/simple'\n{own}");
        let both = pip_access(&both, help, &unset).registries;
        assert_eq!(both, ["http://127.0.0.1:1/simple", "https://b.example/"]);
    }

    #[test]
    fn uv_says_its_indexes_of_files_and_variables() {
        let help =
            "     The default package index (by\n     default: <https://default.example/simple>) [env: X]";
        let settings = include_str!("registry/uv_settings.txt");
        let found = uv_access(settings, help, &unset);
        assert_eq!(found.registries, ["https://c.example/s", "https://user:****@a.example:8443/simple"]);
        assert_eq!(found.proxy.as_deref(), Some("http://p.example:3128"));
        assert_eq!(found.no_proxy, ["a.example", "b"]);
        let found = uv_access(&settings.replace("default: true", "default: false"), help, &unset);
        assert_eq!(found.registries.last().unwrap(), "https://default.example/simple");
        assert_eq!(uv_access("", help, &unset), registries(&["https://default.example/simple"]));
        let masked = settings.replace("password: None", "password: Some(\n\"****\",\n)");
        assert_eq!(uv_access(&masked, help, &unset).proxy, None);
    }

    #[test]
    fn an_index_names_the_hosts_of_its_archives() {
        let said = "  Found link https://files.example/a.whl#sha256=0 (from https://a.example/s/), version: 1\nFound link x\n";
        let mut access = registries(&["https://u:p@a.example/s"]);
        let found: Vec<bool> = pip_links(said).map(|url| access.add_archive(url)).collect();
        assert_eq!(
            (found, access.archives.as_slice()),
            (vec![true, false], &["https://files.example/".to_owned()][..])
        );
        let said = "error: Failed to fetch: `https://files.example:1/a.whl.metadata`\n  Caused by: x";
        assert_eq!(uv_links(said).collect::<Vec<_>>(), ["https://files.example:1/a.whl.metadata"]);
        let said = "error: Request failed | cause: Failed to fetch: https://files.example/a.whl | cause: x";
        assert_eq!(uv_links(said).collect::<Vec<_>>(), ["https://files.example/a.whl"]);
        assert!(!access.add_archive("https://files.example/b") && !access.add_archive("https://a.example/x"));
        assert!(!access.add_archive("ftp://files.example/") && !access.add_archive("https:///"));
    }
}
