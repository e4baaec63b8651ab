"""The official client uses the gate's tools: what it lists, what it calls, and what it is told meanwhile."""

import asyncio
import json

import anyio
import jsonschema
from mcp import types
from mcp.shared.exceptions import MCPError

from support import NEWER, OLDER, PATIENCE, eventually, processes_with, text_of, through

DECLARED = """
tool: {name}
description: Says what it was told
class: read
permissions: []
input:
  properties: {{words: {{type: string, maxLength: 40, pattern: "^[a-z ]*$"}}}}
  required: [words]
command: [echo, "{{words}}"]
output: {{parse: text, schema: {{type: string}}}}
policy: {{"*": allow}}
"""


@through()
class Listing:
    async def test_both_eras_are_spoken_and_the_gate_says_who_it_is(self):
        async with self.client() as client:
            self.assertEqual(client.protocol_version, NEWER if self.is_newer else OLDER)
            self.assertEqual(client.server_info.name, "toolgate")
            self.assertTrue(client.server_capabilities.tools.list_changed)
            self.assertIsNone(client.server_capabilities.prompts)
            self.assertTrue(client.instructions)

    async def test_tools_are_described_and_always_in_the_same_order(self):
        async with self.client() as client:
            first, second = (await client.list_tools()).tools, (await client.list_tools()).tools
        self.assertEqual([tool.name for tool in first], [tool.name for tool in second])
        tools = {tool.name: tool for tool in first}
        for name in ("read_file", "list_directory", "search_files", "write_file", "edit_file", "run_command"):
            self.assertIn(name, tools)
        for tool in first:
            self.assertTrue(tool.title and tool.description, tool.name)
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            if tool.output_schema is not None:
                jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        self.assertTrue(tools["read_file"].annotations.read_only_hint)
        self.assertFalse(tools["write_file"].annotations.read_only_hint)
        self.assertTrue(tools["delete_file"].annotations.destructive_hint)

    async def test_prompts_are_left_out(self):
        async with self.client() as client:
            with self.assertRaises(MCPError) as raised:
                await client.list_prompts()
        self.assertEqual(raised.exception.code, types.METHOD_NOT_FOUND)


@through()
class Permitted:
    config = """
agents:
  drafter:
    tool_permissions:
      read_file: {allowed: true}
      write_file: {allowed: true, paths: ["drafts/**"]}
      delete_file: {allowed: false}
"""
    trust = "autonomous"
    more = ("--agent", "drafter")

    async def test_an_agent_sees_and_calls_only_what_it_may(self):
        self.place.write("plan.txt", "the plan\n")
        async with self.client() as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            self.assertEqual(sorted(tools), ["read_file", "write_file"])
            allowed = await client.call_tool("write_file", {"path": "drafts/a.txt", "content": "a draft\n"})
            self.assertFalse(allowed.is_error, text_of(allowed))
            for name, arguments in (
                ("write_file", {"path": "plan.txt", "content": "another plan\n"}),
                ("delete_file", {"path": "plan.txt"}),
                ("run_command", {"command": "rm plan.txt"}),
                ("list_directory", {}),
            ):
                with self.subTest(tool=name):
                    self.assertTrue((await client.call_tool(name, arguments)).is_error)
        self.assertEqual(self.place.read("plan.txt"), "the plan\n")
        self.assertEqual([record.decision for record in self.place.records()], ["ALLOWED"] + ["DENIED"] * 4)


