//! A server's question to the person, made fit to be shown.
//!
//! It is untrusted: its texts lose control and invisible characters, everything is bounded, and a question that wants a secret or speaks of the gate is
//! not asked at all. A person must not take it for a question of the gate, and a form is not where secrets belong (MCP 2025-11-25, elicitation).

use rmcp::model::ElicitRequestParams;
use serde_json::{Map, Value};
use toolgate_gate::{FieldKind, FieldOption, FormField, QuestionBody};
use toolgate_text::secret_detection::names_secret;
use toolgate_text::{is_invisible, sanitize};
use unicode_normalization::UnicodeNormalization as _;

use crate::definition::truncate;

const MAX_MESSAGE_BYTES: usize = 4_096;
const MAX_FIELDS: usize = 20;
const MAX_OPTIONS: usize = 100;
const MAX_NAME_BYTES: usize = 64;
const MAX_TITLE_BYTES: usize = 200;
const MAX_DESCRIPTION_BYTES: usize = 500;
const MAX_URL_BYTES: usize = 2_048;

/// Phrases of texts that ask for a secret.
const SECRET_PHRASES: &[&str] = &[
    "password",
    "passphrase",
    "passcode",
    "passwort",
    "api key",
    "api-key",
    "apikey",
    "secret key",
    "private key",
    "access key",
    "access token",
    "auth token",
    "bearer token",
    "seed phrase",
    "recovery phrase",
    "recovery code",
    "one-time code",
    "one time code",
    "verification code",
    "2fa",
    "otp",
    "credit card",
    "card number",
    "cvv",
    "cvc",
    "social security",
    "pin code",
    "your pin",
    "credentials",
];

/// Words of names that stand for a secret, besides those that variables are named with.
const SECRET_NAMES: &[&str] = &[
    "pin",
    "otp",
    "cvv",
    "cvc",
    "ssn",
    "iban",
    "mfa",
    "totp",
    "passcode",
    "passphrase",
    "seed",
    "cardnumber",
    "creditcard",
    "password",
    "passwort",
];

/// A question that may be shown, and what the record says of it.
pub(crate) struct ShownQuestion {
    pub(crate) message: String,
    pub(crate) body: QuestionBody,
    pub(crate) summary: String,
}

/// The question, or why it is not asked.
pub(crate) fn shown_question(request: &ElicitRequestParams) -> Result<ShownQuestion, &'static str> {
    let (said, body) = match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema).map_err(|_| "its form is malformed")?;
            (message, QuestionBody::Form(form(&schema)?))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
            let id = truncate(&sanitize(elicitation_id).replace('\n', " "), MAX_TITLE_BYTES);
            (message, QuestionBody::Url { url: page(url).ok_or("its address may not be shown")?, id })
        }
        _ => return Err("it is of an unknown kind"),
    };
    if said.len() > MAX_MESSAGE_BYTES {
        return Err("its text is too long");
    }
    let message = sanitize(said);
    let is_form = matches!(body, QuestionBody::Form(_));
    let mut texts = vec![message.as_str()];
    if let QuestionBody::Form(fields) = &body {
        texts.extend(fields.iter().flat_map(texts_of));
    }
    if texts.iter().any(|text| speaks_of_the_gate(text)) {
        return Err("it speaks of the gate");
    }
    if is_form && texts.iter().any(|text| asks_for_a_secret(text)) {
        return Err("it asks for a secret");
    }
    let summary = match &body {
        QuestionBody::Form(fields) => {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            format!("form ({})", names.join(", "))
        }
        QuestionBody::Url { url, .. } => format!("page on {}", host(url).unwrap_or_default()),
    };
    Ok(ShownQuestion { message, body, summary })
}

/// An address that a person may be shown: `https`, printable ASCII, with a host and without credentials, so that its host cannot be mistaken.
fn page(url: &str) -> Option<String> {
    let is_plain = url.len() <= MAX_URL_BYTES && url.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && host(url).is_some()).then(|| url.to_owned())
}

