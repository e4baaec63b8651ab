"""Who may come through the door: tokens, hosts and origins, as the official client and a bare request meet them."""

import subprocess
import unittest

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from support import NEWER, OLDER, PATIENCE, TOOLGATE, Place, Served, text_of

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}},
}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {
        "name": "read_file",
        "arguments": {"path": "a.txt"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": NEWER,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
MODERN = {"MCP-Protocol-Version": NEWER, "Mcp-Method": "tools/call", "Mcp-Name": "read_file"}


def innermost(group):
    """What went wrong, out of the groups that the client's tasks wrap it in."""
    while isinstance(group, BaseExceptionGroup):
        [group] = group.exceptions
    return group


class HttpTest(unittest.IsolatedAsyncioTestCase):
    options = ()
    config = ""

    def setUp(self):
        self.place = Place(self.config)
        self.addCleanup(self.place.close)
        self.place.write("a.txt", "alpha\n")
        # The first token makes the key that tokens of this machine are believed by.
        self.mint()
        self.served = Served(self.place, *self.options)
        self.addCleanup(self.served.close)

    def mint(self, *arguments, subject="ada"):
        permissions = ["--permission", "files:read", "--permission", "files:write"]
        return self.place.run("-q", "token", "mint", "--subject", subject, *permissions, *arguments).strip()

    async def read(self, token, mode):
        async with Client(self.served.transport(token), mode=mode, cache=None, read_timeout_seconds=PATIENCE) as client:
            return await client.call_tool("read_file", {"path": "a.txt"})

    async def turned_away(self, token):
        for mode in ("auto", "legacy"):
            with self.subTest(mode=mode):
                with self.assertRaises(ExceptionGroup) as raised:
                    await self.read(token, mode)
                self.assertIn("token", str(innermost(raised.exception)))


class OneToken(HttpTest):
    async def test_the_token_opens_the_door_and_nothing_else_does(self):
        for mode in ("auto", "legacy"):
            self.assertIn("alpha", text_of(await self.read(self.served.token, mode)))
        await self.turned_away("wrong")
        await self.turned_away(self.served.token[:-1])

    def test_a_request_without_a_good_token_is_told_what_is_missing(self):
        rows = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {self.served.token}"}]
        for headers in rows:
            for message, more in ((INITIALIZE, {}), (CALL, MODERN)):
                with self.subTest(headers=headers, method=message["method"]):
                    answer = self.served.post(message, **headers, **more)
                    self.assertEqual(answer.status_code, 401)
                    self.assertTrue(answer.headers["WWW-Authenticate"].startswith("Bearer"))
        in_the_address = self.served.url + f"?token={self.served.token}"
        self.served.url = in_the_address
        self.assertEqual(self.served.post(INITIALIZE).status_code, 401)

    def test_hosts_and_origins_that_are_not_ours_are_refused_with_the_best_token(self):
        good = {"Authorization": f"Bearer {self.served.token}"}
        rows = [
            ({}, 200),
            ({"Host": "localhost"}, 200),
            ({"Host": "evil.example"}, None),
            ({"Host": "127.0.0.1.evil.example"}, None),
            ({"Origin": "http://evil.example"}, None),
            ({"Origin": "null"}, None),
            ({"Host": "evil.example", "Origin": "http://evil.example"}, None),
        ]
        for headers, status in rows:
            with self.subTest(headers=headers):
                answer = self.served.post(INITIALIZE, **good, **headers)
                if status is None:
                    self.assertIn(answer.status_code, (400, 403, 421))
                    self.assertNotIn("toolgate", answer.text.lower().replace("not allowed", ""))
                else:
                    self.assertEqual(answer.status_code, status, answer.text)

    async def test_a_session_belongs_to_whoever_opened_it(self):
        good = {"Authorization": f"Bearer {self.served.token}"}
        session = self.served.post(INITIALIZE, **good).headers["Mcp-Session-Id"]
        listing = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
        theirs = {"Mcp-Session-Id": session, "MCP-Protocol-Version": OLDER}
        self.assertEqual(self.served.post(listing, **theirs).status_code, 401)
        self.assertEqual(self.served.post(listing, **theirs, Authorization="Bearer wrong").status_code, 401)


class Tokens(HttpTest):
    options = ("--auth", "jwt")

    async def test_callers_come_with_tokens_of_their_own(self):
        for mode in ("auto", "legacy"):
            self.assertIn("alpha", text_of(await self.read(self.mint(), mode)))
        subjects = {record.subject for record in self.place.records()}
        self.assertEqual(subjects, {"ada"})

    async def test_tokens_that_prove_nothing_are_refused(self):
        await self.turned_away(self.mint("--audience", "somebody-else"))
        await self.turned_away(self.mint()[:-3] + "AAA")
        await self.turned_away("not.a.token")

    def test_the_answer_says_where_to_get_a_token(self):
        answer = self.served.post(INITIALIZE)
        self.assertEqual(answer.status_code, 401)
        self.assertIn("resource_metadata=", answer.headers["WWW-Authenticate"])
        wrong = self.served.post(INITIALIZE, Authorization=f"Bearer {self.mint('--audience', 'other')}")
        self.assertEqual(wrong.status_code, 401)
        self.assertIn('error="invalid_token"', wrong.headers["WWW-Authenticate"])

    def test_a_call_with_a_bad_token_is_recorded(self):
        headers = MODERN | {"Authorization": f"Bearer {self.mint('--audience', 'other')}"}
        self.assertEqual(self.served.post(CALL, **headers).status_code, 401)
        [record] = self.place.records()
        self.assertEqual((record.decision, record.stage), ("DENIED", "AUTH"))

    async def test_nobody_opens_a_call_that_somebody_else_was_asked_about(self):
        async with Client(self.served.transport(self.mint()), mode="auto", elicitation_callback=agreeing, cache=None) as ada:
            arguments = {"path": "a.txt", "content": "more"}
            first = await ada.session.call_tool("append_file", arguments, allow_input_required=True)
            [key] = first.input_requests
            async with Client(self.served.transport(self.mint(subject="bob")), mode="auto", elicitation_callback=agreeing, cache=None) as bob:
                with self.assertRaises(MCPError) as raised:
                    await bob.session.call_tool(
                        "append_file",
                        arguments,
                        input_responses={key: ElicitResult(action="accept", content={})},
                        request_state=first.request_state,
                    )
                self.assertEqual(raised.exception.code, -32602)
        self.assertEqual(self.place.read("a.txt"), "alpha\n")


async def agreeing(_context, _params):
    return ElicitResult(action="accept", content={})


class Openness(unittest.TestCase):
    def test_without_tokens_only_this_machine_is_served(self):
        place = Place()
        self.addCleanup(place.close)
        command = [TOOLGATE, "serve", "--listen", "0.0.0.0:0", "--auth", "none", *place.options()]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("127.0.0.1", refused.stderr)
