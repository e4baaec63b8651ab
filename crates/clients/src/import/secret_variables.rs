//! Imports values, with a variable in place of everything that may be a secret.

use toolgate_text::secret_detection::{is_secret, looks_random, without_scheme};

use super::known_servers::BrowserArguments;
use super::variable_name::variable;
use super::variables::translated;
use toolgate_manifest::shown;

/// The variables for secrets with their values, for all servers of a file.
#[derive(Default)]
pub(super) struct SecretVariables {
    given: Vec<(String, String)>,
}

impl SecretVariables {
    /// The first of these names, or the last one with a number, that does not stand for another value.
    fn name(&mut self, wanted: &[String], value: &str) -> String {
        let last = wanted.last().map_or("SECRET", String::as_str).to_owned();
        let numbered = (2..).map(|number: u32| format!("{last}_{number}"));
        let free = |name: &String| self.given.iter().all(|(given, held)| given != name || held == value);
        let name = wanted.iter().cloned().chain(numbered).find(free).unwrap_or_default();
        self.given.push((name.clone(), value.to_owned()));
        name
    }
}

/// A server that is being imported.
pub(super) struct ServerImport<'t> {
    pub(super) server: &'t str,
    pub(super) secrets: &'t mut SecretVariables,
    /// Notes about it.
    pub(super) notes: Vec<String>,
    /// Paths of the host among its arguments and variables.
    pub(super) paths: Vec<String>,
    /// Whether it refers to the client's open directory.
    pub(super) sees_project: bool,
    /// Of a container image: directories of the host with their paths in the container.
    pub(super) container_paths: Option<Vec<(String, String)>>,
    /// The working directory, if that is a path of the host.
    pub(super) directory: Option<String>,
    /// Its arguments, as they are written.
    pub(super) words: Vec<String>,
    /// How it takes a browser, if it needs one.
    pub(super) browser: Option<&'static BrowserArguments>,
    /// Whether it changes the files that its arguments name.
    pub(super) writes: bool,
}

impl ServerImport<'_> {
    /// A variable for a value that is not copied; `what` goes into a note, and `label` into the variable's name.
    pub(super) fn replaced(&mut self, what: &str, label: &str, value: &str) -> String {
        let variable = self.secrets.name(&[variable(&[self.server, label])], value);
        self.notes.push(format!("put {what} into the variable `{variable}`; it was not copied"));
        format!("${{{variable}}}")
    }

    /// The value of a variable of the server's environment.
    pub(super) fn variable(&mut self, name: &str, value: &str) -> String {
        let mut notes = Vec::new();
        let translated = translated(value, &mut notes);
        if !is_secret(name, &translated.literal) {
            self.notes.extend(notes);
            return self.path(translated.text);
        }
        let known = self.secrets.name(&[name.to_owned(), variable(&[self.server, name])], value);
        let place = match known == name {
            true => "a variable of that name for the gate".to_owned(),
            false => format!("the variable `{known}`"),
        };
        self.notes.push(format!("put the value of `{name}` into {place}; it was not copied"));
        format!("${{{known}}}")
    }

    /// Remembers a path of the host. `~` is the home of the person, not the server's own.
    pub(super) fn path(&mut self, text: String) -> String {
        let text = match text.strip_prefix("~/") {
            Some(rest) => format!("${{HOME}}/{rest}"),
            None => text,
        };
        let is_path = (text.starts_with('/') && text.len() > 1) || text.starts_with("${HOME}/");
        if is_path && !text.starts_with("/mnt/project") {
            self.paths.push(text.clone());
        }
        text
    }

    /// The value of a header. The authorization scheme may be kept.
    pub(super) fn header(&mut self, name: &str, value: &str) -> String {
        let mut notes = Vec::new();
        let translated = translated(value, &mut notes);
        if !is_secret(name, &translated.literal) {
            self.notes.extend(notes);
            return translated.text;
        }
        let (scheme, secret) = without_scheme(value);
        let label = if name.eq_ignore_ascii_case("authorization") { "token" } else { name };
        let what = format!("the value of the header `{}`", shown(name));
        format!("{scheme}{}", self.replaced(&what, label, secret))
    }

    /// The URL of a server. Its host is kept; parts after it may be secrets.
    pub(super) fn address(&mut self, url: &str) -> Result<String, String> {
        let behind = url.find("://").map_or(0, |at| at + 3);
        let (scheme, rest) = url.split_at_checked(behind).unwrap_or((url, ""));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if host.contains('@') {
            let reason = "its address holds a password; write it by hand, with a variable in `headers`";
            return Err(reason.to_owned());
        }
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let parts: Vec<String> = path.split('/').map(|part| self.part("", part)).collect();
        let query = query.map(|query| {
            let pairs: Vec<String> = query.split('&').map(|pair| self.pair(pair)).collect();
            format!("?{}", pairs.join("&"))
        });
        let address = format!("{scheme}{host}{}{}", parts.join("/"), query.unwrap_or_default());
        if address.contains("${") {
            let note = "a variable stands in the address, which servers and proxies write into their logs; if it holds a secret, send it in `headers`";
            self.notes.push(note.to_owned());
        }
        Ok(address)
    }

    /// `name=value` in the query of a URL.
    fn pair(&mut self, pair: &str) -> String {
        match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", self.part(name, value)),
            None => self.part("", pair),
        }
    }

    /// Part of a URL, which is judged more strictly than other words: digits among letters are rarely chosen by a person
    /// there.
    fn part(&mut self, name: &str, value: &str) -> String {
        let mut notes = Vec::new();
        let translated = translated(value, &mut notes);
        if !is_secret(name, &translated.literal) && !looks_random(&translated.literal, 10) {
            self.notes.extend(notes);
            return translated.text;
        }
        match name {
            "" => self.replaced("the secret in the path of the address", "path", value),
            name => self.replaced(&format!("`{}` of the address", shown(name)), name, value),
        }
    }
}