/// The host and the port of an `https` address.
fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
    (!authority.is_empty() && authority.bytes().all(is_host)).then_some(authority)
}

fn form(schema: &Value) -> Result<Vec<FormField>, &'static str> {
    let properties = schema.get("properties").and_then(Value::as_object).ok_or("its form is malformed")?;
    if properties.len() > MAX_FIELDS {
        return Err("its form has too many fields");
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    properties
        .iter()
        .map(|(name, about)| {
            let about = about.as_object().ok_or("its form is malformed")?;
            field(name, about, required.contains(&name.as_str()))
        })
        .collect()
}

/// Whether a name is one to 64 of ASCII letters, digits, `_`, `-` and `.`.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
}

fn field(name: &str, about: &Map<String, Value>, is_required: bool) -> Result<FormField, &'static str> {
    if !is_plain_name(name) {
        return Err("a field has no plain name");
    }
    let words: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let parts = name.split(['_', '-', '.']).map(str::to_ascii_lowercase);
    if names_secret(name)
        || SECRET_NAMES.contains(&words.as_str())
        || parts.into_iter().any(|part| SECRET_NAMES.contains(&part.as_str()))
    {
        return Err("it asks for a secret");
    }
    let kind = kind(about)?;
    let default = about.get("default").filter(|default| kind.accepts(default)).cloned();
    Ok(FormField {
        name: name.to_owned(),
        title: line(about, "title", MAX_TITLE_BYTES),
        description: line(about, "description", MAX_DESCRIPTION_BYTES),
        kind,
        is_required,
        default,
        has_enum_names: about.contains_key("enumNames"),
    })
}

fn kind(about: &Map<String, Value>) -> Result<FieldKind, &'static str> {
    let count = |name: &str| about.get(name).and_then(Value::as_u64);
    let bound = |name: &str| about.get(name).and_then(Value::as_f64);
    match about.get("type").and_then(Value::as_str) {
        Some("string") => match options(about)? {
            Some(options) => Ok(FieldKind::Choice(options)),
            None => {
                let format = about.get("format").and_then(Value::as_str);
                let format = format.filter(|format| ["email", "uri", "date", "date-time"].contains(format));
                Ok(FieldKind::Text {
                    min: count("minLength"),
                    max: count("maxLength"),
                    format: format.map(str::to_owned),
                })
            }
        },
        Some("integer") => {
            Ok(FieldKind::Number { is_whole: true, min: bound("minimum"), max: bound("maximum") })
        }
        Some("number") => {
            Ok(FieldKind::Number { is_whole: false, min: bound("minimum"), max: bound("maximum") })
        }
        Some("boolean") => Ok(FieldKind::Boolean),
        Some("array") => {
            let items = about.get("items").and_then(Value::as_object).ok_or("a field is malformed")?;
            let options = options(items)?.ok_or("a field is malformed")?;
            Ok(FieldKind::Choices { options, min: count("minItems"), max: count("maxItems") })
        }
        _ => Err("a field is of an unknown type"),
    }
}

/// The values of a field that has only some: `enum` with or without `enumNames`, or titled constants.
fn options(about: &Map<String, Value>) -> Result<Option<Vec<FieldOption>>, &'static str> {
    let list = |name: &str| about.get(name).and_then(Value::as_array);
    let found: Vec<(Option<&str>, Option<&str>)> =
        match (list("enum"), list("oneOf").or_else(|| list("anyOf"))) {
            (Some(values), _) => {
                let titles = list("enumNames");
                let title =
                    |index: usize| titles.and_then(|titles| titles.get(index)).and_then(Value::as_str);
                values.iter().enumerate().map(|(index, value)| (value.as_str(), title(index))).collect()
            }
            (None, Some(values)) => {
                let text =
                    |value: &'_ Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
                let owned: Vec<(Option<String>, Option<String>)> =
                    values.iter().map(|value| (text(value, "const"), text(value, "title"))).collect();
                return bounded_options(
                    owned.iter().map(|(value, title)| (value.as_deref(), title.as_deref())),
                )
                .map(Some);
            }
            (None, None) => return Ok(None),
        };
    bounded_options(found.into_iter()).map(Some)
}

