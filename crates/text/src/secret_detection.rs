//! Detects secrets by the name or the look of a value, so that none is copied or recorded.

/// Words in variable names that indicate a secret, separated by underscores.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "KEY",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "COOKIE",
    "PAT",
    "DSN",
];

/// Prefixes of well-known secrets.
const SECRET_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "ya29.",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "tvly-",
    "ATATT",
    "dop_v1_",
    "SG.",
    "-----BEGIN",
];

/// Words in names without separators.
const COMPOUND_SECRET_WORDS: &[&str] =
    &["apikey", "token", "secret", "passw", "credential", "privatekey", "accesskey", "authkey"];

/// Further words that indicate a secret.
const OTHER_SECRET_WORDS: &[&str] =
    &["PASS", "PASSCODE", "AUTHORIZATION", "BEARER", "JWT", "SIG", "SIGNATURE", "PSK"];

/// Authorization schemes.
const AUTH_SCHEMES: &[&str] = &["bearer", "basic", "token", "digest", "apikey", "api-key", "key", "bot"];

/// Values that are never secrets, whatever their name.
const NON_SECRET_VALUES: &[&str] =
    &["true", "false", "none", "null", "yes", "no", "on", "off", "0", "1", "oauth", "oauth2", "jwt"];

/// Whether a value may be a secret, by its name or its content. Variables have been removed before.
#[must_use]
pub fn is_secret(name: &str, value: &str) -> bool {
    let (scheme, value) = without_scheme(value);
    // Separators between variables, as in `${USER}:${PASSWORD}`.
    let between = |character: char| " :-_/@,.=;\"'{}[]&?".contains(character);
    if value.chars().all(between) || NON_SECRET_VALUES.contains(&&*value.trim().to_ascii_lowercase()) {
        return false;
    }
    let names_a_file = names_file(name) && is_path(value);
    let shown_by_scheme = ["bearer ", "basic "].contains(&&*scheme.to_ascii_lowercase());
    shown_by_scheme || (names_secret(name) && !names_a_file) || contains_secret(value)
}

/// Whether the name of an option, variable, header or URL parameter indicates a secret.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    let words = words(name);
    let glued = words.replace('_', "").to_ascii_lowercase();
    let counts = ["maxtoken", "tokenlimit", "tokencount", "tokenize"].iter().any(|word| glued.contains(word));
    !counts
        && (looks_secret(&words)
            || words.split('_').any(|word| OTHER_SECRET_WORDS.contains(&word))
            || COMPOUND_SECRET_WORDS.iter().any(|word| glued.contains(word)))
}

/// Splits `--apiKey` and `x-api-key` into `API_KEY` and `X_API_KEY`.
fn words(name: &str) -> String {
    let mut words = String::new();
    let mut was_small = false;
    for character in name.chars() {
        if was_small && character.is_ascii_uppercase() {
            words.push('_');
        }
        was_small = character.is_ascii_lowercase() || character.is_ascii_digit();
        words.push(if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' });
    }
    words
}

fn names_file(name: &str) -> bool {
    matches!(words(name).rsplit('_').next(), Some("FILE" | "PATH" | "DIR" | "DIRECTORY"))
}

fn is_path(value: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|beginning| value.starts_with(beginning))
}

/// The authorization scheme with the following space, and the rest.
#[must_use]
pub fn without_scheme(value: &str) -> (&str, &str) {
    let end = value.find(' ').map_or(value.len(), |at| at + 1);
    let (first, rest) = value.split_at_checked(end).unwrap_or(("", value));
    match AUTH_SCHEMES.contains(&&*first.trim().to_ascii_lowercase()) && first.ends_with(' ') {
        true => (first, rest),
        false => ("", value),
    }
}

/// Whether a text contains something that may be a secret.
#[must_use]
pub fn contains_secret(text: &str) -> bool {
    let apart = |character: char| character.is_whitespace() || "\"'`{}[](),;&?#|<>=:/@\\".contains(character);
    let known = |word: &str| SECRET_PREFIXES.iter().any(|beginning| word.starts_with(beginning));
    let random = |word: &str| !is_path(text) && looks_random(word, 20);
    has_password(text)
        || text.split(apart).any(|word| known(word) || random(word))
        || text.match_indices(['=', ':']).any(|(at, _)| is_pair(text, at))
}

/// `https://token@host`, `postgres://user:password@host`
fn has_password(value: &str) -> bool {
    let authority = value.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.is_some_and(|user| match user.split_once(':') {
        Some((_, password)) => password.contains(char::is_alphanumeric),
        // `ssh://git@host` has only a user name.
        None => user.contains(char::is_alphanumeric) && user != "git",
    })
}

