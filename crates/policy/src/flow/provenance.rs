//! Whether a value is in a text: as a whole word, never as a part of one.
//!
//! A value is compared as it is: no case is folded but that of e-mail addresses and hosts, nothing is decoded, and no look-alike is mapped. What is not
//! certainly the same value is another one, and a person is asked.

/// A longer value is never found in a text.
const MAX_VALUE_BYTES: usize = 4096;

/// Domains of which a bare host in a sentence is certainly no file name: `notes.md` and `build.sh` are hosts as well.
const PLAIN_DOMAINS: [&str; 6] = ["com", "org", "net", "edu", "gov", "example"];

/// Whether a person who wrote this text named the value: it stands there as a whole word or sequence of words, or it is a URL below one that stands
/// there, or on a host that does.
#[must_use]
pub fn is_said_in(value: &str, text: &str) -> bool {
    if !is_comparable(value) {
        return false;
    }
    let is_word = match is_address(value) {
        true => has_word(&text.to_ascii_lowercase(), &value.to_ascii_lowercase()),
        false => has_word(text, value),
    };
    is_word
        || WebAddress::parse(value).is_some_and(|address| {
            words_of(text).any(|word| match WebAddress::parse(word) {
                Some(said) => address.is_below(&said),
                None => is_plain_host(word) && address.is_on(word),
            })
        })
}

/// Whether a text names a number by its decimal digits, as in `4`, `4.00`, `1,200` or `$4.5`. Exponents are not compared, nor is a word with three
/// digits after its point: `1.200` is more than a thousand to some.
#[must_use]
pub fn is_number_said_in(number: &str, text: &str) -> bool {
    let Some(number) = Decimal::parse(number) else { return false };
    words_of(text).any(|word| {
        let amount = word.trim_start_matches(CURRENCIES).trim_end_matches(CURRENCIES);
        match without_thousands(amount) {
            Some(plain) => Decimal::parse(&plain)
                .is_some_and(|said| said == number && said.written_digits_after_point != 3),
            None => false,
        }
    })
}

const CURRENCIES: [char; 4] = ['$', '€', '£', '¥'];

/// A decimal without the commas between its thousands; `None` if it has commas elsewhere.
fn without_thousands(amount: &str) -> Option<String> {
    if !amount.contains(',') {
        return Some(amount.to_owned());
    }
    let whole = amount.split('.').next().unwrap_or_default();
    let mut groups = whole.trim_start_matches('-').split(',');
    let is_first_short = groups.next().is_some_and(|first| (1..=3).contains(&first.len()));
    let is_grouped = is_first_short && groups.all(|group| group.len() == 3) && !amount.contains(".,");
    (is_grouped && amount.matches(',').count() == whole.matches(',').count()).then(|| amount.replace(',', ""))
}

/// A decimal number, without exponent, needless zeros in front, or sign but a minus.
struct Decimal<'d> {
    is_negative: bool,
    whole: &'d str,
    fraction: &'d str,
    written_digits_after_point: usize,
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.is_negative, self.whole, self.fraction) == (other.is_negative, other.whole, other.fraction)
    }
}

impl<'d> Decimal<'d> {
    fn parse(text: &'d str) -> Option<Self> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, written) =
            digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
        let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = all_digits(whole) && (whole == "0" || !whole.starts_with('0'));
        if !is_plain || !written.is_none_or(all_digits) {
            return None;
        }
        let written = written.unwrap_or_default();
        let fraction = written.trim_end_matches('0');
        Some(Self { is_negative, whole, fraction, written_digits_after_point: written.len() })
    }
}

/// Whether an entry of an allowlist covers the value: it is the value, a host or a URL that the value is below, or `@` and the domain of an e-mail address.
#[must_use]
pub fn is_allowed_by(value: &str, entry: &str) -> bool {
    if !is_comparable(value) {
        return false;
    }
    if value == entry || (is_address(value) && value.eq_ignore_ascii_case(entry)) {
        return true;
    }
    if let Some(domain) = entry.strip_prefix('@') {
        let host = value.split_once('@').filter(|_| is_address(value)).map(|(_, host)| host);
        return host.is_some_and(|host| host.eq_ignore_ascii_case(domain));
    }
    WebAddress::parse(value).is_some_and(|address| match WebAddress::parse(entry) {
        Some(said) => address.is_below(&said),
        None => is_host(entry) && address.is_on(entry),
    })
}

/// An empty value names nothing, and one with a control character or a blank at its ends may be read as another by the tool.
fn is_comparable(value: &str) -> bool {
    !value.is_empty()
        && value.len() <= MAX_VALUE_BYTES
        && value.trim() == value
        && !value.chars().any(char::is_control)
}

