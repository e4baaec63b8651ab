"""A container of a real engine behind the gate: an image with one small server, imported as people write it."""

import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from support import NPM, PATIENCE, TOOLGATE

IMAGE = "localhost/toolgate-matrix-server:1"

# A server in awk, which every Debian has with few libraries: `look` answers with what the container is.
SERVER = r"""
function answer(id, result) { printf "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id, result; fflush() }
function first(file,  line) { line = "-"; if ((getline line < file) < 1) line = "-"; close(file); return line }
function status(word,  line) {
  while ((getline line < "/proc/self/status") > 0) if (index(line, word) == 1) { close("/proc/self/status"); sub(/.*\t/, "", line); return line }
  return "-"
}
function interfaces(  line, found) {
  found = 0
  while ((getline line < "/proc/net/dev") > 0) if (index(line, ":") && !index(line, "lo:")) found++
  close("/proc/net/dev"); return found
}
{
  if (!match($0, /"id":[0-9]+/)) next
  id = substr($0, RSTART + 5, RLENGTH - 5)
  if (index($0, "\"initialize\"")) answer(id, "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"boxed\",\"version\":\"1\"}}")
  else if (index($0, "tools/list")) answer(id, "{\"tools\":[{\"name\":\"look\",\"description\":\"Looks\",\"inputSchema\":{\"type\":\"object\"}}]}")
  else if (index($0, "tools/call")) {
    text = "notes=" first("/notes/list.txt") " env=" first("/notes/.env") " capabilities=" status("CapEff") " privileges=" status("NoNewPrivs") " interfaces=" interfaces() " token=" ENVIRON["HUB_TOKEN"]
    answer(id, "{\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}")
  } else printf "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}\n", id
}
"""


@unittest.skipUnless(shutil.which("podman") and shutil.which("mawk"), "there is no podman (Debian: podman, runc, mawk)")
class Contained(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="contained-", dir=NPM.parent))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        # A machine may be a container itself, without the rights that the engine's own defaults ask for.
        limits = "default_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]"
        runtime = "runtime = \"runc\"" if shutil.which("runc") else ""
        (self.root / "containers.conf").write_text(f"[containers]\n{limits}\n[engine]\n{runtime}\n")
        (self.root / "home").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TOOLGATE_"))}
        # Only podman: a client of docker may be here without an engine, which is passed over.
        self.environment = kept | {
            "CONTAINERS_CONF": str(self.root / "containers.conf"),
            "HOME": str(self.root / "home"),
            "HUB_TOKEN": "4711",
        }
        self.build()
        self.addCleanup(self.podman, "rmi", "--force", IMAGE)

    def podman(self, *arguments, **options):
        return subprocess.run(["podman", *arguments], env=self.environment, capture_output=True, timeout=PATIENCE, **options)

    def build(self):
        """An image of awk, its libraries, and the server."""
        awk = os.path.realpath(shutil.which("mawk"))
        listed = subprocess.run(["ldd", awk], check=True, capture_output=True, text=True).stdout
        libraries = {word for word in listed.split() if word.startswith("/")}
        archive = self.root / "image.tar"
        (self.root / "server.awk").write_text(SERVER)
        with tarfile.open(archive, "w", dereference=True) as tar:
            for path in sorted(libraries):
                tar.add(path, arcname=path.lstrip("/"))
            tar.add(awk, arcname="awk")
            tar.add(self.root / "server.awk", arcname="server.awk")
        entrypoint = 'ENTRYPOINT ["/awk", "-W", "interactive", "-f", "/server.awk"]'
        imported = self.podman("import", "--change", entrypoint, str(archive), IMAGE)
        self.assertEqual(imported.returncode, 0, imported.stderr)

    def toolgate(self, *arguments):
        project = self.root / "project"
        project.mkdir(exist_ok=True)
        ran = subprocess.run(
            [TOOLGATE, *arguments], cwd=project, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )
        return ran.returncode, ran.stdout + ran.stderr

    def test_a_container_as_people_write_it_gets_the_least(self):
        notes = self.root / "home/notes"
        notes.mkdir()
        (notes / "list.txt").write_text("apples\n")
        (notes / ".env").write_text("KEY=4711\n")
        arguments = ["run", "-i", "--rm", "-v", f"{notes}:/notes", "-e", "HUB_TOKEN", IMAGE]
        file = self.root / "client.json"
        file.write_text(json.dumps({"mcpServers": {"boxed": {"command": "docker", "args": arguments}}}))
        code, said = self.toolgate("mcp", "import", str(file), "--write", "--yes")
        self.assertEqual(code, 0, said)
        code, said = self.toolgate("--trust", "autonomous", "call", "boxed__look", "{}")
        self.assertEqual(code, 0, said)
        for words in ("notes=apples", "env=-", "capabilities=0000000000000000", "privileges=1", "interfaces=0", "token=4711"):
            self.assertIn(words, said)
        print(f"a container of {self.podman('--version').stdout.decode().strip()}: {said.splitlines()[0]}", flush=True)
        running = self.podman("ps", "--all", "--quiet").stdout
        self.assertEqual(running, b"", "a container is left")