/// Whether a separator stands between the name of a secret and a value: `Password=…;`, `{"apiKey": "…"}`, `Bearer …`.
fn is_pair(text: &str, at: usize) -> bool {
    let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) else { return false };
    let quotes = ['"', '\'', '\\', ' '];
    let before = before.trim_end_matches(quotes);
    let part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let name = before.trim_end_matches(part).len();
    let name = before.get(name..).unwrap_or_default();
    let value =
        after.trim_start_matches(quotes).split(['"', '\'', ';', '&', ',', '}']).next().unwrap_or_default();
    let (_, value) = without_scheme(value);
    let is_value = value.starts_with(|character: char| character.is_alphanumeric());
    is_value && names_secret(name) && !NON_SECRET_VALUES.contains(&&*value.trim().to_ascii_lowercase())
}

/// Whether a word of at least `least` characters looks randomly generated.
#[must_use]
pub fn looks_random(word: &str, least: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+=%.~".contains(&byte);
    if word.len() < least || !word.bytes().all(fits) {
        return false;
    }
    let runs: Vec<&str> = word.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let mixed: Vec<&&str> = runs.iter().filter(|run| is_mixed(run)).collect();
    mixed.iter().any(|run| run.len() >= 10) || (word.len() >= 20 && mixed.len() * 2 > runs.len())
}

/// Digits among letters, or mixed case within a word.
fn is_mixed(run: &str) -> bool {
    let any = |kind: fn(&u8) -> bool| run.as_bytes().iter().any(kind);
    let changes = run.as_bytes().windows(2).filter(|pair| match pair {
        [one, other] => one.is_ascii_lowercase() && other.is_ascii_uppercase(),
        _ => false,
    });
    let letters = any(u8::is_ascii_alphabetic);
    letters && (any(u8::is_ascii_digit) || (run.len() >= 20 && changes.count() * 5 >= run.len()))
}

/// Whether the name of a variable suggests a secret.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    name.to_ascii_uppercase().split('_').any(|word| SECRET_WORDS.contains(&word))
}

/// The mark in place of a secret.
const REDACTED: &str = "[redacted]";

/// A command line without what may be a secret in it: values of options and variables whose name indicates one, passwords in URLs, authorization
/// headers, and words that look like keys or randomly generated. A heuristic: a secret that looks like a plain word stays.
#[must_use]
pub fn redact_command(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    // Whether the next word is the value of what was named before it, and whether it may be an authorization scheme.
    let (mut is_value, mut after_header) = (false, false);
    // The quote in which a value goes on that was left out.
    let mut open_quote = None;
    for (gap, word) in words_with_gaps(line) {
        if let Some(quote) = open_quote {
            open_quote = Some(quote).filter(|quote| !word.contains(*quote));
            continue;
        }
        kept.push_str(gap);
        if word.is_empty() {
            continue;
        }
        let bare = word.trim_matches(['"', '\'', '\\']);
        let is_scheme = AUTH_SCHEMES.contains(&&*bare.to_ascii_lowercase());
        if (is_value || after_header) && is_scheme {
            kept.push_str(word);
            (is_value, after_header) = (true, false);
            continue;
        }
        let named_before = is_value && !bare.starts_with('-') && !bare.is_empty();
        (is_value, after_header) = (false, false);
        if named_before {
            kept.push_str(REDACTED);
            open_quote = opened_quote(word);
            continue;
        }
        let pair = bare.split_once(['=', ':']).filter(|(name, _)| names_secret(name));
        match pair {
            // `Authorization: Bearer …`, `--token= …`
            Some((_, "")) => {
                kept.push_str(word);
                (is_value, after_header) = (true, true);
            }
            Some((name, value)) if is_secret(name, value) => {
                let end = word.find(name).map_or(0, |at| at + name.len() + 1);
                let (before, value) = word.split_at_checked(end).unwrap_or((word, ""));
                kept.push_str(before);
                kept.push_str(REDACTED);
                open_quote = opened_quote(value);
            }
            _ if contains_secret(bare) => kept.push_str(REDACTED),
            _ => {
                kept.push_str(word);
                is_value = bare.starts_with('-') && names_secret(bare) || PASSWORD_OPTIONS.contains(&bare);
            }
        }
    }
    kept
}

/// The quote that a value opens and does not close.
fn opened_quote(value: &str) -> Option<char> {
    let quote = value.trim_start_matches('\\').chars().next().filter(|first| matches!(first, '"' | '\''))?;
    (value.matches(quote).count() == 1).then_some(quote)
}

/// A path without names in it that begin like well-known keys. Names that only look random stay: digests and ids are common in paths.
#[must_use]
pub fn redact_path(path: String) -> String {
    let known = |name: &str| {
        name.len() >= SHORTEST_KEY && SECRET_PREFIXES.iter().any(|beginning| name.starts_with(beginning))
    };
    if path.len() < SHORTEST_KEY || !path.split('/').any(known) {
        return path;
    }
    let names = path.split('/').map(|name| if known(name) { REDACTED } else { name });
    names.collect::<Vec<_>>().join("/")
}

/// Options whose next word is a name and a password.
const PASSWORD_OPTIONS: &[&str] = &["-u", "--user", "-p"];
/// A shorter name is no key, whatever its prefix.
const SHORTEST_KEY: usize = 16;