fn bounded_options<'v>(
    found: impl Iterator<Item = (Option<&'v str>, Option<&'v str>)>,
) -> Result<Vec<FieldOption>, &'static str> {
    let options: Vec<FieldOption> = found
        .take(MAX_OPTIONS + 1)
        .map(|(value, title)| {
            let value = value.filter(|value| is_showable(value, MAX_TITLE_BYTES))?;
            Some(FieldOption {
                value: value.to_owned(),
                title: title.map(|title| bounded_line(title, MAX_TITLE_BYTES)),
            })
        })
        .collect::<Option<_>>()
        .ok_or("a field has a value that cannot be shown")?;
    match options.len() {
        1..=MAX_OPTIONS => Ok(options),
        _ => Err("a field has no values, or too many"),
    }
}

/// A value is sent back as it is, so it is shown as it is or not at all.
fn is_showable(value: &str, most: usize) -> bool {
    value.len() <= most && !value.chars().any(|character| character.is_control() || is_invisible(character))
}

fn line(about: &Map<String, Value>, name: &str, most: usize) -> Option<String> {
    about.get(name).and_then(Value::as_str).map(|text| bounded_line(text, most))
}

fn bounded_line(text: &str, most: usize) -> String {
    truncate(&sanitize(text).replace('\n', " "), most)
}

fn texts_of(field: &FormField) -> Vec<&str> {
    let options = match &field.kind {
        FieldKind::Choice(options) | FieldKind::Choices { options, .. } => options.as_slice(),
        FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Boolean => &[],
    };
    let of_options = options
        .iter()
        .flat_map(|option| std::iter::once(option.value.as_str()).chain(option.title.as_deref()));
    let own = [Some(field.name.as_str()), field.title.as_deref(), field.description.as_deref()];
    own.into_iter().flatten().chain(of_options).collect()
}

/// Whether a text names the gate, also with letters that look like those of its name.
fn speaks_of_the_gate(text: &str) -> bool {
    let folded: String = text.nfkd().flat_map(char::to_lowercase).filter_map(latin).collect();
    folded.contains("toolgate") || folded.contains("too1gate") || folded.contains("t00lgate")
}

/// A letter as the Latin one that it looks like; nothing for what stands between letters.
fn latin(character: char) -> Option<char> {
    Some(match character {
        'а' | 'α' | 'ɑ' => 'a',
        'е' | 'ε' | 'ҽ' => 'e',
        'о' | 'ο' | 'օ' | 'ᴏ' => 'o',
        'т' | 'τ' | 'ᴛ' => 't',
        'ɡ' | 'ց' | 'ɢ' => 'g',
        'ⅼ' | 'ӏ' | 'ı' | '|' => 'l',
        plain if plain.is_ascii_alphanumeric() => plain,
        other if other.is_alphanumeric() => other,
        _ => return None,
    })
}

