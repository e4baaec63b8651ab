"""Logins at a protected MCP server of the official SDK, at a real authorization server (oidc-provider), with a browser that follows redirects."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest
import urllib.parse

import httpx2
from mcp import Client
from support import NODE, NPM, PATIENCE, TOOLGATE, Place, Served, text_of

HERE = pathlib.Path(__file__).parent


class Program:
    """A program that prints its address when it listens."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(self.process.communicate(timeout=PATIENCE)[1])

    def close(self):
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)[1]


class OAuthTest(unittest.IsolatedAsyncioTestCase):
    # How long a token is good for, in seconds.
    lifetime = 3600
    # More keys of each server.
    more = ""

    def setUp(self):
        # The pinned Node, where it is installed; its package ships a binary.
        node = NODE if NODE.exists() else shutil.which("node")
        self.issuer = Program(str(node), str(HERE.parent / "node/oidc.mjs"), str(NPM), str(self.lifetime))
        self.addCleanup(self.issuer.close)
        self.tracker, self.wiki = self.protected(), self.protected()
        self.place = Place(
            "mcp_servers:\n"
            f"  tracker: {{url: {self.tracker.url}, class: read{self.more}}}\n"
            f"  wiki: {{url: {self.wiki.url}, class: read{self.more}}}\n"
        )
        self.addCleanup(self.place.close)

    def protected(self):
        server = Program(sys.executable, "-B", str(HERE / "protected.py"), self.issuer.url)
        self.addCleanup(server.close)
        return server

    def start(self, *arguments, **options):
        command = [TOOLGATE, *arguments, *self.place.options()]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def gate(self, *arguments):
        """The exit code of a command, and what it printed."""
        process = self.start(*arguments)
        printed, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, printed, errors

    def browse(self, url, account):
        """A browser whose person logs in under this name and agrees to everything."""
        with httpx2.Client(cookies={"account": account}, follow_redirects=True, timeout=PATIENCE) as browser:
            return browser.get(url)

    def log_in(self, server, account="alice", *more):
        """A login with a browser; the result as the command prints it, and what it said before."""
        process = self.start("mcp", "login", server, "--no-browser", "--json", *more)
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith(self.issuer.url):
                break
        self.browse(line.strip(), account)
        printed, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, json.loads(printed) if printed else None, said + errors

    def servers(self, *only):
        listed = json.loads(self.gate("mcp", "list", *only, "--json")[1])
        return {server["server"]: server for server in listed}

    def tokens(self):
        folder = self.place.state / "tokens.toolgate"
        return sorted(folder.glob("*.token")) if folder.exists() else []


