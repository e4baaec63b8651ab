//! An entry in a TOML file. Comments and order are kept, and the file is left alone if its parsed content would change by more than the entry.

use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, TomlError};

use crate::config_file::GateEntry;
use crate::merge_entry::{InstalledEntry, RemovedEntry, merge_entry};

/// The text with a table `[section.name]`.
pub(crate) fn install(
    text: &str,
    section: &str,
    name: &str,
    entry: &GateEntry,
) -> Result<InstalledEntry, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| parse_error(text, &error))?;
    let mut expected = plain_table(document.as_table());
    let merged = merge_entry(
        expected.get(section).and_then(|servers| servers.get(name)),
        &match entry {
            GateEntry::Program(entry) => json!({"command": entry.program, "args": entry.arguments}),
            GateEntry::Address(address, format) => format.value(address),
        },
    );
    if merged.changes_nothing {
        return Ok(merged.installed(text.to_owned()));
    }
    let comments = lone_comments(&mut document);
    let servers = document.entry(section).or_insert_with(|| Item::Table(implicit_table()));
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("`{section}` is no table in it"))?;
    let server = server(servers, name).ok_or_else(|| format!("`{section}.{name}` is no table in it"))?;
    merged.left_out.iter().for_each(|key| drop(server.remove(key)));
    match entry {
        GateEntry::Program(entry) => {
            set(server, "command", quoted_line(&entry.program));
            let arguments: Array = entry.arguments.iter().map(|argument| quoted_line(argument)).collect();
            set(server, "args", arguments.into());
        }
        GateEntry::Address(address, format) => {
            let members = format.value(address);
            for (key, value) in members.as_object().into_iter().flatten() {
                if let Some(text) = value.as_str() {
                    set(server, key, quoted_line(text));
                }
            }
        }
    }
    let written = restore_line_ends(text, format!("{comments}{document}"));
    let members = expected.entry(section).or_insert_with(|| Value::Object(Map::new())).as_object_mut();
    members.into_iter().for_each(|members| drop(members.insert(name.to_owned(), merged.value.clone())));
    match written.parse::<DocumentMut>() {
        Ok(found) if plain_table(found.as_table()) == expected => Ok(merged.installed(written)),
        _ => Err("it is laid out in a way that is not understood".to_owned()),
    }
}

/// The text without the table `[section.name]`.
pub(crate) fn uninstall(text: &str, section: &str, name: &str) -> Result<Option<RemovedEntry>, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| parse_error(text, &error))?;
    let mut expected = plain_table(document.as_table());
    let members = expected.get_mut(section).and_then(Value::as_object_mut);
    let Some(entry) = members.and_then(|members| members.shift_remove(name)) else { return Ok(None) };
    let servers = document.get_mut(section).and_then(Item::as_table_like_mut);
    servers.ok_or_else(|| format!("`{section}` is no table in it"))?.remove(name);
    let written = restore_comments(text, restore_line_ends(text, document.to_string()));
    let is_left = |table: &Map<String, Value>| table.get(section).is_none_or(|left| *left != json!({}));
    let without_empty = |mut table: Map<String, Value>| {
        if !is_left(&table) {
            table.shift_remove(section);
        }
        table
    };
    // An implicit table disappears with its last member.
    match written.parse::<DocumentMut>() {
        Ok(found) if without_empty(plain_table(found.as_table())) == without_empty(expected) => {
            Ok(Some(RemovedEntry { text: written, entry }))
        }
        _ => Err("it is laid out in a way that is not understood".to_owned()),
    }
}

/// The content of a file as JSON.
pub(crate) fn read_toml(text: &str) -> Result<Value, String> {
    let document: DocumentMut = text.parse().map_err(|error| parse_error(text, &error))?;
    Ok(Value::Object(plain_table(document.as_table())))
}

/// The line and the kind of a mistake, without the text at it, which may be a secret.
fn parse_error(text: &str, error: &TomlError) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("it is not TOML: line {}: {}", before.matches('\n').count() + 1, error.message())
}

/// The comments of a file without any item. `toml_edit` treats them as trailing; here they stay at the beginning.
fn lone_comments(document: &mut DocumentMut) -> String {
    let comments = document.trailing().as_str().unwrap_or_default().trim_end().to_owned();
    if !document.is_empty() || comments.is_empty() {
        return String::new();
    }
    document.set_trailing("");
    format!("{comments}\n\n")
}

