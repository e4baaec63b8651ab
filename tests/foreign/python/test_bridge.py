"""Other people's servers behind the gate, confined, and reached by the official client through it."""

import json
import os
import sys
import sysconfig

from support import NPM, Person, eventually, processes_with, text_of, through

# What the servers need to see of this machine: their interpreters and their own code, to read.
FILES = NPM / "node_modules"
PYTHON = os.path.abspath(sys.executable)
PREFIXES = sorted({sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"]})

CONFIG = f"""
mcp_servers:
  files:
    command: {FILES}/node/bin/node
    args: [{FILES}/@modelcontextprotocol/server-filesystem/dist/index.js, "."]
    cwd: "@project"
    mounts: ["@project:rw"]
    read: [{FILES}]
    startup_timeout: 2m
    timeout: 2m
    tools:
      read_text_file: {{class: read}}
      list_directory: {{class: read}}
      write_file: {{class: write}}
      "move_*": {{allowed: false}}
  clock:
    command: {PYTHON}
    args: ["-m", "mcp_server_time", "--local-timezone", "UTC"]
    read: {json.dumps(PREFIXES)}
    startup_timeout: 2m
    timeout: 2m
    class: read
"""


@through()
class Bridged:
    config = CONFIG
    files = {"a.txt": "alpha\n", ".env": "SECRET=4711\n"}

    async def test_their_tools_are_listed_beside_ours_as_the_operator_classed_them(self):
        async with self.client() as client:
            # A call waits for its own server, a list for none.
            await client.call_tool("files__list_allowed_directories", {})
            await client.call_tool("clock__get_current_time", {"timezone": "UTC"})
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        self.assertIn("read_file", tools)
        self.assertTrue(tools["files__read_text_file"].annotations.read_only_hint)
        self.assertFalse(tools["files__write_file"].annotations.read_only_hint)
        # What the operator said nothing about is taken for the worst.
        self.assertTrue(tools["files__edit_file"].annotations.destructive_hint)
        self.assertTrue(tools["clock__get_current_time"].annotations.read_only_hint)
        self.assertNotIn("files__move_file", tools)

    async def test_the_npm_server_reads_and_writes_what_it_was_given_and_nothing_else(self):
        outside = self.place.workspace.parent / "outside.txt"
        outside.write_text("4711\n")
        person = Person("accept")
        async with self.client(person) as client:
            result = await client.call_tool("files__read_text_file", {"path": "a.txt"})
            self.assertEqual(text_of(result).strip(), "alpha")
            self.assertEqual(person.asked, [])
            for path in (".env", "../outside.txt", str(outside), str(self.place.config), "/etc/shadow"):
                with self.subTest(path=path):
                    result = await client.call_tool("files__read_text_file", {"path": path})
                    self.assertNotIn("4711", result.model_dump_json())
                    self.assertNotIn("mcp_servers", text_of(result))
            written = await client.call_tool("files__write_file", {"path": "b.txt", "content": "beta"})
            self.assertFalse(written.is_error, text_of(written))
            self.assertEqual(len(person.asked), 1)
        self.assertEqual(self.place.read("b.txt"), "beta")

    async def test_the_python_server_answers_too(self):
        async with self.client() as client:
            result = await client.call_tool("clock__get_current_time", {"timezone": "Europe/Vienna"})
        self.assertFalse(result.is_error, text_of(result))
        self.assertIn("Europe/Vienna", text_of(result))
        [record] = self.place.records()
        self.assertEqual((record.tool, record.decision), ("clock__get_current_time", "ALLOWED"))

    async def test_their_calls_are_asked_about_refused_and_recorded_like_ours(self):
        async with self.client(Person("decline")) as client:
            refused = await client.call_tool("files__write_file", {"path": "b.txt", "content": "beta"})
            self.assertTrue(refused.is_error)
            unknown = await client.call_tool("files__move_file", {"source": "a", "destination": "b"})
            self.assertTrue(unknown.is_error)
            invalid = await client.call_tool("files__read_text_file", {"path": 7})
            self.assertTrue(invalid.is_error)
        self.assertFalse((self.place.workspace / "b.txt").exists())
        self.assertEqual([record.decision for record in self.place.records()], ["DENIED"] * 3)

    async def test_nothing_of_them_is_left_when_the_gate_ends(self):
        mark = "server-filesystem/dist/index.js\0."
        before = set(processes_with(mark))
        async with self.client() as client:
            await client.call_tool("files__list_directory", {"path": "."})
            self.assertTrue(set(processes_with(mark)) - before)
        if self.served:
            code, errors = self.served.close()
            self.assertEqual(code, 0, errors)
        await eventually("their processes are gone", lambda: not set(processes_with(mark)) - before)