class Login(OAuthTest):
    def test_a_login_makes_the_tools_of_a_hosted_server_usable(self):
        before = self.servers("tracker")["tracker"]
        self.assertEqual(before["state"], "needs login", before)
        self.assertIn("toolgate mcp login tracker", before["detail"])
        code, _, errors = self.gate("call", "tracker__whoami")
        self.assertNotEqual(code, 0)
        self.assertIn("toolgate mcp login tracker", errors)

        code, result, said = self.log_in("tracker")
        self.assertEqual(code, 0, said)
        for part in (self.issuer.url, self.tracker.url, "issues:read"):
            self.assertIn(part, said)
        self.assertEqual(result["authorizationServer"], self.issuer.url)
        self.assertTrue(result["refreshable"])
        self.assertEqual(self.gate("call", "tracker__whoami")[1].strip(), "alice")
        after = self.servers("tracker")["tracker"]
        self.assertEqual(after["state"], "ready", after)
        self.assertIn("issues:read", after["login"]["scopes"])

        # Encrypted, for this user alone, and nowhere else in what the gate keeps or says.
        (file,) = self.tokens()
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        for kept in self.place.state.rglob("*"):
            if kept.is_file():
                self.assertNotIn(b"eyJ", kept.read_bytes(), kept)
        self.assertNotIn("eyJ", json.dumps(result) + said + json.dumps(after))

    def test_a_token_is_for_one_server(self):
        self.log_in("tracker")
        (stolen,) = self.tokens()
        stolen_bytes = stolen.read_bytes()
        self.log_in("wiki", "bob")
        self.assertEqual(self.gate("call", "wiki__whoami")[1].strip(), "bob")
        (own,) = (file for file in self.tokens() if file != stolen)
        # Its file in the place of another server's.
        own.write_bytes(stolen_bytes)
        code, printed, errors = self.gate("call", "wiki__whoami")
        self.assertNotEqual(code, 0)
        self.assertIn("toolgate mcp login wiki", errors)
        self.assertNotIn("alice", printed)
        self.assertEqual(self.servers("wiki")["wiki"]["state"], "needs login")
        # Its name at another URL, as in a configuration that was changed.
        text = self.place.config.read_text()
        self.place.config.write_text(text.replace(self.tracker.url, self.wiki.url))
        self.assertEqual(self.servers("tracker")["tracker"]["state"], "needs login")
        # No token for anything else ever came to the wiki.
        self.assertNotIn("InvalidAudienceError", self.wiki.close())

    def test_a_refused_login_keeps_nothing(self):
        code, result, said = self.log_in("tracker", "nobody")
        self.assertEqual((code, result["error"]["code"]), (3, "denied"), said)
        self.assertIn("access_denied", said)
        self.assertEqual(self.tokens(), [])

    def test_an_address_can_be_pasted(self):
        process = self.start("mcp", "login", "tracker", "--paste", stdin=subprocess.PIPE)
        for line in process.stderr:
            if line.startswith(self.issuer.url):
                break
        last = line.strip()
        with httpx2.Client(cookies={"account": "alice"}, timeout=PATIENCE) as browser:
            while not last.startswith("http://127.0.0.1") or "/callback" not in last.split("?")[0]:
                answer = browser.get(last)
                last = str(answer.url.join(answer.headers["location"]))
        _, errors = process.communicate(last + "\n", timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(self.gate("call", "tracker__whoami")[1].strip(), "alice")


class Attacks(OAuthTest):
    """What a page in the browser, a network or another authorization server may try on the way."""

    def begin(self):
        """A login that waits for its response, and the address for the browser."""
        process = self.start("mcp", "login", "tracker", "--no-browser", "--json")
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if line.startswith(self.issuer.url):
                return process, line.strip()
        raise AssertionError("no address")

    def response(self, url):
        """The address of the response, which is not requested; None where the authorization server answers with a page."""
        with httpx2.Client(cookies={"account": "alice"}, timeout=PATIENCE) as browser:
            while True:
                answer = browser.get(url)
                if "location" not in answer.headers:
                    return None
                url = str(answer.url.join(answer.headers["location"]))
                if url.startswith("http://127.0.0.1") and "/callback" in url.split("?")[0]:
                    return url

    @staticmethod
    def changed(url, **parameters):
        """The same address with other parameters; None leaves one out."""
        parts = urllib.parse.urlsplit(url)
        query = dict(urllib.parse.parse_qsl(parts.query)) | parameters
        query = {name: value for name, value in query.items() if value is not None}
        return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))

    def fails(self, process, *words):
        printed, errors = process.communicate(timeout=PATIENCE)
        self.assertNotEqual(process.returncode, 0, printed + errors)
        for word in words:
            self.assertIn(word, printed + errors)
        self.assertEqual(self.tokens(), [])

    def test_a_response_that_names_another_authorization_server_or_none_is_refused(self):
        node = NODE if NODE.exists() else shutil.which("node")
        other = Program(str(node), str(HERE.parent / "node/oidc.mjs"), str(NPM), "3600")
        self.addCleanup(other.close)
        for named in (other.url, None):
            with self.subTest(named):
                process, url = self.begin()
                response = self.response(url)
                self.assertEqual(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(response).query))["iss"], self.issuer.url)
                httpx2.get(self.changed(response, iss=named))
                self.fails(process, "as its authorization server, not")

    def test_the_response_goes_to_the_address_of_this_login_and_to_no_other(self):
        process, url = self.begin()
        # The authorization server knows the address that was registered, and gives a code to no other.
        for elsewhere in ("http://127.0.0.1:9/stolen", "https://evil.example/callback"):
            self.assertIsNone(self.response(self.changed(url, redirect_uri=elsewhere)))
        # A response with a state that is not of this login changes nothing.
        response = self.response(url)
        httpx2.get(self.changed(response, state="x" * 43))
        httpx2.get(response)
        printed, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, printed + errors)
        self.assertEqual(self.gate("call", "tracker__whoami")[1].strip(), "alice")

    def test_a_login_without_its_challenge_gets_no_token(self):
        for without in ({"code_challenge": None, "code_challenge_method": None}, {"code_challenge_method": "plain"}):
            with self.subTest(str(without)):
                process, url = self.begin()
                response = self.response(self.changed(url, **without))
                self.assertIn("error=invalid_request", response)
                httpx2.get(response)
                self.fails(process, "invalid_request")

    def test_a_code_of_another_login_gets_no_token(self):
        (one, url), (other, other_url) = self.begin(), self.begin()
        stolen = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.response(other_url)).query))["code"]
        httpx2.get(self.changed(self.response(url), code=stolen))
        self.fails(one, "invalid_grant")
        other.terminate()
        other.communicate(timeout=PATIENCE)


