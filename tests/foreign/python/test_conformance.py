"""The conformance suite of MCP against a gate with the tools that the suite calls by name."""

import json
import pathlib
import re
import subprocess
import tempfile
import tomllib
import unittest

from support import FIXTURE, NEWER, NODE, NPM, OLDER

SUITE = NPM / "node_modules/@modelcontextprotocol/conformance"
LEFT_OUT = pathlib.Path(__file__).parent.parent / "conformance.toml"

# The suite gives each of about fifty scenarios half a minute, and needs a few seconds for all of them.
PATIENCE = 600


def required(revision):
    """What the revision requires of servers, as the suite itself lists it."""
    text = (SUITE / f"requirements/{revision}.yaml").read_text()
    section = re.search(r"^server:\n((?:  - .*\n)+)", text, re.MULTILINE)
    return set(re.findall(r"- (\S+)", section.group(1)))


def run(url, revision):
    """The checks of every scenario by its name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [NODE, SUITE / "dist/index.js", "server", "--url", url, "--requirements", revision, "--output-dir", folder]
        subprocess.run(command, capture_output=True, timeout=PATIENCE, cwd=folder)
        named = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
        scenarios = {}
        for path in pathlib.Path(folder).glob("*/checks.json"):
            scenarios[named.fullmatch(path.parent.name).group(1)] = json.loads(path.read_text())
        return scenarios


def left_out(revision):
    """Whole scenarios and single checks that do not apply, each with its reason."""
    entries = tomllib.loads(LEFT_OUT.read_text())["left_out"]
    here = [entry for entry in entries if revision in entry["revisions"]]
    scenarios = {name: entry["reason"] for entry in here for name in entry.get("scenarios", [])}
    checks = {name: entry["reason"] for entry in here for name in entry.get("checks", [])}
    may_pass = {name for entry in here if entry.get("only_if_slow") for name in entry["scenarios"]}
    return scenarios, checks, may_pass


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen([FIXTURE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.url = json.loads(cls.server.stdout.readline())["url"]

    @classmethod
    def tearDownClass(cls):
        # It goes when nobody is left at the other end.
        cls.server.communicate(timeout=PATIENCE)

    def conforms(self, revision):
        scenarios = run(self.url, revision)
        self.assertLessEqual(required(revision), set(scenarios), "the suite did not run everything")
        whole, single, may_pass = left_out(revision)
        faults = {}
        for name, checks in scenarios.items():
            for check in checks:
                if check["status"] in ("FAILURE", "WARNING"):
                    faults[f"{name}:{check['id']}"] = check.get("errorMessage")
        failing = {fault.partition(":")[0] for fault in faults}
        wrong = [
            f"fails, and is not on the list: {fault}: {why}"
            for fault, why in faults.items()
            if fault not in single and fault.partition(":")[0] not in whole
        ]
        wrong += [f"is on the list, and passes: {name}" for name in sorted((set(whole) - failing - may_pass) | (set(single) - set(faults)))]
        if wrong:
            self.fail("\n".join(["", *wrong]))
        passing = sorted(set(scenarios) - failing | {check.partition(":")[0] for check in single} & required(revision))
        print(f"conformance {revision}: {len(passing)} scenarios pass, {len(whole)} do not apply: {', '.join(sorted(whole))}")

    def test_what_2025_11_25_requires(self):
        self.conforms(OLDER)

    def test_what_2026_07_28_requires(self):
        self.conforms(NEWER)
