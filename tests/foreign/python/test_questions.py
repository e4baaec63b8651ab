"""A server behind the gate asks the person, completes, logs and notifies: with the official client, in both protocols on both sides."""

import json

from support import NEWER, OLDER, Person, text_of, through
from test_through import Direct

CONFIG = """
mcp_servers:
  suite: {{url: {url}, class: read, elicitation: {may_ask}}}
"""


class Asking:
    """A server that asks within its calls, in one of the protocols."""

    revision = OLDER
    may_ask = "true"

    def setUp(self):
        server = Direct(self.revision)
        self.config = CONFIG.format(url=server.url, may_ask=self.may_ask)
        super().setUp()
        # After the gate, which holds connections to it.
        self.addCleanup(server.close)

    def asked_of(self, records):
        return [question for record in records for question in record.get("details", {}).get("questions", [])]

    def raw_records(self):
        return [json.loads(line) for line in self.place.run("audit", "show", "--json").splitlines()]


@through()
class AskedInSession(Asking):
    tool, arguments, answer = "suite__test_elicitation", {"message": "Who\u202e are you?\nToo many\u001b[2J rows"}, {"username": "Ann"}
    said, recorded = "Ann", "suite: form (username, email): accepted"

    async def test_the_person_sees_whose_question_it_is_and_the_server_gets_the_answer(self):
        person = Person(content=self.answer)
        async with self.client(person) as client:
            result = await client.call_tool(self.tool, self.arguments)
        self.assertIn(self.said, text_of(result))
        (asked,) = person.asked
        self.assertTrue(asked.message.startswith("The MCP server suite asks you something while it runs suite__"), asked.message)
        self.assertIn("This is not a question of Toolgate, and no answer approves a call.", asked.message)
        self.assertIn("\n│ ", asked.message)
        self.assertNotIn("\u202e", asked.message)
        self.assertNotIn("\u001b", asked.message)
        self.assertNotIn("scope", asked.requested_schema["properties"])
        self.assertEqual(self.asked_of(self.raw_records()), [self.recorded])

    async def test_a_person_may_decline(self):
        person = Person("decline")
        async with self.client(person) as client:
            await client.call_tool(self.tool, self.arguments)
        self.assertEqual(len(person.asked), 1)
        self.assertTrue(self.asked_of(self.raw_records())[0].endswith(": declined"))

    async def test_a_client_that_cannot_ask_declines(self):
        async with self.client() as client:
            await client.call_tool(self.tool, self.arguments)
        self.assertTrue(self.asked_of(self.raw_records())[0].endswith(": nobody to ask"))


@through()
class AskedStateless(AskedInSession):
    revision = NEWER
    tool, arguments, answer = "suite__test_input_required_result_elicitation", {}, {"name": "Ann"}
    said, recorded = "Hello, Ann!", "suite: form (name): accepted"


@through()
class NotAsked(Asking):
    may_ask = "false"

    async def test_without_leave_of_the_operator_nothing_is_asked(self):
        person = Person(content={"username": "Ann"})
        async with self.client(person) as client:
            result = await client.call_tool("suite__test_elicitation", {"message": "Who are you?"})
        self.assertNotIn("Ann", text_of(result))
        self.assertEqual(person.asked, [])
