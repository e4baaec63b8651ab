//! `toolgate trust`: the user looks at a configuration that was found, and agrees to it or not.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::print;
use crate::ambient::{CONFIG_NAME, Surroundings, is_directory, real_path};
use crate::arguments::{Common, TrustArguments};
use crate::exit::{DENIED, DONE, Failed};
use crate::terminal::{PAPER, confirm, reveal_line, spelt_out};
use crate::trust::{
    Agreement, Agreements, Covered, Difference, Group, Origin, QUESTION, Standing, differences, overview,
    usable,
};

pub(crate) fn run(common: &Common, arguments: &TrustArguments) -> Result<u8, Failed> {
    let surroundings = Surroundings::look()?;
    let agreements = Agreements::of(&surroundings)?;
    if arguments.list {
        return list(common, &agreements, &surroundings);
    }
    let file = meant(common, arguments.file.as_deref(), &surroundings)?;
    if arguments.revoke {
        return revoke(common, &agreements, &file);
    }
    let path = reveal_line(&file.display().to_string());
    let (candidate, before) = match Standing::of(&file, &agreements, &surroundings)? {
        Standing::New(candidate) => (candidate, None),
        Standing::Changed(candidate, before) => (candidate, Some(before)),
        Standing::Agreed(covered) => {
            let shown = Shown { covered: &covered, state: "agreed", effects: &[], differences: &[] };
            return shown.tell(common, true, &format!("{path} is agreed to already\n"));
        }
    };
    let covered = candidate.cover(&surroundings)?;
    let effects = usable(&covered, &surroundings)?;
    let changed = before.as_deref().map(|before| differences(&covered, before)).unwrap_or_default();
    let state = if before.is_some() { "changed" } else { "new" };
    let shown = Shown { covered: &covered, state, effects: &effects, differences: &changed };
    let text = |screen| overview(&covered, &effects, before.as_deref(), screen);
    let answer = match arguments.yes {
        true => {
            if !common.json {
                print(&text(PAPER))?;
            }
            Some(true)
        }
        false => confirm(text, QUESTION),
    };
    match answer {
        Some(true) => {
            agreements.keep(&covered)?;
            shown.tell(common, true, &format!("agreed to {}\n", reveal_line(&surroundings.shown(&file))))
        }
        Some(false) => Err(Failed {
            code: DENIED,
            ..Failed::error("nothing was agreed to; the file stays without effect")
        }),
        None => {
            shown.tell(common, false, &overview(&covered, &effects, before.as_deref(), PAPER))?;
            Err(Failed {
                code: DENIED,
                ..Failed::error("there is no terminal to ask on, so nothing was agreed to")
                    .help("read what is shown, then pass --yes")
            })
        }
    }
}

/// The file that is meant: the one that is named, the one in a directory that is named, or the one that would be found.
fn meant(common: &Common, file: Option<&Path>, surroundings: &Surroundings) -> Result<PathBuf, Failed> {
    let named = match file.or(common.config.as_deref()) {
        Some(file) => surroundings.absolute(file)?,
        None => match Origin::choose(common, surroundings)? {
            Origin::Named(file) | Origin::Found(file) => file,
            Origin::Defaults => {
                return Err(Failed::usage("there is no toolgate.yaml here or in a directory above")
                    .help("name the file, or its directory"));
            }
        },
    };
    let file = if is_directory(&named) { named.join(CONFIG_NAME) } else { named };
    if file.file_name().is_none_or(|name| name != CONFIG_NAME) {
        return Err(Failed::usage(format!("`{}` is not called {CONFIG_NAME}", file.display()))
            .help("a file of another name is never found: name it with --config where it is to be used"));
    }
    // The directory by its one real name, as it is when the file is found.
    let directory = file.parent().map(real_path).unwrap_or_default();
    Ok(directory.join(CONFIG_NAME))
}

/// What a person or a program is told about a configuration.
struct Shown<'s> {
    covered: &'s Covered,
    state: &'static str,
    effects: &'s [Group],
    differences: &'s [Difference],
}

impl Shown<'_> {
    fn tell(&self, common: &Common, is_agreed: bool, text: &str) -> Result<u8, Failed> {
        let told = match common.json {
            true => spelt_out(&format!("{}\n", self.json(is_agreed))),
            false => text.to_owned(),
        };
        print(&told).map(|_| DONE)
    }

    fn json(&self, is_agreed: bool) -> Value {
        let files = self.covered.files().iter().map(|(path, _)| path.to_string_lossy());
        let effects: serde_json::Map<String, Value> =
            self.effects.iter().map(|group| (group.key.to_owned(), json!(group.items))).collect();
        let change =
            |change: &Difference| json!({"file": change.path, "state": change.state, "diff": change.diff});
        json!({
            "file": self.covered.file().to_string_lossy(),
            "state": self.state,
            "digest": self.covered.digest().to_string(),
            "files": files.collect::<Vec<_>>(),
            "effects": effects,
            "changes": self.differences.iter().map(change).collect::<Vec<_>>(),
            "agreed": is_agreed,
        })
    }
}

fn list(common: &Common, agreements: &Agreements, surroundings: &Surroundings) -> Result<u8, Failed> {
    let row = |agreement: Agreement| {
        let state = match Standing::of(&agreement.file, agreements, surroundings) {
            Ok(Standing::Agreed(_)) => "agreed",
            Ok(_) => "changed",
            Err(_) => "unreadable",
        };
        (agreement, state)
    };
    let rows: Vec<(Agreement, &str)> = agreements.all()?.into_iter().map(row).collect();
    let text = match common.json {
        true => {
            let row = |(agreement, state): &(Agreement, &str)| {
                json!({
                    "file": agreement.file.to_string_lossy(), "state": state,
                    "agreedAt": agreement.agreed_at, "digest": agreement.digest.to_string(),
                })
            };
            spelt_out(&format!("{}\n", rows.iter().map(row).collect::<Value>()))
        }
        false if rows.is_empty() => "nothing was agreed to\n".to_owned(),
        false => {
            let row = |(agreement, state): &(Agreement, &str)| {
                let day: String = reveal_line(&agreement.agreed_at).chars().take(10).collect();
                let path = reveal_line(&agreement.file.display().to_string());
                format!("{state:<10} {day}  {path}\n")
            };
            rows.iter().map(row).collect()
        }
    };
    print(&text).map(|_| DONE)
}

fn revoke(common: &Common, agreements: &Agreements, file: &Path) -> Result<u8, Failed> {
    let is_revoked = agreements.revoke(file)?;
    let path = file.display().to_string();
    let text = match (common.json, is_revoked) {
        (true, _) => spelt_out(&format!("{}\n", json!({"file": path, "revoked": is_revoked}))),
        (false, true) => format!("{} is not agreed to any more\n", reveal_line(&path)),
        (false, false) => format!("{} was not agreed to\n", reveal_line(&path)),
    };
    print(&text).map(|_| DONE)
}