/// The words of a line, each with the white space before it.
fn words_with_gaps(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (gap, after) = rest.split_at(rest.len() - rest.trim_start().len());
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (word, after) = after.split_at(end);
        rest = after;
        Some((gap, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_by_name_and_by_look() {
        for (name, value) in [
            ("API_KEY", "x"),
            ("API_KEY", "!#!"),
            ("X-Api-Key", "x"),
            ("--apiKey", "x"),
            ("-eGITHUB_TOKEN", "x"),
            ("accesstoken", "x"),
            ("PAT", "x"),
            ("Authorization", "hunter2"),
            ("HEADER", "Bearer hunter2"),
            ("WHATEVER", "ghp_abcdef"),
            ("DATABASE_URL", "postgres://me:pw@localhost/db"),
            ("REMOTE", "https://abc@host/x"),
            ("URL", "https://host/mcp?api_key=x"),
            ("CONNECTION", "Server=db;User Id=me;Password=hunter2;"),
            ("HEADERS", r#"{"Accept": "x", "Authorization": "Bearer hunter2"}"#),
            ("JSON", r#"{"nested": {"clientSecret" : 'x'}}"#),
            ("ID", "0123456789abcdef0123456789abcdef"),
            ("ID", "550e8400-e29b-41d4-a716-446655440000"),
            ("ID", "QmFzZVNpeHR5Rm91cklzTm90"),
            ("BOT", "123456789:AAF0123456789abcdefghijklmnop"),
        ] {
            assert!(is_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("LOG_LEVEL", "debug"),
            ("API_KEY", ""),
            ("API_KEY", " -"),
            ("AUTH", ":"),
            ("Authorization", "Bearer "),
            ("AUTH", "none"),
            ("MAX_TOKENS", "4096"),
            ("TOKEN_FILE", "/run/secrets/token"),
            ("URL", "https://example.com/a/path/that/is/quite/long/1?page=2"),
            ("URL", "ssh://git@github.com/a/b"),
            ("URL", "postgres://:@h/d"),
            ("DIR", "/home/sam/projects/number-one-2026"),
            ("DIR", "/nix/store/0c1kq3w8v7b6n5m4l3k2j1h0g9f8d7s6-python3/bin"),
            ("NAME", "averylongnamewithoutdigits"),
            ("PACKAGE", "@modelcontextprotocol/server-filesystem@2025.11.25"),
            ("PACKAGE", "mcp-server-sqlite-for-npx2"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn the_kind_of_an_authorization_is_no_secret() {
        for (value, expected) in [
            ("Bearer x y", ("Bearer ", "x y")),
            ("token x", ("token ", "x")),
            ("hunter2 x", ("", "hunter2 x")),
            ("Bearer", ("", "Bearer")),
            ("", ("", "")),
        ] {
            assert_eq!(without_scheme(value), expected, "{value}");
        }
    }

    #[test]
    fn a_command_keeps_its_words_and_loses_its_secrets() {
        for (line, kept) in [
            ("cargo test --package gate", "cargo test --package gate"),
            ("rm -rf  target\n ls", "rm -rf  target\n ls"),
            (
                "curl -H 'Authorization: Bearer abc' https://a.example/x",
                "curl -H 'Authorization: Bearer [redacted] https://a.example/x",
            ),
            ("curl -H X-Api-Key:abc a", "curl -H X-Api-Key:[redacted] a"),
            ("curl -u me:pw https://a.example", "curl -u [redacted] https://a.example"),
            (
                "API_KEY=abc ./run --token=xyz --token xyz",
                "API_KEY=[redacted] ./run --token=[redacted] --token [redacted]",
            ),
            ("git clone https://me:pw@a.example/r", "git clone [redacted]"),
            ("echo ghp_0123456789abcdef0123", "echo [redacted]"),
            ("echo \"sk-ant-REDACTED\" > key", "echo [redacted] > key"),
            ("psql --password hunter2 -c 'select 1'", "psql --password [redacted] -c 'select 1'"),
            ("DB_PASSWORD=\"two words\" ./run a", "DB_PASSWORD=[redacted] ./run a"),
            ("psql --password 'a b  c' -c x", "psql --password [redacted] -c x"),
            (
                "curl -d '{\"password\": \"a b\", \"n\": 1}' h",
                "curl -d '{\"password\": [redacted] \"n\": 1}' h",
            ),
            ("TOKEN='never closed and more", "TOKEN=[redacted]"),
            ("grep -n key src/a.rs", "grep -n key src/a.rs"),
            ("", ""),
        ] {
            assert_eq!(redact_command(line), kept);
        }
        assert_eq!(redact_path("@project/src/a.rs".to_owned()), "@project/src/a.rs");
        assert_eq!(redact_path("@project/ghp_0123456789abcdef/x".to_owned()), "@project/[redacted]/x");
        assert_eq!(redact_path("@project/sk-learn".to_owned()), "@project/sk-learn");
    }
}