/// A table without a header of its own.
pub(crate) fn implicit_table() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

/// The table of a server, created if missing.
fn server<'t>(servers: &'t mut dyn TableLike, name: &str) -> Option<&'t mut dyn TableLike> {
    if servers.get(name).is_none() {
        // With dotted keys such as `servers.other.command = …` there can be no `[servers.name]` header.
        let table = match servers.is_dotted() {
            true => Item::Value(InlineTable::new().into()),
            false => Item::Table(Table::new()),
        };
        servers.insert(name, table);
    }
    servers.get_mut(name)?.as_table_like_mut()
}

/// A basic string on one line: `toml_edit` itself would use a multi-line string for line breaks.
fn quoted_line(text: &str) -> toml_edit::Value {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => quoted.push_str(&format!("\\U{:08X}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted.parse().unwrap_or_else(|_| text.into())
}

/// Sets a value; a comment on its line stays.
fn set(table: &mut dyn TableLike, key: &str, mut value: toml_edit::Value) {
    if let Some(Item::Value(before)) = table.get(key) {
        *value.decor_mut() = before.decor().clone();
    }
    match table.get_mut(key) {
        Some(item) => *item = Item::Value(value),
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// Restores CRLF line ends: `toml_edit` writes LF.
pub(crate) fn restore_line_ends(before: &str, after: String) -> String {
    let (all, windows) = (before.matches('\n').count(), before.matches("\r\n").count());
    match windows > 0 && windows == all {
        true => after.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => after,
    }
}

/// Restores the comments above the removed entry. `toml_edit` treats them as part of it, but they may be about anything.
fn restore_comments(before: &str, after: String) -> String {
    let is_remark = |line: &&&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let mut left: Vec<&str> = after.split_inclusive('\n').collect();
    // Both from the end, so that an empty line after the removed entry stays with what follows it.
    let (mut lines, mut taken) = (Vec::new(), Vec::new());
    let put_back = |taken: &mut Vec<_>, lines: &mut Vec<_>| {
        let above = taken.iter().rev().take_while(is_remark).count();
        let above = taken.split_off(taken.len() - above);
        if above.iter().any(|line: &&str| !line.trim().is_empty()) {
            lines.extend(above);
        }
        taken.clear();
    };
    for line in before.split_inclusive('\n').rev() {
        if left.pop_if(|next| *next == line).is_some() {
            put_back(&mut taken, &mut lines);
            lines.push(line);
        } else {
            taken.push(line);
        }
    }
    put_back(&mut taken, &mut lines);
    lines.reverse();
    // If more than whole lines were removed, the comments cannot be attributed.
    if left.is_empty() { lines.concat() } else { after }
}

/// The content of a table, whatever its syntax.
fn plain_table(table: &dyn TableLike) -> Map<String, Value> {
    table.iter().map(|(key, item)| (key.to_owned(), plain(item))).collect()
}

fn plain(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain_value(value),
        Item::Table(table) => Value::Object(plain_table(table)),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| Value::Object(plain_table(table))).collect(),
    }
}

fn plain_value(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => Value::String(text.value().clone()),
        Toml::Integer(number) => json!(number.value()),
        Toml::Boolean(flag) => json!(flag.value()),
        // Only compared, so the type is kept beside the value.
        Toml::Float(number) => json!({"float": number.value().to_string()}),
        Toml::Datetime(time) => json!({"time": time.value().to_string()}),
        Toml::Array(items) => items.iter().map(plain_value).collect(),
        Toml::InlineTable(table) => Value::Object(plain_table(table)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::ServerEntry;

    fn entry() -> GateEntry {
        let entry = ServerEntry {
            program: "/bin/toolgate".to_owned(),
            arguments: vec!["mcp".to_owned(), "a\"\\\n".to_owned()],
        };
        entry.into()
    }

    fn installed(before: &str) -> Result<InstalledEntry, String> {
        install(before, "mcp_servers", "gate", &entry())
    }

    /// Every syntax for servers, and the result.
    #[test]
    fn an_entry_is_added_or_replaced_and_the_rest_is_kept() {
        let cases = [
            "",
            "# nothing but this",
            "model = \"x\" # mine",
            "model = \"x\"\r\n# mine\r\n[tui]\r\ntheme = \"dark\"\r\n",
            "[mcp_servers.other]\ncommand = \"y\"\n\n# the rest\n[profiles.fast]\nmodel = \"z\"\n",
            "[mcp_servers]\ngate = {command = \"old\"} # was written by hand\n",
            "[mcp_servers]\nother = {command = \"old\"}\n",
            "mcp_servers = {}\n",
            "mcp_servers = {other = {command = \"x\"}} # all\n",
            "mcp_servers.other.command = \"x\"\nmodel = \"y\"\n",
            "[mcp_servers.gate]\ncommand = \"old\" # mine\nenabled = false\nstartup_timeout_sec = 1.50\n\n[mcp_servers.gate.env]\nA = \"b\" # why\n",
            "[mcp_servers.\"gate\"]\nurl = \"https://a.example\"\nhttp_headers = {a = \"b\"}\n",
            "[mcp_servers.gate.env]\nA = \"b\"\n",
            "text = \"\"\"\n[mcp_servers.gate]\ncommand = \"no\"\n\"\"\"\nsince = 2026-01-02T03:04:05Z\n[[rules]]\na = nan\n[[rules]]\n",
        ];
        let mut told = String::new();
        for before in cases {
            let InstalledEntry { text, kept, left_out } =
                installed(before).unwrap_or_else(|error| panic!("{before}: {error}"));
            for comment in before.lines().filter_map(|line| line.split_once('#')) {
                assert!(text.contains(comment.1), "{before}: {text}");
            }
            let again = installed(&text).unwrap();
            assert_eq!(again.text, text, "{before}");
            let unix = !before.contains("\r\n");
            assert!(unix || text.matches('\n').count() == text.matches("\r\n").count(), "{text:?}");
            told.push_str(&format!("{before}\n=> kept {kept:?}, left out {left_out:?}\n{text}\n----\n"));
        }
        insta::assert_snapshot!("toml", told.replace('\r', "<CR>"));
    }

    /// The comments above an entry may be about anything, such as a disabled server.
    #[test]
    fn comments_above_an_entry_stay_without_it() {
        for (before, expected) in [
            (
                "model = \"x\"\n\n# [mcp_servers.old]\n# command = \"y\"\n[mcp_servers.gate]\ncommand = \"a\"\n\n[tui]\n",
                "model = \"x\"\n\n# [mcp_servers.old]\n# command = \"y\"\n\n[tui]\n",
            ),
            ("a = 1\r\n# mine\r\n[mcp_servers.gate]\r\ncommand = \"a\"\r\n", "a = 1\r\n# mine\r\n"),
            ("# mine\n[mcp_servers.gate.env]\nA = \"b\"\n", "# mine\n"),
            (
                "[mcp_servers]\n# one\ngate = {command = \"a\"} # it\n# two\nb = {command = \"a\"}\n",
                "[mcp_servers]\n# one\n# two\nb = {command = \"a\"}\n",
            ),
            ("# mine\nmcp_servers.gate.command = \"a\"\nb = 1\n", "# mine\nb = 1\n"),
            (
                "a = 1\n\n[mcp_servers.gate]\n# why\ncommand = \"a\"\n# [mcp_servers.old]\n\n[mcp_servers.gate.env]\nA = \"b\"\n\n# b\n[b]\n",
                "a = 1\n\n# b\n[b]\n",
            ),
        ] {
            let taken = uninstall(before, "mcp_servers", "gate").unwrap().unwrap();
            assert_eq!(taken.text, expected, "{before}");
        }
    }

    #[test]
    fn what_cannot_be_edited_is_left_alone() {
        for (before, expected) in [
            ("token = \"hunter2\"\nx = \"\"\"\n[mcp_servers.gate]\n", "line 4"),
            ("a = hunter2\n", "line 1"),
            ("[mcp_servers]\ngate = 1\n", "`mcp_servers.gate` is no table"),
            ("mcp_servers = 1\n", "`mcp_servers` is no table"),
            ("[[mcp_servers]]\n", "`mcp_servers` is no table"),
            ("[mcp_servers.a]\n[mcp_servers.a]\n", "line 2"),
        ] {
            let error = installed(before).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{before}: {error}");
        }
    }
}
