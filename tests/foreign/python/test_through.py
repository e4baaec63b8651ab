"""The conformance suite against a server, and against a gate in front of the same server: what passes direct passes through."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import tomllib
import unittest

from support import NEWER, NODE, NPM, OLDER, PATIENCE, Place, Served
from test_conformance import required, run

SERVER = pathlib.Path(__file__).parent.parent / "node/conformance_server.mjs"
DIFFERENCES = pathlib.Path(__file__).parent.parent / "through.toml"

CONFIG = """
mcp_servers:
  suite:
    url: {url}
    prefix: ""
    elicitation: true
    class: read
"""


class Direct:
    """The server, in the protocol of a revision."""

    def __init__(self, revision):
        # Node finds packages from where the script lies.
        self.script = NPM / SERVER.name
        shutil.copyfile(SERVER, self.script)
        mode = ["session"] if revision == OLDER else []
        command = [NODE, self.script, *mode]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def close(self):
        self.process.communicate(timeout=PATIENCE)


def failing(scenarios):
    """The checks that fail, by scenario."""
    return with_status(scenarios, "FAILURE", "WARNING")


def with_status(scenarios, *statuses):
    return {
        name: {check["id"]: check.get("errorMessage") for check in checks if check["status"] in statuses}
        for name, checks in scenarios.items()
    }


def allowed(revision):
    """The checks that may differ, with reasons."""
    entries = tomllib.loads(DIFFERENCES.read_text()).get("differs", [])
    return {check: entry["reason"] for entry in entries if revision in entry["revisions"] for check in entry["checks"]}


def table(revision, direct, through, listed):
    """A row for each scenario."""
    width = max(len(name) for name in direct)
    word = lambda faults: "fails" if faults else "passes"
    rows = [f"conformance {revision}, of a server direct and through the gate"]
    for name in sorted(direct):
        differs = any(f"{name}:{check}" in listed for check in through.get(name, {}))
        rows.append(f"  {name:{width}}  {word(direct[name]):6}  {word(through.get(name, ['not run'])):6}{'  (allowed)' if differs else ''}")
    both = sum(1 for name in direct if not direct[name] and not through.get(name, ["not run"]))
    rows.append(f"  {len(direct)} scenarios: {sum(1 for name in direct if not direct[name])} pass direct, {both} of them pass through")
    return "\n".join(rows)


class Through(unittest.TestCase):
    def compare(self, revision):
        server = Direct(revision)
        self.addCleanup(server.close)
        ran = run(server.url, revision)
        direct, passing = failing(ran), with_status(ran, "SUCCESS")
        self.assertLessEqual(required(revision), set(direct), "the suite did not run everything")
        place = Place(CONFIG.format(url=server.url), trust="autonomous")
        self.addCleanup(place.close)
        # A tool that is listed is called by name, so the gate has to know them first.
        place.run("mcp", "list")
        gate = Served(place, "--auth", "none")
        self.addCleanup(gate.close)
        through = failing(run(gate.url, revision))
        listed = allowed(revision)
        print(table(revision, direct, through, listed))
        worse = {
            f"{name}:{check}": why
            for name, faults in through.items()
            for check, why in faults.items()
            if check in passing.get(name, {}) or not direct.get(name)
        }
        wrong = [f"passes direct, fails through, and is not on the list: {check}: {why}" for check, why in worse.items() if check not in listed]
        wrong += [f"is on the list, and does not fail through alone: {check}" for check in sorted(set(listed) - set(worse))]
        if wrong:
            self.fail("\n".join(["", *wrong]))

    def test_what_passes_direct_passes_through_with_2025_11_25(self):
        self.compare(OLDER)

    def test_what_passes_direct_passes_through_with_2026_07_28(self):
        self.compare(NEWER)
