"""What the tests with other people's programs share: places to work in, doors of the gate, and what its record says."""

import asyncio
import contextlib
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ElicitResult

# Whoever runs the tests says where the programs are.
TOOLGATE = os.environ["TOOLGATE_BINARY"]
FIXTURE = os.environ["TOOLGATE_FIXTURE"]
NPM = pathlib.Path(os.environ["TOOLGATE_FOREIGN_NPM"])
NODE = NPM / "node_modules/node/bin/node"

NEWER = "2026-07-28"
OLDER = "2025-11-25"

# Test cases run their loop in debug mode, which complains about every slow step on a busy machine.
logging.getLogger("asyncio").setLevel(logging.ERROR)

# No call of these tests takes longer unless something hangs.
PATIENCE = 120


class Place:
    """A workspace, the gate's own folder and its configuration, gone after the test."""

    def __init__(self, config="", trust="guided", more=()):
        self._folder = tempfile.TemporaryDirectory(prefix="toolgate-foreign-")
        root = pathlib.Path(self._folder.name)
        self.workspace = root / "workspace"
        self.state = root / "state"
        self.manifests = root / "manifests"
        self.config = root / "toolgate.yaml"
        for folder in (self.workspace, self.state, self.manifests):
            folder.mkdir()
        self.config.write_text(f"tools: [manifests]\n{config}")
        self.trust = trust
        self.more = more

    def close(self):
        # A process that has just ended may still be writing its last words.
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._folder.cleanup()

    def write(self, name, content):
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def read(self, name):
        return (self.workspace / name).read_text()

    def options(self):
        return [
            "--config", str(self.config),
            "--workspace", str(self.workspace),
            "--state-dir", str(self.state),
            "--trust", self.trust,
            *self.more,
        ]  # fmt: skip

    def run(self, *arguments):
        """What a command of the gate prints."""
        command = [TOOLGATE, *arguments, "--config", str(self.config), "--state-dir", str(self.state)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def records(self):
        """The audit record, oldest first."""
        return [Record(json.loads(line)) for line in self.run("audit", "show", "--json").splitlines()]

    def declare(self, name, text):
        """Adds a tool as an operator does, whole from one instant to the next."""
        temporary = self.manifests.parent / f"{name}.part"
        temporary.write_text(text)
        temporary.rename(self.manifests / f"{name}.yaml")

    @property
    def stdio(self):
        return StdioServerParameters(command=TOOLGATE, args=["mcp", *self.options()])


class Record:
    """What the gate wrote down about one call."""

    def __init__(self, record):
        self.tool = record["tool"]["name"]
        self.subject = record["caller"]["sub"]
        self.decision = record["decision"]
        self.stage = record.get("denial", {}).get("stage")


class Served:
    """A gate behind HTTP, on a port of its own."""

    def __init__(self, place, *options):
        command = [TOOLGATE, "serve", "--listen", "127.0.0.1:0", "--json", *options, *place.options()]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        told = self.process.stdout.readline()
        if not told:
            raise AssertionError(f"the gate did not open its door: {self.process.stderr.read()}")
        told = json.loads(told)
        self.url = told["mcp"]
        self.token = pathlib.Path(told["tokenFile"]).read_text().strip() if told["tokenFile"] else None

    def close(self):
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE) if self.process.returncode is None else (None, None)
        return self.process.returncode, errors

    @contextlib.asynccontextmanager
    async def transport(self, token=None):
        headers = {"Authorization": f"Bearer {token or self.token}"}
        async with create_mcp_http_client(headers=headers) as http:
            async with streamable_http_client(self.url, http_client=http) as streams:
                yield streams

    def post(self, message, **headers):
        """A request by hand, and the answer whatever it is."""
        accept = {"Accept": "application/json, text/event-stream"}
        return httpx2.post(self.url, json=message, headers=accept | headers, timeout=PATIENCE)


class Person:
    """Somebody at the client, who answers every question in the same way and remembers it."""

    def __init__(self, action="accept", content=None, until=None):
        self.action = action
        self.content = content
        self.until = until
        self.asked = []

    async def __call__(self, _context, params):
        self.asked.append(params)
        if self.until is not None:
            await self.until.wait()
        content = self.content if self.content is not None else {}
        return ElicitResult(action=self.action, content=content if self.action == "accept" else None)


def text_of(result):
    """Everything that the model reads."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def eventually(what, found, patience=PATIENCE):
    """Waits until something is so; there is no event for what happens in other processes."""
    for _ in range(patience * 20):
        if value := found():
            return value
        await asyncio.sleep(0.05)
    raise AssertionError(f"still not so after {patience} s: {what}")


def processes_with(word):
    """The processes of this machine with this word in their command line."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


class DoorTest(unittest.IsolatedAsyncioTestCase):
    """A test through one door in one era; `through` makes them."""

    door = None
    mode = None
    config = ""
    trust = "guided"
    more = ()
    # What is in the workspace before the gate starts: a server behind it sees the masks of its start.
    files = {}

    def setUp(self):
        self.place = Place(self.config, self.trust, self.more)
        self.addCleanup(self.place.close)
        for name, content in self.files.items():
            self.place.write(name, content)
        self.served = None
        if self.door == "http":
            self.served = Served(self.place)
            self.addCleanup(self.served.close)

    def client(self, person=None, **options):
        options.setdefault("read_timeout_seconds", PATIENCE)
        server = self.served.transport() if self.served else self.place.stdio
        return Client(server, mode=self.mode, elicitation_callback=person, cache=None, **options)

    @property
    def is_newer(self):
        return self.mode == "auto"

    async def settled(self, decision=None):
        """The records, once there is one more than none with this decision."""

        def found():
            records = self.place.records()
            return [record for record in records if decision in (None, record.decision)]

        return await eventually(f"a record that says {decision}", found)


def through(doors=("stdio", "http"), modes=("auto", "legacy")):
    """Makes test cases of a behaviour: through each of these doors, in each of these eras."""

    def make(behaviour):
        module = sys.modules[behaviour.__module__]
        for door in doors:
            for mode in modes:
                name = f"{behaviour.__name__}_{door}_{mode}"
                own = {"door": door, "mode": mode, "__module__": module.__name__}
                setattr(module, name, type(name, (behaviour, DoorTest), own))
        return behaviour

    return make
