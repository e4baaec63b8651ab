//! `models`: model servers in addition to the built-in ones.

use crate::decode::{ConfigField, KeySpec, Section, count, flag, key, located_text, named, path};
use crate::path::DeclaredPath;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::servers::headers;
use crate::url::{is_private, model_url};
use crate::variables::VariableText;

const MODELS: &[KeySpec] = &[
    key("wire", "wire: openai-chat"),
    key("base_url", "base_url: https://models.example.com/v1"),
    key("key_env", "key_env: EXAMPLE_API_KEY"),
    key("key_file", "key_file: ~/.config/example.key"),
    key("headers", "headers: {X-Team: tools}"),
    key("exact_tool_names", "exact_tool_names: true"),
    key("supports_tools", "supports_tools: true"),
    key("supports_images", "supports_images: true"),
    key("context_window", "context_window: 128000"),
    key("max_output_tokens", "max_output_tokens: 8192"),
    key("price", "price: {input: 3, output: 15, cached: 0.3, currency: USD}"),
];

const PRICE: &[KeySpec] = &[
    key("input", "input: 3"),
    key("output", "output: 15"),
    key("cached", "cached: 0.3"),
    key("currency", "currency: USD"),
];

/// The largest price that is believed, per million tokens.
const MAX_PRICE: f64 = 1_000_000.0;

/// The most letters of a currency.
const MAX_CURRENCY_LETTERS: usize = 8;

/// `models`, one entry: a server whose models are called `NAME/MODEL`.
#[derive(Clone, Debug)]
pub struct ModelServerConfig {
    /// The part before the slash.
    pub name: Located<String>,
    /// `wire`: the name of the API that it speaks; [`Config::require_wires`](crate::Config::require_wires) checks that there is such an API.
    pub wire: Located<String>,
    /// `base_url`: absent means the URL of the API's vendor.
    pub base_url: Option<Located<String>>,
    /// `key_env` or `key_file`: where the API key is.
    pub key: Option<ModelKey>,
    /// `headers`: headers of every request.
    pub headers: Vec<(Located<String>, Located<VariableText>)>,
    /// `exact_tool_names`: whether tool names are sent unchanged, dots included.
    pub exact_tool_names: bool,
    /// `supports_tools`: in place of what the server reports.
    pub supports_tools: Option<bool>,
    /// `supports_images`: in place of what the server reports.
    pub supports_images: Option<bool>,
    /// `context_window`: in place of what the server reports.
    pub context_window: Option<u64>,
    /// `max_output_tokens`: in place of what the server reports.
    pub max_output_tokens: Option<u64>,
    /// `price`: what its tokens cost.
    pub price: Option<TokenPrice>,
}

/// What a million tokens cost.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenPrice {
    /// `input`: of what the model is sent.
    pub input: f64,
    /// `output`: of what it writes.
    pub output: f64,
    /// `cached`: of input that comes from the server's cache; absent means as other input.
    pub cached: Option<f64>,
    /// `currency`: three letters or a few more.
    pub currency: String,
}

/// Where an API key is. The configuration never contains the key itself.
#[derive(Clone, Debug)]
pub enum ModelKey {
    /// In this environment variable.
    Variable(Located<String>),
    /// In this file, which no other user may read.
    File(Located<DeclaredPath>),
}

pub(crate) fn models(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<ModelServerConfig>> {
    let entries = named(field, "model server", report)?;
    Some(entries.into_iter().filter_map(|(name, entry)| server(name, &entry, report)).collect())
}

fn server(
    name: Located<String>,
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<ModelServerConfig> {
    let odd = |byte: u8| !(byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'));
    if name.value.is_empty() || name.value.bytes().any(odd) || name.value == "scripted" {
        let help = "write lower-case letters, digits, `-` or `_`; `scripted` is taken".to_owned();
        report.located(&name, format!("`{}` cannot name a server of models", shown(&name.value)), Some(help));
    }
    let section = Section::read(field, MODELS, report)?;
    if section.lacks("wire") {
        let help = "say what it speaks, such as `wire: openai-chat`".to_owned();
        report.located(&name, format!("{} has no `wire`", field.name), Some(help));
    }
    let wire = section.get("wire", report, located_text);
    let base_url = section.get("base_url", report, model_url);
    let key = model_key(&section, report);
    // Over plain HTTP the key could be read on the network.
    if let Some(url) = base_url.as_ref().filter(|url| key.is_some() && !is_private(&url.value)) {
        let help = "use https, or leave the key out".to_owned();
        report.located(url, "a key would go over the network for all to read", Some(help));
    }
    Some(ModelServerConfig {
        wire: wire?,
        base_url,
        key,
        headers: section.get("headers", report, headers).unwrap_or_default(),
        exact_tool_names: section.get("exact_tool_names", report, flag).unwrap_or_default(),
        supports_tools: section.get("supports_tools", report, flag),
        supports_images: section.get("supports_images", report, flag),
        context_window: section.get("context_window", report, count),
        max_output_tokens: section.get("max_output_tokens", report, count),
        price: section.get("price", report, price),
        name,
    })
}

fn price(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<TokenPrice> {
    let section = Section::read(field, PRICE, report)?;
    for needed in ["input", "output"].into_iter().filter(|needed| section.lacks(needed)) {
        let help = "write what a million tokens cost: `price: {input: 3, output: 15}`".to_owned();
        report.node(&field.node, format!("{} has no `{needed}`", field.name), Some(help));
    }
    let currency = match section.field("currency") {
        Some(field) => currency(field, report)?,
        None => "USD".to_owned(),
    };
    Some(TokenPrice {
        input: section.get("input", report, amount)?,
        output: section.get("output", report, amount)?,
        cached: section.get("cached", report, amount),
        currency,
    })
}

fn amount(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<f64> {
    let text = field.scalar("a price", report)?;
    let amount = text.parse::<f64>().ok().filter(|amount| (0.0..=MAX_PRICE).contains(amount));
    if amount.is_none() {
        let help = "write a number such as `3` or `0.25`, per million tokens".to_owned();
        report.node(&field.node, format!("`{}` is not a price", shown(text)), Some(help));
    }
    amount
}

fn currency(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<String> {
    let text = field.scalar("a currency", report)?;
    let is_word = (1..=MAX_CURRENCY_LETTERS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_word {
        let help = "write a few letters, such as `USD`".to_owned();
        report.node(&field.node, format!("`{}` is not a currency", shown(text)), Some(help));
    }
    is_word.then(|| text.to_owned())
}

fn model_key(section: &Section, report: &mut ProblemReport<'_>) -> Option<ModelKey> {
    if let (Some(_), Some(file)) = (section.field("key_env"), section.field("key_file")) {
        // Another value on this line may be a key by mistake, so the line is not shown.
        report.secret(
            &file.node,
            "`key_file` says again what `key_env` says".to_owned(),
            Some("keep one of them".to_owned()),
        );
    }
    let variable = section.get("key_env", report, variable_name).map(ModelKey::Variable);
    variable.or_else(|| section.get("key_file", report, path).map(ModelKey::File))
}

/// The name of a variable, never its value.
pub(crate) fn variable_name(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let name = located_text(field, report)?;
    let first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let good = name.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !good || !name.value.as_bytes().first().is_some_and(first) {
        let help = format!(
            "write the name of a variable, such as in `{}`; the key itself does not belong here",
            field.example
        );
        // It may be the key itself, so it is not quoted.
        report.secret(&field.node, format!("{} is not the name of a variable", field.name), Some(help));
        return None;
    }
    Some(name)
}
