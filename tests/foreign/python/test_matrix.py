"""Well-known servers as people have them, by `toolgate mcp import FILE --write --yes` alone: each is started, called, and called again without network.

Two of them run in every run; with TOOLGATE_MATRIX=all, all of them (`cargo xtask matrix`).
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
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

    def __init__(self, name, command, tool, arguments, says, env=None, quick=False, warm=None, upstream=None):
        self.name = name
        self.entry = {"command": command[0], "args": command[1:], **({"env": env} if env else {})}
        self.tool, self.arguments, self.quick = tool, arguments, quick
        # The call after the second start: its tool, its arguments, its exit code, and what it says without any network.
        self.warm = warm or (tool, arguments, 0, says)
        # The host of a service, and the server's own words where this machine cannot reach it: then exactly these are the answer.
        self.upstream, self.says = upstream, says
        if upstream and not resolves(upstream[0]):
            self.says = upstream[1]


def resolves(host):
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False


def npx(package, *arguments):
    return ["npx", "-y", package, *arguments]


def rows(home, page):
    notes, repository, database = home / "notes", home / "repository", home / "data" / "shop.db"
    blank = "data:text/html,<title>A%20page</title><h1>Apples</h1>"
    pear = {"entities": [{"name": "pear", "entityType": "fruit", "observations": ["green"]}]}
    library = {"query": "a vector", "libraryName": "rust"}
    # Each server's own words without its service; a token that is none is refused by the service.
    no_context7 = "Error searching libraries: TypeError: fetch failed"
    no_notion = '{"status":"error","data":"toolgate: the name could not be resolved\\n"}'
    return [
        Row("filesystem", npx("@modelcontextprotocol/server-filesystem", str(notes)), "read_text_file",
            {"path": str(notes / "list.txt")}, "apples", quick=True),
        # What it was told before the second start is there after it.
        Row("memory", npx("@modelcontextprotocol/server-memory"), "create_entities", pear, '"name": "pear"',
            warm=("read_graph", {}, 0, '"name": "pear"')),
        Row("everything", npx("@modelcontextprotocol/server-everything"), "echo", {"message": "plums"}, "Echo: plums"),
        Row("thinking", npx("@modelcontextprotocol/server-sequential-thinking"), "sequentialthinking",
            {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}, "thoughtHistoryLength"),
        Row("playwright", npx("@playwright/mcp@latest"), "browser_navigate", {"url": blank}, "Page Title: A page"),
        Row("chrome", npx("chrome-devtools-mcp@latest"), "new_page", {"url": blank}, "data:text/html"),
        Row("context7", npx("@upstash/context7-mcp@latest"), "resolve-library-id", library, "/rust",
            warm=("resolve-library-id", library, 0, no_context7), upstream=("context7.com", no_context7)),
        Row("notion", npx("@notionhq/notion-mcp-server"), "API-get-self", {}, "API token is invalid",
            env={"NOTION_TOKEN": "ntn_0123456789abcdefghij0123456789"},
            warm=("API-get-self", {}, 0, no_notion), upstream=("api.notion.com", no_notion)),
        Row("time", ["uvx", "mcp-server-time", "--local-timezone", "UTC"], "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Vienna"}, "Europe/Vienna", quick=True),
        Row("git", ["uvx", "mcp-server-git", "--repository", str(repository)], "git_log",
            {"repo_path": str(repository), "max_count": 1}, "the first"),
        # Its page is on this machine, which `public` does not cover: that one line is added by hand. As it is, without what its library makes of HTML:
        # where Node is installed, that library has npm download modules into the package at the first page.
        Row("fetch", ["uvx", "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"], "fetch",
            {"url": page, "raw": True}, "Apples", warm=("fetch", {"url": page, "raw": True}, 1, f"Failed to fetch {page}")),
        Row("sqlite", ["uvx", "mcp-server-sqlite", "--db-path", str(database)], "list_tables", {}, "'name': 'apples'"),
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
        with contextlib.closing(sqlite3.connect(cls.home / "data/shop.db")) as shop:
            shop.execute("create table apples (colour text)")
            shop.commit()
        repository = cls.home / "repository"
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(repository)]
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "the first"], check=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        cls.project = cls.root / "project"
        cls.project.mkdir()
        cls.page = page = f"http://127.0.0.1:{server.server_port}/"
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
        self.assertEqual(self.imported.returncode, 0, said)
        self.assertNotEqual(self.without_network(), [], "no network namespace can be made, so no start without network is shown")
        if any(row.name == "fetch" for row in self.rows):
            self.allow_the_page()
        table = [f"import of {len(self.rows)} servers: {self.took:.0f} s, exit code 0"]
        table.append(f"{'server':<12} {'started':<28} {'call: exit code, time':<22} second start without network: exit code, time")
        failed = []
        for row in self.rows:
            with self.subTest(row.name):
                started = re.search(rf"^{row.name} +ready +(.*)$", said, re.MULTILINE)
                first, seconds = self.called(row.name, row.tool, row.arguments)
                tool, arguments, code, says = row.warm
                again, warm = self.called(row.name, tool, arguments, offline=True)
                is_fine = started and (first.returncode, again.returncode) == (0, code)
                is_fine = is_fine and row.says in self.words(first) and says in self.words(again)
                shown = started[1] if started else "FAILED"
                call = f"{first.returncode}, {seconds:.1f} s"
                upstream = f"  ({row.upstream[0]} is not reachable from here)" if row.upstream and row.says == row.upstream[1] else ""
                table.append(f"{row.name:<12} {shown:<28} {call:<22} {again.returncode}, {warm:.1f} s{upstream}{'' if is_fine else '  FAILED'}")
                if not is_fine:
                    failed.append(f"{row.name}:\n{self.words(first)[:2000]}\n--- offline\n{self.words(again)[:2000]}")
        print("\n".join(table), flush=True)
        self.assertEqual(failed, [], "\n".join(failed))

    def allow_the_page(self):
        """`public` does not cover this machine, so the call fails until the person adds its page."""
        refused, _ = self.called("fetch", "fetch", {"url": self.page})
        self.assertEqual(refused.returncode, 1, self.words(refused))
        self.assertIn(f"Failed to fetch {self.page}", self.words(refused))
        place = self.page.removeprefix("http://").rstrip("/")
        config = self.project / "toolgate.yaml"
        before = config.read_text()
        section = before[before.index("  fetch:"):]
        changed = section.replace("network: [public]", f'network: [public, "{place}"]', 1)
        self.assertNotEqual(changed, section)
        config.write_text(before.replace(section, changed))
        agreed = self.toolgate("trust", "--yes")
        self.assertEqual(agreed.returncode, 0, agreed.stdout + agreed.stderr)

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
                interfaces = pathlib.Path(f"/proc/{process}/net/dev").read_text().splitlines()[2:]
                self.assertEqual([line.split(":")[0].strip() for line in interfaces], ["lo"])
                of_person = {path for path in mounts if path.startswith(str(self.home))}
                # What is hidden in a mount is a mount of its own.
                of_person = {path for path in of_person if not any(path.startswith(f"{other}/") for other in of_person)}
                self.assertEqual(of_person, {str(self.home / place) for place in named if named[place] == row.name})
                writable = {path for path, is_writable in mounts.items() if is_writable}
                own = {path for path in writable if not path.startswith(("/dev", "/proc"))}
                expected = {"/toolgate/home", "/tmp"} | ({str(self.home / "data")} if row.name == "sqlite" else set())
                self.assertEqual(own, expected)
                self.assertFalse(mounts["/toolgate/package"])
                reads = ", ".join(sorted({"/toolgate/package"} | of_person - own))
                print(f"{row.name:<12} reads {reads}; writes {', '.join(sorted(own))}; reaches {self.network_of(row.name)}", flush=True)

    @staticmethod
    def say(gate, number, method, params):
        gate.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        if method == "initialize":
            gate.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        gate.stdin.flush()

    def network_of(self, server):
        """The hosts of its entry. The one interface in its network namespace is its own loopback."""
        section = (self.project / "toolgate.yaml").read_text().partition(f"\n  {server}:\n")[2]
        section = re.split(r"\n  \S", section)[0]
        listed = re.search(r"^    network: \[(.*)\]", section, re.MULTILINE)
        return listed[1] if listed else "nothing"

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

    def called(self, server, tool, arguments, offline=False):
        begun = time.monotonic()
        answer = self.toolgate("--trust", "autonomous", "call", f"{server}__{tool}", json.dumps(arguments), offline=offline)
        return answer, time.monotonic() - begun

    @staticmethod
    def words(answer):
        return answer.stdout + answer.stderr