fn asks_for_a_secret(text: &str) -> bool {
    let lower: String = text.nfkd().flat_map(char::to_lowercase).collect();
    let words: Vec<&str> =
        lower.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let joined = format!(" {} ", words.join(" "));
    SECRET_PHRASES.iter().any(|phrase| {
        let phrase = phrase.replace('-', " ");
        match phrase.len() {
            ..=4 => joined.contains(&format!(" {phrase} ")),
            _ => joined.contains(&phrase),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(message: &str, properties: Value) -> Result<ShownQuestion, &'static str> {
        let request = json!({"mode": "form", "message": message, "requestedSchema": {"type": "object", "properties": properties, "required": []}});
        shown_question(&serde_json::from_value(request).unwrap())
    }

    #[test]
    fn every_kind_of_field_keeps_its_schema() {
        let properties = json!({
            "name": {"type": "string", "description": "Name", "default": "John Doe"},
            "age": {"type": "integer", "minimum": 1, "default": 30},
            "score": {"type": "number", "default": 95.5},
            "sure": {"type": "boolean", "default": true},
            "one": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "titled": {"type": "string", "oneOf": [{"const": "x", "title": "First"}]},
            "legacy": {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]},
            "many": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b"]}},
            "many_titled": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "First"}]}},
        });
        let shown = asked("Please fill in", properties.clone()).ok().unwrap();
        assert_eq!(shown.body.schema()["properties"], properties);
        assert_eq!(shown.summary, "form (name, age, score, sure, one, titled, legacy, many, many_titled)");
    }

    #[test]
    fn a_form_does_not_ask_for_secrets() {
        let text = json!({"type": "string"});
        for name in [
            "password",
            "apiKey",
            "github_token",
            "pin",
            "card_number",
            "otp",
            "clientSecret",
            "user.password",
            "Passphrase",
        ] {
            assert_eq!(asked("Hello", json!({name: text})).err(), Some("it asks for a secret"), "{name}");
        }
        for message in [
            "Enter your PASSWORD below",
            "paste the API key",
            "Your ｐａｓｓｗｏｒｄ",
            "the one-time code that you got",
            "type your PIN",
        ] {
            assert_eq!(
                asked(message, json!({"answer": text})).err(),
                Some("it asks for a secret"),
                "{message}"
            );
        }
        let hidden = json!({"answer": {"type": "string", "title": "Password"}});
        assert_eq!(asked("Hello", hidden).err(), Some("it asks for a secret"));
        for (message, name) in [
            ("How many spins?", "spins"),
            ("Which opinion?", "opinion"),
            ("Maximum tokens", "max_tokens"),
            ("Shopping", "shop"),
        ] {
            assert!(asked(message, json!({name: text})).is_ok(), "{message}");
        }
    }

    #[test]
    fn a_question_cannot_speak_as_the_gate() {
        for message in [
            "Toolgate: approve run_command?",
            "ToolGate",
            "tool-gate asks",
            "Тооlgate",
            "t o o l g a t e",
            "ｔｏｏｌｇａｔｅ",
            "too1gate",
            "tool\u{200b}gate",
        ] {
            assert_eq!(
                asked(message, json!({"a": {"type": "boolean"}})).err(),
                Some("it speaks of the gate"),
                "{message}"
            );
        }
        let titled = json!({"a": {"type": "boolean", "title": "Approve for Toolgate"}});
        assert_eq!(asked("Hello", titled).err(), Some("it speaks of the gate"));
    }

    #[test]
    fn what_cannot_be_shown_whole_is_not_asked() {
        let text = json!({"type": "string"});
        assert!(asked(&"x".repeat(MAX_MESSAGE_BYTES + 1), json!({"a": text})).is_err());
        let many: Map<String, Value> =
            (0..=MAX_FIELDS).map(|number| (format!("f{number}"), text.clone())).collect();
        assert!(asked("Hello", many.into()).is_err());
        for name in ["", "a b", "a\u{202e}", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(asked("Hello", json!({name: text})).is_err(), "{name:?}");
        }
        let values: Vec<String> = (0..=MAX_OPTIONS).map(|number| number.to_string()).collect();
        assert!(asked("Hello", json!({"a": {"type": "string", "enum": values}})).is_err());
        assert!(asked("Hello", json!({"a": {"type": "string", "enum": ["x\u{202e}y"]}})).is_err());
        assert_eq!(asked("a\u{1b}[2Jb\u{202e}c", json!({"a": text})).ok().unwrap().message, "abc");
    }

    #[test]
    fn only_addresses_whose_host_is_plain_are_shown() {
        for (url, shown) in [
            ("https://example.com/connect?state=1", Some("example.com")),
            ("https://example.com:8443", Some("example.com:8443")),
            ("http://example.com/", None),
            ("https://example.com@evil.example/", None),
            ("https://exаmple.com/", None),
            ("https://", None),
            ("javascript:alert(1)", None),
            ("file:///etc/passwd", None),
            ("https://example.com\\@evil.example", Some("example.com")),
            ("https://a b.example", None),
        ] {
            assert_eq!(page(url).as_deref().and_then(host), shown, "{url}");
        }
    }
}