/// Whether it is an e-mail address, whose case does not matter.
fn is_address(value: &str) -> bool {
    let plain = |character: char| character.is_ascii_graphic() && !"@<>()[],;:\\\"/".contains(character);
    value.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty() && user.chars().all(plain) && host.contains('.') && is_host(host)
    })
}

/// Whether it has only characters of a host, with a port or without.
fn is_host(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "0"));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    !host.is_empty()
        && host.bytes().all(plain)
        && !host.starts_with(['.', '-'])
        && !host.ends_with('.')
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_plain_host(word: &str) -> bool {
    let name = word.split(':').next().unwrap_or_default();
    let domain = name.rsplit_once('.').map(|(_, domain)| domain.to_ascii_lowercase());
    is_host(word) && domain.is_some_and(|domain| PLAIN_DOMAINS.contains(&&*domain))
}

/// Whether a text has a value between boundaries of words.
fn has_word(text: &str, value: &str) -> bool {
    text.match_indices(value).any(|(start, _)| {
        let (before, after) = (text.get(..start), text.get(start + value.len()..));
        let ends_in_digit = value.ends_with(|last: char| last.is_ascii_digit());
        let starts_with_digit = value.starts_with(|first: char| first.is_ascii_digit());
        before.is_some_and(|before| ends_at_boundary(before, starts_with_digit))
            && after.is_some_and(|after| begins_at_boundary(after, ends_in_digit))
    })
}

/// Whether a word may begin after this text.
fn ends_at_boundary(before: &str, is_digit_next: bool) -> bool {
    let mut characters = before.chars().rev();
    match characters.next() {
        None => true,
        // 1,000 is one word.
        Some(',') => !(is_digit_next && characters.next().is_some_and(|digit| digit.is_ascii_digit())),
        Some(character) => character.is_whitespace() || character == ';' || is_opening(character),
    }
}

/// Whether a word may end before this text.
fn begins_at_boundary(after: &str, is_digit_before: bool) -> bool {
    let mut characters = after.chars();
    match characters.next() {
        None => true,
        Some(',') => !(is_digit_before && characters.next().is_some_and(|digit| digit.is_ascii_digit())),
        Some(character) if character.is_whitespace() || character == ';' || is_closing(character) => true,
        // The end of a sentence: `alice@example.com.` but not `example.com.evil.net`.
        Some('.' | '!' | '?' | ':' | '…') => {
            let rest = after.trim_start_matches(['.', '!', '?', ':', '…']);
            rest.chars().next().is_none_or(|next| next.is_whitespace() || is_closing(next))
        }
        Some(_) => false,
    }
}

fn is_opening(character: char) -> bool {
    matches!(character, '"' | '\'' | '`' | '(' | '[' | '{' | '<' | '“' | '„' | '‘' | '«')
}

fn is_closing(character: char) -> bool {
    matches!(character, '"' | '\'' | '`' | ')' | ']' | '}' | '>' | '”' | '“' | '’' | '»')
}

/// The words of a text, without the punctuation around them.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let ends = |character: char| is_closing(character) || ".,;:!?…".contains(character);
    text.split_whitespace().map(move |word| word.trim_start_matches(is_opening).trim_end_matches(ends))
}

/// A URL that has one reading: ASCII, without user information, backslashes or encoded dots and slashes in its path.
struct WebAddress<'u> {
    scheme: String,
    authority: String,
    path: &'u str,
    /// Whether it has a query or a fragment.
    has_more: bool,
}

