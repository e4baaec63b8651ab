//! The URL of a remote, without credentials.

/// How a URL may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RemoteUrl {
    /// May be shown, as this text.
    Public(String),
    /// Harmless, but reveals something about the host or may contain a secret.
    Private,
    /// Of a kind that may execute a program.
    Unsupported,
}

/// Classifies a URL as git would interpret it.
pub(super) fn classify_url(url: &str) -> RemoteUrl {
    let is_fit = |character: char| !character.is_control() && !character.is_whitespace() && character != '\\';
    if url.is_empty() || url.len() > 2048 || url.starts_with(['-', ':']) || !url.chars().all(is_fit) {
        return RemoteUrl::Unsupported;
    }
    let scheme_end = url.find(|character| !is_scheme(character)).unwrap_or(url.len());
    let (scheme, rest) = url.split_at_checked(scheme_end).unwrap_or((url, ""));
    // `helper::address` executes the program `git-remote-helper`.
    if rest.starts_with("::") {
        return RemoteUrl::Unsupported;
    }
    match rest.strip_prefix("://") {
        Some(rest) => with_scheme(&scheme.to_ascii_lowercase(), rest),
        None => without_scheme(url),
    }
}

fn is_scheme(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-.".contains(character)
}

fn with_scheme(scheme: &str, rest: &str) -> RemoteUrl {
    let (authority, path) =
        rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len())).unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user = match scheme {
        "https" | "http" => None,
        // A user name for key authentication is not a secret; a password is.
        "ssh" | "git+ssh" | "ssh+git" => user.split(':').next().filter(|user| is_plain_name(user)),
        "git" => None,
        "file" => return RemoteUrl::Private,
        _ => return RemoteUrl::Unsupported,
    };
    if !is_host(host) {
        return RemoteUrl::Unsupported;
    }
    // Tokens may follow `?`; an `@` in the path may belong to a password that contains a slash.
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if path.contains('@') {
        return RemoteUrl::Private;
    }
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    RemoteUrl::Public(format!("{scheme}://{user}{host}{path}"))
}

/// `user@host:path`, or a directory.
fn without_scheme(url: &str) -> RemoteUrl {
    let first = url.find([':', '/']).and_then(|position| url.get(position..));
    let Some((login, path)) = url.split_once(':').filter(|_| first.is_some_and(|rest| rest.starts_with(':')))
    else {
        return if url.starts_with(['/', '~']) {
            RemoteUrl::Private
        } else {
            RemoteUrl::Public(url.to_owned())
        };
    };
    let (user, host) = login.rsplit_once('@').map_or((None, login), |(user, host)| (Some(user), host));
    if !is_host(host) || path.starts_with('-') || user.is_some_and(|user| !is_plain_name(user)) {
        return RemoteUrl::Unsupported;
    }
    // A single letter is a Windows drive, and a second `@` means that the colon belongs to a password.
    if host.len() == 1 || path.contains('@') { RemoteUrl::Private } else { RemoteUrl::Public(url.to_owned()) }
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A host name or an IP address, with an optional port.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, port)) => (inside, port.strip_prefix(':').or(port.is_empty().then_some("0"))),
        None => text.split_once(':').map_or((text, Some("0")), |(host, port)| (host, Some(port))),
    };
    let is_number = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    let is_named = if text.starts_with('[') { host.bytes().all(is_number) } else { is_plain_name(host) };
    is_named
        && port.is_some_and(|port| {
            (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
        })
}
