"""The Inspector's command line against the gate, through both doors and in both eras."""

import json
import os
import subprocess
import unittest

from support import NODE, NPM, PATIENCE, TOOLGATE, Place, Served

INSPECTOR = NPM / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


class InspectorTest:
    """What it does is the same whichever way it came in."""

    era = None

    def setUp(self):
        self.place = Place(trust="autonomous")
        self.addCleanup(self.place.close)
        self.place.write("a.txt", "alpha\n")

    def inspect(self, *arguments):
        # The entry that people paste into their clients.
        servers = self.place.state.parent / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"gate": self.entry()}}))
        target = ["--config", servers, "--server", "gate", "--protocol-era", self.era]
        command = [NODE, INSPECTOR, "--cli", *target, "--format", "json", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.place.state.parent)}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        self.assertEqual(ran.returncode, 0, ran.stderr + ran.stdout)
        answer = json.loads(ran.stdout)
        return answer.get("result", answer)

    def test_lists_tools_whose_schemas_every_client_can_use(self):
        tools = self.inspect("--method", "tools/list", "--strict")["tools"]
        self.assertIn("read_file", [tool["name"] for tool in tools])

    def test_calls_a_tool(self):
        arguments = json.dumps({"path": "a.txt"})
        answer = self.inspect("--method", "tools/call", "--tool-name", "read_file", "--tool-args-json", arguments)
        self.assertIn("alpha", answer["content"][0]["text"])
        [record] = self.place.records()
        self.assertEqual((record.tool, record.decision), ("read_file", "ALLOWED"))

    def test_reads_a_resource(self):
        [listed] = self.inspect("--method", "resources/list")["resources"]
        answer = self.inspect("--method", "resources/read", "--uri", listed["uri"])
        self.assertEqual(answer["contents"][0]["text"], "alpha\n")


class OverStdio(InspectorTest):
    def entry(self):
        return {"command": TOOLGATE, "args": ["mcp", *self.place.options()]}


class OverHttp(InspectorTest):
    def setUp(self):
        super().setUp()
        self.served = Served(self.place)
        self.addCleanup(self.served.close)

    def entry(self):
        authorization = {"Authorization": f"Bearer {self.served.token}"}
        return {"type": "streamable-http", "url": self.served.url, "headers": authorization}


class StdioLegacy(OverStdio, unittest.TestCase):
    era = "legacy"


class StdioModern(OverStdio, unittest.TestCase):
    era = "modern"


class HttpLegacy(OverHttp, unittest.TestCase):
    era = "legacy"


class HttpModern(OverHttp, unittest.TestCase):
    era = "modern"
