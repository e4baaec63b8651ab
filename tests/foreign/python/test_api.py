"""The HTTP API as programs meet it: the two example clients, and a generator of requests made from the OpenAPI document."""

import os
import pathlib
import subprocess
import sys
import unittest

from support import NODE, PATIENCE, Place, Served

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "api"

# The model asks for one change and says what came of it.
SCRIPT = """
model: {name: demo}
steps:
  - when: {prompt: note}
    say: I will write it down.
    calls: [{tool: write_file, arguments: {path: note.txt, content: "hello\\n"}}]
  - when: {result: write_file, contains: note.txt}
    say: It is written.
  - say: I did not write it.
"""

# What a generated request may not lead to. The document names every status of an operation, without a `default`: another one fails.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


class ApiTest(unittest.TestCase):
    options = ()

    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.close)
        script = self.place.config.parent / "script.yaml"
        script.write_text(SCRIPT)
        self.served = Served(self.place, "--model", f"scripted/{script}", *self.options)
        self.addCleanup(self.served.close)
        self.url = self.served.url.removesuffix("/mcp")
        self.token_file = self.place.config.parent / "token"
        self.token_file.write_text(self.served.token)

    def run_client(self, *command):
        return subprocess.run(command, input="n\n", capture_output=True, text=True, timeout=PATIENCE, check=False)


class Clients(ApiTest):
    def check(self, *client):
        message = "please write a note"
        refused = self.run_client(*client, self.url, str(self.token_file), message)
        self.assertIn("I did not write it.", refused.stdout, refused.stderr)
        self.assertFalse((self.place.workspace / "note.txt").exists())
        agreed = self.run_client(*client, self.url, str(self.token_file), message, "--yes")
        self.assertEqual((agreed.returncode, agreed.stdout), (0, "I will write it down.It is written.\n"), agreed.stderr)
        self.assertEqual(self.place.read("note.txt"), "hello\n")

    def test_the_client_in_python(self):
        self.check(sys.executable, str(EXAMPLES / "client.py"))

    def test_the_client_in_typescript(self):
        self.check(str(NODE), "--disable-warning=ExperimentalWarning", str(EXAMPLES / "client.ts"))

    def test_a_wrong_token_is_named_as_such(self):
        self.token_file.write_text("0" * 64)
        refused = self.run_client(sys.executable, str(EXAMPLES / "client.py"), self.url, str(self.token_file), "hello")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("unauthenticated", refused.stderr)


class Generated(ApiTest):
    """schemathesis makes requests of every operation, valid and not, and compares the answers with the document."""

    def test_no_answer_is_a_server_error_or_leaves_the_document(self):
        schemathesis = pathlib.Path(sys.executable).parent / "schemathesis"
        command = [
            str(schemathesis), "run", f"{self.url}/api/v1/openapi.json",
            "--header", f"Authorization: Bearer {self.served.token}",
            "--checks", CHECKS,
            "--phases", "examples,coverage,fuzzing",
            "--max-examples", "15",
            "--seed", "1",
            "--request-timeout", "20",
            # Streams do not end by themselves.
            "--exclude-path-regex", "/events$|^/ws$",
            "--no-color",
        ]  # fmt: skip
        environment = os.environ | {"HOME": str(self.place.config.parent), "COLUMNS": "140"}
        # It keeps a cache in its working directory.
        folder = self.place.config.parent
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE, check=False, env=environment, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
