"""Well-known servers as people have them, by `toolgate mcp import FILE --write --yes` alone: each is started, called, and called again without network.

Two of them run in every run; with TOOLGATE_MATRIX=all, all of them (`cargo xtask matrix`).
"""

import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from support import NPM, PATIENCE, TOOLGATE

# `all`, or names with commas between them.
WANTED = os.environ.get("TOOLGATE_MATRIX", "").split(",")

# How long a package manager may take.
INSTALLING = 900


class Row:
    """A server as its page says to write it, and one call with what its answer says."""

    def __init__(self, name, command, tool, arguments, says, env=None, quick=False, warm=None):
        self.name = name
        self.entry = {"command": command[0], "args": command[1:], **({"env": env} if env else {})}
        self.tool, self.arguments, self.says, self.quick = tool, arguments, says, quick
        # What the same call says without any network.
        self.warm = warm or says


def npx(package, *arguments):
    return ["npx", "-y", package, *arguments]


def rows(home, page):
    notes, repository, database = home / "notes", home / "repository", home / "data" / "shop.db"
    blank = "data:text/html,<title>A%20page</title><h1>Apples</h1>"
    return [
        Row("filesystem", npx("@modelcontextprotocol/server-filesystem", str(notes)), "read_text_file",
            {"path": str(notes / "list.txt")}, "apples", quick=True),
        Row("memory", npx("@modelcontextprotocol/server-memory"), "create_entities",
            {"entities": [{"name": "pear", "entityType": "fruit", "observations": ["green"]}]}, "pear|[]"),
        Row("everything", npx("@modelcontextprotocol/server-everything"), "echo", {"message": "plums"}, "plums"),
        Row("thinking", npx("@modelcontextprotocol/server-sequential-thinking"), "sequentialthinking",
            {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}, "thoughtHistoryLength"),
        Row("playwright", npx("@playwright/mcp@latest"), "browser_navigate", {"url": blank}, "A page"),
        Row("chrome", npx("chrome-devtools-mcp@latest"), "new_page", {"url": blank}, "Apples|data:text/html"),
        # Both answer that their service is not reachable from here: the call arrives.
        Row("context7", npx("@upstash/context7-mcp@latest"), "resolve-library-id",
            {"query": "a vector", "libraryName": "rust"}, "rror|etch"),
        Row("notion", npx("@notionhq/notion-mcp-server"), "API-get-self", {}, "rror|ENOTFOUND|403|401",
            env={"NOTION_TOKEN": "ntn_0123456789abcdefghij0123456789"}),
        Row("time", ["uvx", "mcp-server-time", "--local-timezone", "UTC"], "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Vienna"}, "Vienna", quick=True),
        Row("git", ["uvx", "mcp-server-git", "--repository", str(repository)], "git_log",
            {"repo_path": str(repository), "max_count": 1}, "the first"),
        Row("fetch", ["uvx", "mcp-server-fetch", "--ignore-robots-txt"], "fetch", {"url": page}, "rror|ailed"),
        Row("sqlite", ["uvx", "mcp-server-sqlite", "--db-path", str(database)], "list_tables", {}, "apples|\\[\\]|table"),
    ]  # fmt: skip


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<h1>Apples</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Matrix(unittest.TestCase):
    """A new user: an empty home, no state, no configuration, and a client's file."""

    @classmethod
    def setUpClass(cls):
        # Below `/tmp` a directory could not be shown to a server.
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="matrix-", dir=NPM.parent))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.home = cls.root / "home"
        (cls.home / "notes").mkdir(parents=True)
        (cls.home / "data").mkdir()
        (cls.home / "notes/list.txt").write_text("apples\n")
        repository = cls.home / "repository"
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(repository)]
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "the first"], check=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        cls.project = cls.root / "project"
        cls.project.mkdir()
        page = f"http://127.0.0.1:{server.server_port}/"
        cls.rows = [row for row in rows(cls.home, page) if "all" in WANTED or row.name in WANTED or (row.quick and WANTED == [""])]
        file = cls.root / "claude_desktop_config.json"
        file.write_text(json.dumps({"mcpServers": {row.name: row.entry for row in cls.rows}}, indent=2))
        begun = time.monotonic()
        cls.imported = cls.toolgate("mcp", "import", str(file), "--write", "--yes", timeout=INSTALLING)
        cls.took = time.monotonic() - begun

    @classmethod
    def environment(cls):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TOOLGATE_"))}
        # The token stands in for the one of the client's file, which is not copied.
        return kept | {"HOME": str(cls.home), "NOTION_TOKEN": "ntn_0123456789abcdefghij0123456789"}

    @classmethod
    def toolgate(cls, *arguments, offline=False, timeout=PATIENCE):
        environment = cls.environment()
        command = [TOOLGATE, *arguments]
        if offline:
            command = [*cls.without_network(), *command]
            # Where no network namespace can be made, no registry is configured that answers.
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                nothing = f"http://127.0.0.1:{unused.getsockname()[1]}/"
            environment |= {"npm_config_registry": nothing, "PIP_INDEX_URL": nothing, "UV_DEFAULT_INDEX": nothing}
        return subprocess.run(command, cwd=cls.project, env=environment, capture_output=True, text=True, timeout=timeout)

    @staticmethod
    def without_network():
        for command in (["unshare", "-n"], ["unshare", "-rn"]):
            if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
                return command
        return []

    def test_each_is_started_and_called_and_starts_again_without_network(self):
        said = self.imported.stdout + self.imported.stderr
        table = [f"import of {len(self.rows)} servers: {self.took:.0f} s, exit code {self.imported.returncode}"]
        failed = []
        for row in self.rows:
            with self.subTest(row.name):
                first, seconds = self.called(row)
                again, warm = self.called(row, offline=True)
                is_fine = self.says(first, row.says) and self.says(again, row.warm)
                table.append(f"{row.name:<12} {'runs' if is_fine else 'FAILED'}  call {seconds:.1f} s, warm and offline {warm:.1f} s")
                if not is_fine:
                    failed.append(f"{row.name}:\n{first[:2000]}\n--- offline\n{again[:2000]}")
        print("\n".join(table), flush=True)
        self.assertEqual(failed, [], said + "\n".join(failed))
        self.assertEqual(self.imported.returncode, 0, said)

    def test_none_sees_or_changes_more_than_its_entry_names(self):
        gate = subprocess.Popen(
            [TOOLGATE, "--trust", "autonomous", "mcp"], cwd=self.project, env=self.environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(gate.wait)
        self.addCleanup(gate.stdout.close)
        self.addCleanup(gate.stdin.close)
        about = {"name": "matrix", "version": "1"}
        self.say(gate, 1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about})
        for number, row in enumerate(self.rows):
            self.say(gate, number + 2, "tools/call", {"name": f"{row.name}__{row.tool}", "arguments": row.arguments})
        answered = set()
        while len(answered) <= len(self.rows):
            answered.add(json.loads(gate.stdout.readline()).get("id"))
            answered.discard(None)
        own_network = os.readlink("/proc/self/ns/net")
        named = {"notes": "filesystem", "repository": "git", "data": "sqlite"}
        for row in self.rows:
            with self.subTest(row.name):
                process, mounts = self.mounts_of(row.name)
                self.assertNotEqual(os.readlink(f"/proc/{process}/ns/net"), own_network)
                of_person = {path for path in mounts if path.startswith(str(self.home))}
                # What is hidden in a mount is a mount of its own.
                of_person = {path for path in of_person if not any(path.startswith(f"{other}/") for other in of_person)}
                self.assertEqual(of_person, {str(self.home / place) for place in named if named[place] == row.name})
                writable = {path for path, is_writable in mounts.items() if is_writable}
                own = {path for path in writable if not path.startswith(("/dev", "/proc"))}
                expected = {"/toolgate/home", "/tmp"} | ({str(self.home / "data")} if row.name == "sqlite" else set())
                self.assertEqual(own, expected)
                self.assertFalse(mounts["/toolgate/package"])
                print(f"{row.name:<12} reads {', '.join(sorted({'/toolgate/package'} | of_person - own))}; writes {', '.join(sorted(own))}", flush=True)

    @staticmethod
    def say(gate, number, method, params):
        gate.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        if method == "initialize":
            gate.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        gate.stdin.flush()

    def mounts_of(self, server):
        """A process of a server, and its mounts: where, and whether it may write there."""
        mark = f"/packages.toolgate/{server}-"
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                lines = (folder / "mountinfo").read_text().splitlines()
            except OSError:
                continue
            mounts = [line.split() for line in lines]
            if any(mark in mount[3] and str(self.root) in mount[3] and mount[4] == "/toolgate/package" for mount in mounts):
                return folder.name, {mount[4]: "rw" in mount[5].split(",") for mount in mounts}
        raise AssertionError(f"no process of {server} is there")

    def called(self, row, offline=False):
        begun = time.monotonic()
        answer = self.toolgate(
            "--trust", "autonomous", "call", f"{row.name}__{row.tool}", json.dumps(row.arguments), offline=offline
        )
        return answer.stdout + answer.stderr, time.monotonic() - begun

    @staticmethod
    def says(text, words):
        return any(word.replace("\\", "") in text for word in words.split("|"))
