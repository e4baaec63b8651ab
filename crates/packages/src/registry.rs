//! The registries that a package manager is configured for.

/// Where the public Python package index keeps the archives that it lists.
const PYPI_INDEX: &str = "https://pypi.org/simple";
const PYPI_FILES: &str = "https://files.pythonhosted.org/";

/// The registry of npm and those of scopes, from `npm config list --json`.
pub(crate) fn npm_registries(listed: &str) -> Option<Vec<String>> {
    let listed: serde_json::Value = serde_json::from_str(listed).ok()?;
    let settings = listed.as_object()?;
    let is_registry = |key: &str| key == "registry" || (key.starts_with('@') && key.ends_with(":registry"));
    let found = settings.iter().filter(|(key, _)| is_registry(key));
    let found: Vec<String> = found.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect();
    (!found.is_empty()).then_some(found)
}

/// The indexes of pip, from `pip config list`: `global.index-url='https://…'`, one on each line. A variable of the environment is listed as `:env:`.
pub(crate) fn pip_indexes(listed: &str) -> Vec<String> {
    let mut index = None;
    let mut more = Vec::new();
    for line in listed.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches(|quote| matches!(quote, '\'' | '"')).replace("\\n", " ");
        match key.trim().rsplit('.').next() {
            // Later lines take precedence: pip lists the environment last or first by version, and it always wins.
            Some("index-url") if index.is_none() || key.starts_with(":env:") => index = Some(value),
            Some("extra-index-url" | "find-links") => {
                more.extend(value.split_whitespace().map(str::to_owned))
            }
            _ => {}
        }
    }
    with_files(index.unwrap_or_else(|| PYPI_INDEX.to_owned()), more)
}

/// The indexes of uv, from its variables.
pub(crate) fn uv_indexes(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let named = |name: &str| variable(name).filter(|value| !value.is_empty());
    let index = named("UV_DEFAULT_INDEX").or_else(|| named("UV_INDEX_URL"));
    let url = |entry: &str| entry.split_once('=').map_or(entry, |(_, url)| url).to_owned();
    let more = ["UV_INDEX", "UV_EXTRA_INDEX_URL"].iter().filter_map(|name| named(name));
    let more = more.flat_map(|list| list.split_whitespace().map(url).collect::<Vec<_>>()).collect();
    with_files(index.unwrap_or_else(|| PYPI_INDEX.to_owned()), more)
}

fn with_files(index: String, more: Vec<String>) -> Vec<String> {
    let is_public = index.starts_with("https://pypi.org/");
    let all = std::iter::once(index).chain(more).filter(|url| url.starts_with("http"));
    all.chain(is_public.then(|| PYPI_FILES.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_registries_are_found() {
        let listed =
            r#"{"registry": "https://npm.example/", "@a:registry": "http://127.0.0.1:4/", "other": 1}"#;
        assert_eq!(npm_registries(listed).unwrap(), ["https://npm.example/", "http://127.0.0.1:4/"]);
        assert_eq!(npm_registries("npm error"), None);
        assert_eq!(npm_registries("{}"), None);
        let public = ["https://pypi.org/simple", "https://files.pythonhosted.org/"];
        assert_eq!(pip_indexes(""), public);
        assert_eq!(pip_indexes("global.cert='/x'\n:env:.find-links='/opt/wheels'\n"), public);
        let own =
            "global.index-url='https://a.example/simple'\nglobal.extra-index-url='https://b.example/'\n";
        assert_eq!(pip_indexes(own), ["https://a.example/simple", "https://b.example/"]);
        let both = format!(":env:.index-url='http://127.0.0.1:1/simple'\n{own}");
        assert_eq!(pip_indexes(&both), ["http://127.0.0.1:1/simple", "https://b.example/"]);
        let uv = |name: &str| (name == "UV_INDEX").then(|| "x=https://c.example/".to_owned());
        assert_eq!(
            uv_indexes(&uv),
            ["https://pypi.org/simple", "https://c.example/", "https://files.pythonhosted.org/"]
        );
    }
}