@through()
class Calling:
    trust = "autonomous"

    async def test_every_kind_of_tool_does_what_it_says_and_answers_as_its_schema_says(self):
        self.place.write("a.txt", "one\ntwo\n")
        patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+first\n two\n"
        rows = [
            ("read_file", {"path": "a.txt"}, "two"),
            ("list_directory", {}, "a.txt"),
            ("search_files", {"pattern": "two"}, "a.txt"),
            ("find_files", {"glob": "*.txt"}, "a.txt"),
            ("apply_patch", {"patch": patch}, "a.txt"),
            ("write_file", {"path": "b.txt", "content": "new\n"}, "b.txt"),
            ("append_file", {"path": "b.txt", "content": "more\n"}, "b.txt"),
            ("edit_file", {"path": "b.txt", "old_text": "new", "new_text": "newer"}, "b.txt"),
            ("move_file", {"from": "b.txt", "to": "c.txt"}, "c.txt"),
            ("run_command", {"command": "cat a.txt c.txt"}, "first\ntwo\nnewer\nmore"),
            ("delete_file", {"path": "c.txt"}, "c.txt"),
        ]
        async with self.client() as client:
            schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            for name, arguments, expected in rows:
                with self.subTest(tool=name):
                    result = await client.call_tool(name, arguments)
                    self.assertFalse(result.is_error, text_of(result))
                    self.assertIn(expected, text_of(result))
                    if schemas[name] is not None:
                        jsonschema.validate(result.structured_content, schemas[name])
        self.assertEqual(self.place.read("a.txt"), "first\ntwo\n")
        self.assertFalse((self.place.workspace / "c.txt").exists())
        called = [(record.tool, record.decision) for record in self.place.records()]
        self.assertEqual(called, [(name, "ALLOWED") for name, _, _ in rows])

    async def test_refusals_and_failures_are_answers_that_a_model_can_act_on(self):
        self.place.write(".env", "SECRET=4711\n")
        rows = [
            ("read_file", {"path": ".env"}),
            ("read_file", {"path": "../outside"}),
            ("read_file", {"path": "missing.txt"}),
            ("read_file", {"pfad": "a.txt"}),
            ("no_such_tool", {}),
        ]
        async with self.client() as client:
            for name, arguments in rows:
                with self.subTest(tool=name, arguments=arguments):
                    result = await client.call_tool(name, arguments)
                    self.assertTrue(result.is_error)
                    self.assertTrue(text_of(result))
                    self.assertNotIn("4711", result.model_dump_json())
                    self.assertNotIn(str(self.place.workspace), result.model_dump_json())
        self.assertEqual(len(self.place.records()), len(rows))

    async def test_output_is_told_while_a_command_runs(self):
        told = []

        # It says the next word once the one before was heard.
        async def progress(value, _total, message):
            told.append((value, message))
            for word in ("red", "green"):
                if word in (message or ""):
                    self.place.write(f"{word}.heard", "")

        command = "for word in red green; do echo $word; until [ -e $word.heard ]; do sleep 0.1; done; done"
        async with self.client() as client:
            result = await client.call_tool("run_command", {"command": command}, progress_callback=progress)
        self.assertFalse(result.is_error, text_of(result))
        self.assertGreaterEqual(len(told), 2)
        self.assertEqual([value for value, _ in told], sorted({value for value, _ in told}))
        heard = "".join(message or "" for _, message in told)
        self.assertIn("red", heard)
        self.assertIn("green", heard)

    async def test_cancelling_a_call_leaves_no_process_and_one_record(self):
        # Nobody else on this machine sleeps for just as long.
        mark = f"8{abs(hash((self.door, self.mode, self.place.state))) % 10**8:08d}.25"
        command = f"sleep {mark} & setsid sleep {mark} & echo begun; sleep {mark}"
        begun = anyio.Event()

        async def progress(_value, _total, message):
            if "begun" in (message or ""):
                begun.set()

        async def call(client):
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await client.call_tool("run_command", {"command": command}, progress_callback=progress)

        scopes = []
        async with self.client() as client:
            async with anyio.create_task_group() as group:
                group.start_soon(call, client)
                with anyio.fail_after(PATIENCE):
                    await begun.wait()
                await eventually("all three sleep", lambda: len(processes_with(f"sleep\0{mark}")) == 3)
                scopes[0].cancel()
            await eventually("no process is left", lambda: not processes_with(f"sleep\0{mark}"))
            # The connection goes on as if nothing had been.
            self.assertFalse((await client.call_tool("list_directory", {})).is_error)
        records = await self.settled("ERROR")
        self.assertEqual([record.tool for record in records], ["run_command"])

    async def test_many_calls_at_once_are_each_answered(self):
        for number in range(40):
            self.place.write(f"{number}.txt", f"content {number}\n")
        async with self.client() as client:
            calls = [client.call_tool("read_file", {"path": f"{number}.txt"}) for number in range(40)]
            results = await asyncio.gather(*calls)
        for number, result in enumerate(results):
            self.assertIn(f"content {number}\n", text_of(result) + "\n")
        self.assertEqual(len(self.place.records()), 40)


@through()
class Resources:
    trust = "autonomous"

    async def test_files_are_resources_under_the_same_rules(self):
        self.place.write("docs/guide.md", "# Guide\n")
        self.place.write(".env", "SECRET=4711\n")
        async with self.client() as client:
            templates = (await client.list_resource_templates()).resource_templates
            self.assertTrue(templates)
            resources = {str(resource.uri): resource for resource in (await client.list_resources()).resources}
            [guide] = [uri for uri in resources if uri.endswith("docs/guide.md")]
            self.assertFalse([uri for uri in resources if uri.endswith(".env")])
            [content] = (await client.read_resource(guide)).contents
            self.assertEqual(content.text, "# Guide\n")
            for uri in (guide.replace("docs/guide.md", ".env"), guide.replace("docs/guide.md", "missing.md"), "file:///etc/passwd"):
                with self.subTest(uri=uri), self.assertRaises(MCPError):
                    await client.read_resource(uri)

    async def test_what_is_too_long_for_an_answer_can_be_read_as_a_resource(self):
        async with self.client() as client:
            result = await client.call_tool("run_command", {"command": "seq 1 100000"})
            self.assertFalse(result.is_error)
            self.assertNotIn("\n50000\n", text_of(result))
            [link] = [block for block in result.content if block.type == "resource_link"]
            [content] = (await client.read_resource(str(link.uri))).contents
            self.assertIn("\n50000\n", content.text)
            other = str(link.uri)[:-4] + "zzzz"
            with self.assertRaises(MCPError):
                await client.read_resource(other)


@through()
class Changing:
    trust = "autonomous"

    async def test_a_new_manifest_is_told_listed_and_usable(self):
        told = anyio.Event()

        async def handler(message):
            if isinstance(message, types.ToolListChangedNotification):
                told.set()

        async with self.client(message_handler=handler) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            self.assertNotIn("say", names)
            with anyio.fail_after(PATIENCE):
                if self.is_newer:
                    async with client.listen(tools_list_changed=True) as events:
                        self.place.declare("say", DECLARED.format(name="say"))
                        async for _event in events:
                            break
                else:
                    self.place.declare("say", DECLARED.format(name="say"))
                    await told.wait()
            names = [tool.name for tool in (await client.list_tools()).tools]
            self.assertIn("say", names)
            result = await client.call_tool("say", {"words": "good morning"})
            self.assertIn("good morning", text_of(result) + json.dumps(result.structured_content))
