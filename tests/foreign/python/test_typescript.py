"""The official TypeScript client, version 1, which holds structured answers to their schemas, also those of calls that failed."""

import json
import pathlib
import subprocess
import unittest

from support import NODE, NPM, PATIENCE, TOOLGATE, Place

CALLS = pathlib.Path(__file__).parent.parent / "node/calls.mjs"


class TypeScriptTest(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.close)
        self.place.write("a.txt", "alpha\n")

    def calls(self, *calls):
        """What became of calls; this client shows no questions."""
        gate = [TOOLGATE, json.dumps(["mcp", *self.place.options()])]
        command = [NODE, CALLS, NPM, *gate, json.dumps(calls)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)

    def test_refusals_and_failures_come_back_as_results(self):
        rows = [
            ("write_file", {"path": "q", "content": "x"}, "approval_unavailable"),
            ("list_directory", {"path": "none"}, "not_found"),
            ("search_files", {"pattern": "(", "regex": True}, "invalid_pattern"),
            ("read_file", {"path": "none"}, "not_found"),
            ("run_command", {}, "invalid_arguments"),
        ]
        outcomes = self.calls(*[(name, arguments) for name, arguments, _ in rows])
        for (name, _, code), outcome in zip(rows, outcomes, strict=True):
            with self.subTest(tool=name):
                self.assertNotIn("thrown", outcome)
                result = outcome["result"]
                self.assertTrue(result["isError"])
                self.assertIn(code, result["content"][0]["text"])
                self.assertEqual(result["_meta"]["toolgate/error"]["code"], code)

    def test_answers_fit_what_their_tools_declare(self):
        calls = [
            ("read_file", {"path": "a.txt"}),
            ("list_directory", {}),
            ("search_files", {"pattern": "alpha"}),
            ("find_files", {"glob": "*"}),
        ]
        for (name, _), outcome in zip(calls, self.calls(*calls), strict=True):
            with self.subTest(tool=name):
                self.assertNotIn("thrown", outcome)
                self.assertFalse(outcome["result"]["isError"])
