//! What is pictured: a workspace, a scripted model, and the keys that a person presses.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::day::{LOOKS, MODEL as DAY, Terminal, furnish, spend};
use crate::pty::Pty;
use crate::registry::Registry;
use crate::svg;
use crate::tmux::Tmux;

const SOURCE: &str = "/// The price in cents.\npub fn cents(euros: u64) -> u64 {\n    euros * 10\n}\n";

const MODEL: &str = "demo.yaml";

const PROMPT: &str = "prices are off by a factor of ten, please fix that";

/// The same conversation, whatever the client calls the tools.
fn script(prefix: &str) -> String {
    format!(
        r#"
model: {{max_output_tokens: 64000}}
steps:
  - when: {{offered: {prefix}edit_file}}
    say: |
      `cents` multiplies by **10**, but a euro has 100 cents.
    calls: [{{tool: {prefix}edit_file, arguments: {{path: src/price.rs, old_text: "euros * 10", new_text: "euros * 100"}}}}]
  - say: Fixed.
    repeat: true
"#
    )
}

/// A home with a workspace in it, below the system's directory for temporary files.
pub(crate) struct Stage {
    toolgate: PathBuf,
    place: tempfile::TempDir,
}

/// A child process that ends with its owner.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    pub(crate) fn new(toolgate: PathBuf) -> Self {
        let place = tempfile::Builder::new().prefix("shop").tempdir().unwrap();
        let stage = Self { toolgate, place };
        std::fs::create_dir_all(stage.path("shop/src")).unwrap();
        std::fs::write(stage.path("shop/src/price.rs"), SOURCE).unwrap();
        stage
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.place.path().join(relative)
    }

    /// Named like a model, because that is where its name is shown.
    fn write_script(&self, prefix: &str) {
        std::fs::write(self.path("shop").join(MODEL), script(prefix)).unwrap();
    }

    /// A program in the workspace, with a home of its own.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("shop")).env("HOME", self.place.path());
        for name in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TOOLGATE_TOKEN", "RUST_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// The approval card of `toolgate chat`.
    pub(crate) fn chat(&self) -> String {
        self.write_script("");
        let mut chat = self.command(&self.toolgate);
        chat.args(["--no-config", "chat", "--model"]).arg(format!("scripted/{MODEL}"));
        let mut terminal = Pty::start(&chat, 30, 92);
        terminal.wait_for("❯");
        terminal.press(&format!("{PROMPT}\r"));
        terminal.wait_for("euros * 100");
        terminal.settle();
        let picture = svg::window(terminal.screen(), MODEL, "toolgate chat");
        terminal.press("\x03");
        picture
    }

    /// Screens of a whole day in tmux, each on a terminal of another look. The day is spent whole in each of them.
    pub(crate) fn day(&self) -> Vec<(&'static str, String)> {
        const PICTURES: [(&str, &str, &str, &str); 8] = [
            ("80x24", "edit", "day-task", "80×24: a failing test, and the edit that would mend it"),
            (
                "120x40",
                "registry",
                "day-registry",
                "120×40: the registry that a command was refused, for this call or the session",
            ),
            (
                "80x24",
                "grants",
                "day-grants",
                "80×24: a grant that let a second command through, and how it is revoked",
            ),
            ("80x24", "revoked", "day-revoked", "80×24: the grant is revoked"),
            ("120x40", "resumed", "day-resumed", "120×40: the conversation goes on another time"),
            ("narrow", "edit", "day-narrow", "40 columns"),
            (
                "without-colour",
                "stopped",
                "day-without-colour",
                "NO_COLOR: the registry answered, and a turn that Ctrl-C stopped",
            ),
            ("plain", "grant", "day-plain", "--plain, for screen readers"),
        ];
        let mut drawn = Vec::new();
        for look in LOOKS {
            let place = tempfile::Builder::new().prefix("shop").tempdir().unwrap();
            let shop = place.path().join("shop");
            furnish(&shop, &shop);
            let registry = Registry::beside(place.path());
            let chat = || {
                let mut chat = registry.command(&self.toolgate);
                chat.current_dir(&shop).env("HOME", place.path());
                for name in
                    ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TOOLGATE_TOKEN", "RUST_LOG"]
                {
                    chat.env_remove(name);
                }
                chat.args(["--no-config", "chat"]);
                chat
            };
            let open = |command: &Command, rows, columns| -> Box<dyn Terminal> {
                Box::new(Tmux::start(command, rows, columns))
            };
            spend(&chat, &open, look, &mut |screen, terminal| {
                for (_, _, name, title) in
                    PICTURES.iter().filter(|(at, when, ..)| (*at, *when) == (look.name, screen))
                {
                    drawn.push((*name, svg::window(&terminal.screen(), "", title)));
                }
            });
        }
        assert_eq!((drawn.len(), DAY), (PICTURES.len(), "day.yaml"));
        drawn
    }

    /// The same question in Claude Code, which starts `toolgate mcp` as one of its servers.
    pub(crate) fn claude_code(&self, claude: &Path) -> String {
        self.write_script("mcp__toolgate__");
        let mut models = self.command(&self.toolgate);
        models.arg("scripted").arg(MODEL).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut models = Server(models.spawn().unwrap());
        let first = BufReader::new(models.0.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let url = first.split_whitespace().last().unwrap().to_owned();
        let entry = serde_json::json!({"mcpServers": {"toolgate": {"command": self.toolgate, "args": ["--no-config", "mcp"]}}});
        std::fs::write(self.path("shop/.mcp.json"), entry.to_string()).unwrap();
        let settings = serde_json::json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["scripted"], "rejected": []},
            "projects": {self.path("shop").to_str().unwrap(): {"hasTrustDialogAccepted": true, "enabledMcpjsonServers": ["toolgate"]}},
        });
        std::fs::write(self.path(".claude.json"), settings.to_string()).unwrap();
        let mut client = self.command(claude);
        client.args(["--allowedTools", "mcp__toolgate__edit_file"]);
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", url.as_str()),
            ("ANTHROPIC_API_KEY", "scripted"),
            ("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
        ] {
            client.env(name, value);
        }
        let mut terminal = Pty::start(&client, 46, 92);
        terminal.wait_for("❯");
        terminal.settle();
        terminal.press(PROMPT);
        terminal.wait_for(PROMPT);
        terminal.press("\r");
        terminal.wait_for("requests your input");
        terminal.settle();
        svg::window(terminal.screen(), PROMPT, "the same question in Claude Code, asked by toolgate mcp")
    }
}