impl<'u> WebAddress<'u> {
    fn parse(text: &'u str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return None;
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at_checked(end)?;
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, more) = rest.split_at_checked(end)?;
        let lower = path.to_ascii_lowercase();
        let is_plain = !["%2e", "%2f", "%5c"].iter().any(|encoded| lower.contains(encoded))
            && !path.split('/').any(|segment| matches!(segment, "." | ".."));
        let authority = authority.to_ascii_lowercase();
        (is_host(&authority) && is_plain).then_some(Self {
            scheme,
            authority,
            path,
            has_more: !more.is_empty(),
        })
    }

    /// Whether it is on this host.
    fn is_on(&self, host: &str) -> bool {
        self.authority.eq_ignore_ascii_case(host)
    }

    /// Whether it is another, or below it: `https://a.example/x/y` is below `https://a.example/x`.
    fn is_below(&self, other: &WebAddress<'_>) -> bool {
        let base = other.path.trim_end_matches('/');
        let rest = self.path.strip_prefix(base);
        !other.has_more
            && (&self.scheme, &self.authority) == (&other.scheme, &other.authority)
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_said_as_a_whole_word() {
        for (value, text) in [
            ("alice@example.com", "Send it to alice@example.com."),
            ("alice@example.com", "to Alice@Example.com, please"),
            ("alice@example.com", "to <alice@example.com>"),
            ("alice@example.com", "a@b.org,alice@example.com;c@d.org"),
            ("Spear Meeting", "cancel \"Spear Meeting\"!"),
            ("#general", "post in #general"),
            ("4711", "ticket 4711?"),
            ("1,000", "pay 1,000"),
            ("Bob", "Bob's desk"),
            ("https://a.example/x", "see https://a.example/x."),
            ("https://a.example/x/y?q=1", "see https://a.example/x"),
            ("https://a.example:8443/", "see a.example:8443"),
            ("http://shop.com/cart", "look at (shop.com)"),
        ] {
            assert!(is_said_in(value, text), "{value} in {text}");
        }
    }

    #[test]
    fn a_number_is_said_by_its_decimal_digits() {
        for (number, text) in [
            ("4.0", "send 4 to Bob"),
            ("4", "send $4.00."),
            ("98.7", "pay 98.70€!"),
            ("1200", "the rent is 1,200 now"),
            ("1200.5", "(1,200.50)"),
            ("-3", "change it by -3"),
            ("0.5", "0.50"),
        ] {
            assert!(is_number_said_in(number, text), "{number} in {text}");
        }
        for (number, text) in [
            ("4", "44, 4x, 4-5, 4.1, 04, 4%, version 4.4.4"),
            ("1.2", "1.200"),
            ("1200", "1.200"),
            ("1200", "12,00 or 1,2,00 or 1,2000 or ,200"),
            ("1000000", "1e6"),
            ("1e6", "1e6"),
            ("3", "-3"),
            ("3", "--3"),
            ("4", "４"),
            ("4", ""),
        ] {
            assert!(!is_number_said_in(number, text), "{number} in {text}");
        }
    }

    #[test]
    fn a_part_of_a_word_is_not_said() {
        for (value, text) in [
            ("example.com", "Send it to alice@example.com."),
            ("alice", "Send it to alice@example.com."),
            ("evil.com", "see good.evil.com"),
            ("good.com", "see good.com.evil.net"),
            ("good.com", "see https://good.com.evil.net/"),
            ("000", "pay 1,000"),
            ("1", "pay 1,000"),
            ("1", "1.5"),
            ("repo", "acme/repo"),
            ("acme", "acme/repo"),
            ("", "anything"),
            (" ", "any thing"),
            ("alice@example.com ", "alice@example.com "),
            ("a\nb", "a\nb"),
        ] {
            assert!(!is_said_in(value, text), "{value} in {text}");
        }
    }

    #[test]
    fn what_only_looks_alike_is_another_value() {
        let text = "mail alice@example.com, use https://api.example.com/v1 and #general; edit README.md";
        for value in [
            "аlice@example.com",
            "alice@example.com\u{200b}",
            "alice%40example.com",
            "alice＠example.com",
            "alice@example.com,eve@evil.com",
            "alice@example.com eve@evil.com",
            "\"alice\"@example.com",
            "#General",
            "https://api.example.com@evil.com/v1",
            "https://api.example.com/v1/../v2",
            "https://api.example.com/v1/%2e%2e/v2",
            "https://api.example.com/v10",
            "https://api.example.com\\.evil.com/v1",
            "https://api.example.com:444/v1",
            "http://api.example.com/v1",
            "https://api.example.com.evil.com/v1",
            "https://api.example.com/",
            "https://readme.md/",
            "https://README.md/v1",
            "javascript://api.example.com/v1",
        ] {
            assert!(!is_said_in(value, text), "{value}");
        }
        assert!(!is_said_in(&"x".repeat(5000), &"x".repeat(5000)));
        assert!(!is_said_in("https://a.example/x?q=2", "see https://a.example/x?q=1"));
    }

    #[test]
    fn an_allowlist_covers_values_hosts_and_domains() {
        for (value, entry) in [
            ("general", "general"),
            ("Bob@Acme.example", "bob@acme.example"),
            ("bob@acme.example", "@acme.example"),
            ("https://api.acme.md/x", "api.acme.md"),
            ("https://api.acme.md/x/y", "https://api.acme.md/x"),
        ] {
            assert!(is_allowed_by(value, entry), "{value} by {entry}");
        }
        for (value, entry) in [
            ("General", "general"),
            ("bob@sub.acme.example", "@acme.example"),
            ("bob@acme.example@evil.com", "@acme.example"),
            ("https://evil.com/api.acme.md", "api.acme.md"),
            ("", ""),
        ] {
            assert!(!is_allowed_by(value, entry), "{value} by {entry}");
        }
    }
}
