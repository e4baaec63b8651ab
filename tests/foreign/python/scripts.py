"""A scripted model behind the four wires, for the official clients of each."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from support import PATIENCE, TOOLGATE

# One conversation for all: the model thinks, says something, makes calls, and answers by what came back.
TALK = """
model: {name: demo}
steps:
  - when: {prompt: hello}
    say: Hello from the script, in more than one delta. Äöü!
  - when: {prompt: thoughts}
    think: First I consider this at some length, so that it takes several deltas.
    say: I have thought.
  - when: {prompt: nothing to say to it}
    calls: [{tool: list_directory}]
  - when: {prompt: README}
    think: I should look at the file.
    say: I will read it.
    calls: [{tool: read_file, arguments: {path: README.md, lines: [1, 2], nested: {deep: true}}}]
  - when: {result: read_file, contains: Hello}
    say: "It says: {{last_result}}"
  - when: {prompt: both}
    calls:
      - {tool: read_file, arguments: {path: one.txt}}
      - {tool: read_file, arguments: {path: two.txt}}
  - when: {prompt: cut}
    say: This is cut o
    finish: length
  - say: Both were read.
    usage: {input: 100, output: 20, cached: 40}
"""

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}


class Scripted:
    """A script that is served, until it is closed."""

    def __init__(self, script):
        self._folder = tempfile.TemporaryDirectory(prefix="toolgate-scripted-")
        path = pathlib.Path(self._folder.name) / "script.yaml"
        path.write_text(script)
        command = [TOOLGATE, "scripted", str(path), "--listen", "127.0.0.1:0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        told = self.process.stdout.readline()
        if not told:
            raise AssertionError(f"the script is not served: {self.process.stderr.read()}")
        self.urls = json.loads(told)

    def close(self):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        self._folder.cleanup()


class ScriptedTest(unittest.TestCase):
    """A test with one script; `serve` gives it another."""

    script = TALK
    wire = None

    def setUp(self):
        self.url = self.serve(self.script)

    def serve(self, script):
        served = Scripted(script)
        self.addCleanup(served.close)
        return served.urls[self.wire]
