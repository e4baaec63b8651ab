//! A table at the end of a TOML file. What is there already is never changed.

use super::Entry;

/// The text with a table `[section.name]` behind everything else. Where that table is there already and says the same,
/// the text stays as it is.
pub(super) fn install(text: &str, section: &str, name: &str, entry: &Entry) -> Result<String, String> {
    let table = table(section, name, entry);
    if text.contains(&table) {
        return Ok(text.to_owned());
    }
    for line in text.lines().map(str::trim) {
        if is_table(line, section, name) {
            return Err(format!("`[{section}.{name}]` is in it already, with something else"));
        }
        let before_dot = line.split(['.', '=']).next().unwrap_or_default().trim();
        if before_dot.trim_matches(['"', '\'']) == section {
            return Err(format!("`{section}` is written on one line in it"));
        }
    }
    let gap = match text.trim_end() {
        "" => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Ok(format!("{text}{gap}{table}"))
}

fn is_table(line: &str, section: &str, name: &str) -> bool {
    let inside = line.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let parts = inside.split('.').map(|part| part.trim().trim_matches(['"', '\'']));
    let wanted = [section, name];
    parts.take(2).eq(wanted)
}

fn table(section: &str, name: &str, entry: &Entry) -> String {
    let arguments: Vec<String> = entry.arguments.iter().map(|argument| quoted(argument)).collect();
    format!("[{section}.{name}]\ncommand = {}\nargs = [{}]\n", quoted(&entry.program), arguments.join(", "))
}

/// A basic string.
fn quoted(text: &str) -> String {
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
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { program: "/bin/toolgate".to_owned(), arguments: vec!["mcp".to_owned(), "a\"\\\n".to_owned()] }
    }

    const TABLE: &str =
        "[mcp_servers.gate]\ncommand = \"/bin/toolgate\"\nargs = [\"mcp\", \"a\\\"\\\\\\U0000000A\"]\n";

    #[test]
    fn a_table_is_added_at_the_end() {
        for (before, gap) in [
            ("", ""),
            ("model = \"x\" # mine\n", "\n"),
            ("model = \"x\"", "\n\n"),
            ("[mcp_servers.other]\ncommand = \"y\"\n", "\n"),
            ("[mcp_servers.gate_two]\n", "\n"),
        ] {
            let after = install(before, "mcp_servers", "gate", &entry()).unwrap();
            assert_eq!(after, format!("{before}{gap}{TABLE}"), "{before}");
            assert_eq!(install(&after, "mcp_servers", "gate", &entry()), Ok(after), "{before}");
        }
    }

    #[test]
    fn what_is_there_is_not_changed() {
        for before in [
            "[mcp_servers.gate]\ncommand = \"other\"\n",
            "[ mcp_servers . \"gate\" ]\n",
            "[mcp_servers.gate.env]\nA = \"b\"\n",
            "mcp_servers = {gate = {command = \"x\"}}\n",
            "mcp_servers.other.command = \"x\"\n",
        ] {
            assert!(install(before, "mcp_servers", "gate", &entry()).is_err(), "{before}");
        }
    }
}
