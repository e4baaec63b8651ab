"""A real Claude Code with five servers: `toolgate mcp wrap` puts them behind the gate, a scripted model uses two of them there, and `unwrap` puts the
file back."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import NPM, PATIENCE, TOOLGATE

CLAUDE = os.environ.get("TOOLGATE_CLAUDE", "")

# As a person has it: with an indentation of their own, and settings that are none of the gate's business.
FILE = """{
\t"hasCompletedOnboarding": true,
\t"theme": "dark",
\t"mcpServers": {
\t\t"filesystem": {"type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "NOTES"]},
\t\t"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {}},
\t\t"everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]},
\t\t"thinking": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-sequential-thinking"]},
\t\t"time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone", "UTC"]}
\t},
\t"customApiKeyResponses": {"approved": ["scripted"], "rejected": []}
}

"""

SCRIPT = """
model: {max_output_tokens: 200000, context_window: 1000000}
memory: prompt
steps:
  - calls:
      - tool: mcp__toolgate__filesystem__read_text_file
        arguments: {path: NOTES/list.txt}
  - when: {result: mcp__toolgate__filesystem__read_text_file, contains: apples}
    calls:
      - tool: mcp__toolgate__time__convert_time
        arguments: {source_timezone: UTC, time: "12:00", target_timezone: Europe/Vienna}
  - when: {result: mcp__toolgate__time__convert_time, contains: Vienna}
    say: both answered
  - say: something else came back, {{last_result}}
    repeat: true
"""


@unittest.skipUnless(CLAUDE, "TOOLGATE_CLAUDE names no client")
class Wrapped(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="wrap-", dir=NPM.parent))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.home, self.project = self.root / "home", self.root / "project"
        (self.home / "notes").mkdir(parents=True)
        self.project.mkdir()
        (self.home / "notes/list.txt").write_text("apples\n")
        self.file = self.home / ".claude.json"
        self.before = FILE.replace("NOTES", str(self.home / "notes"))
        self.file.write_text(self.before)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TOOLGATE_"))}
        self.environment = kept | {"HOME": str(self.home)}

    def toolgate(self, *arguments):
        return subprocess.run(
            [TOOLGATE, *arguments], cwd=self.project, env=self.environment, capture_output=True, text=True, timeout=900
        )

    def claude(self):
        """What the client says after its model used two servers through the gate."""
        script = self.root / "script.yaml"
        script.write_text(SCRIPT.replace("NOTES", str(self.home / "notes")))
        models = subprocess.Popen(
            [TOOLGATE, "scripted", str(script)], env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(models.wait)
        self.addCleanup(models.terminate)
        url = models.stdout.readline().split()[-1]
        environment = self.environment | {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # A tool search of its own would need a model that knows it.
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_TIMEOUT": "120000",
        }
        command = [CLAUDE, "-p", "What is on the list, and when?", "--allowedTools", "mcp__toolgate"]
        return subprocess.run(
            command, cwd=self.project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=2 * PATIENCE,
        )  # fmt: skip

    def test_five_servers_go_behind_the_gate_two_are_used_and_the_file_comes_back(self):
        wrapped = self.toolgate("--trust", "autonomous", "mcp", "wrap", "--client", "claude-code", "--yes")
        self.assertEqual(wrapped.returncode, 0, wrapped.stdout + wrapped.stderr)
        servers = json.loads(self.file.read_text())["mcpServers"]
        self.assertEqual(list(servers), ["toolgate"])
        # Used by a client that leaves the file alone: byte for byte.
        self.use(servers["toolgate"])
        unwrapped = self.toolgate("mcp", "unwrap", "--client", "claude-code", "--yes")
        self.assertEqual(unwrapped.returncode, 0, unwrapped.stderr)
        self.assertEqual(self.file.read_text(), self.before)

        again = self.toolgate("--trust", "autonomous", "mcp", "wrap", "--client", "claude-code", "--yes")
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        said = self.claude()
        self.assertIn("both answered", said.stdout, said.stdout + said.stderr)
        records = self.toolgate("audit", "show", "--json").stdout.splitlines()
        called = [(record["tool"]["name"], record["decision"]) for record in map(json.loads, records)]
        # The client lists resources of the gate as well.
        called = [call for call in called if "__" in call[0]]
        read, converted = ("filesystem__read_text_file", "ALLOWED"), ("time__convert_time", "ALLOWED")
        self.assertEqual(called, [read, read, converted])
        # The client keeps its own notes in the file: they stay, and the servers are back.
        written = self.file.read_text()
        changed = json.loads(written)
        unwrapped = self.toolgate("mcp", "unwrap", "--client", "claude-code", "--yes")
        self.assertEqual(unwrapped.returncode, 0, unwrapped.stderr)
        after = json.loads(self.file.read_text())
        self.assertEqual(after["mcpServers"], json.loads(self.before)["mcpServers"])
        self.assertEqual({**after, "mcpServers": 0}, {**changed, "mcpServers": 0})
        self.assertEqual(self.around_servers(self.file.read_text()), self.around_servers(written))
        # Used by nobody: byte for byte.
        self.file.write_text(self.before)
        for command in ("wrap", "unwrap"):
            done = self.toolgate("--trust", "autonomous", "mcp", command, "--client", "claude-code", "--yes")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.file.read_text(), self.before)
        print("wrap of five servers, two calls through the gate, unwrap: the file is as it was", flush=True)

    def use(self, entry):
        """A call through the entry that the client has, which ends with its input."""
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wrap", "version": "1"}}
        call = {"name": "filesystem__read_text_file", "arguments": {"path": str(self.home / "notes/list.txt")}}
        messages = [
            {"id": 1, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ]
        lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        with subprocess.Popen(
            [entry["command"], *entry["args"]], cwd=self.project, env=self.environment | entry.get("env", {}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as gate:  # fmt: skip
            gate.stdin.write(lines)
            gate.stdin.flush()
            answer = next(line for line in gate.stdout if json.loads(line).get("id") == 2)
            gate.stdin.close()
        self.assertIn("apples", answer)

    @staticmethod
    def around_servers(text):
        """The file without the value of `mcpServers`, byte for byte."""
        before, _, rest = text.partition('"mcpServers":')
        value = rest.lstrip()
        _, end = json.JSONDecoder().raw_decode(value)
        return before, value[end:]