class Rotation(OAuthTest):
    # Less than the margin of a refresh: each request of the gate refreshes.
    lifetime = 20

    def test_processes_that_refresh_together_do_not_lose_the_login(self):
        self.log_in("tracker")
        # The authorization server withdraws the whole login if a refresh token comes twice.
        for _ in range(2):
            calls = [self.start("call", "tracker__whoami") for _ in range(4)]
            for call in calls:
                printed, errors = call.communicate(timeout=PATIENCE)
                self.assertEqual(printed.strip(), "alice", errors)

    def test_after_a_logout_a_kept_copy_is_of_no_use(self):
        self.log_in("tracker")
        (file,) = self.tokens()
        copy = file.read_bytes()
        code, printed, errors = self.gate("mcp", "logout", "tracker")
        self.assertEqual(code, 0, errors)
        self.assertIn("withdrawn", printed)
        self.assertEqual(self.tokens(), [])
        file.write_bytes(copy)
        code, _, errors = self.gate("call", "tracker__whoami")
        self.assertNotEqual(code, 0)
        self.assertIn("toolgate mcp login tracker", errors)


class Callers(OAuthTest):
    more = ", oauth: {per_caller: true}, permissions: [tracker:use]"

    async def test_each_caller_has_a_login_of_its_own(self):
        self.log_in("tracker", "operator")
        for name in ("alice", "bob"):
            code, _, said = self.log_in("tracker", name, "--caller", name)
            self.assertEqual(code, 0, said)
        self.assertEqual(len(self.tokens()), 3)
        # The first token makes the key that tokens of this machine are believed by.
        mint = ("-q", "token", "mint", "--permission", "tracker:use", "--subject")
        names = ("alice", "bob", "carol")
        tokens = {name: self.place.run(*mint, name).strip() for name in names}
        served = Served(self.place, "--auth", "jwt")
        self.addCleanup(served.close)
        answers = {}
        # Their connections to the server stay open, side by side.
        for name in (*names, *names):
            async with Client(served.transport(tokens[name]), mode="auto", cache=None) as client:
                answers[name] = await client.call_tool("tracker__whoami", {})
        self.assertEqual(text_of(answers["alice"]), "alice")
        self.assertEqual(text_of(answers["bob"]), "bob")
        self.assertTrue(answers["carol"].is_error)
        self.assertIn("toolgate mcp login tracker --caller carol", text_of(answers["carol"]))


if __name__ == "__main__":
    unittest.main()
