"""A person at the official client is asked: every answer there is, in both eras and through both doors."""

import asyncio
import json
import pathlib
import tempfile

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from support import OLDER, PATIENCE, TOOLGATE, Person, text_of, through

CALL = ("append_file", {"path": "log.txt", "content": "x"})


class Asked:
    """What the answers have in common."""

    async def call(self, client, tool=CALL[0], arguments=None):
        return await client.call_tool(tool, CALL[1] if arguments is None else arguments)

    def written(self):
        path = self.place.workspace / "log.txt"
        return path.read_text() if path.exists() else ""

    def decisions(self):
        return [(record.decision, record.stage) for record in self.place.records()]


@through()
class Answers(Asked):
    async def test_yes_lets_this_call_through_and_no_other(self):
        person = Person("accept")
        async with self.client(person) as client:
            self.assertFalse((await self.call(client)).is_error)
            self.assertFalse((await self.call(client)).is_error)
        self.assertEqual(len(person.asked), 2)
        self.assertEqual(self.written(), "xx")
        self.assertEqual([decision for decision, _ in self.decisions()], ["ALLOWED", "ALLOWED"])

    async def test_the_question_shows_the_tool_and_the_whole_call(self):
        person = Person("decline")
        async with self.client(person) as client:
            await self.call(client, "write_file", {"path": "plan.txt", "content": "what would be written"})
        [question] = person.asked
        for words in ("write_file", "plan.txt", "what would be written"):
            self.assertIn(words, question.message)

    async def test_yes_for_the_session_asks_once(self):
        person = Person("accept", {"scope": "session"})
        async with self.client(person) as client:
            self.assertFalse((await self.call(client)).is_error)
            self.assertFalse((await self.call(client)).is_error)
        # Over HTTP, clients of the newer era have no session for which somebody could agree.
        asked = 2 if self.door == "http" and self.is_newer else 1
        self.assertEqual((len(person.asked), self.written()), (asked, "xx"))

    async def test_a_lasting_grant_is_asked_for_once_and_can_be_revoked(self):
        async with self.client(Person("accept", {"scope": "file-workspace"})) as client:
            self.assertFalse((await self.call(client)).is_error)
        [grant] = json.loads(self.place.run("grants", "--json", "--workspace", str(self.place.workspace)))
        self.assertEqual(grant["covers"], "every append_file of @project/log.txt")
        person = Person("decline")
        async with self.client(person) as client:
            self.assertFalse((await self.call(client)).is_error)
            self.assertEqual(person.asked, [])
            # A grant that another process revokes does not count from the next call on.
            self.place.run("grants", "revoke", grant["id"], "--workspace", str(self.place.workspace))
            self.assertTrue((await self.call(client)).is_error)
        self.assertEqual((len(person.asked), self.written()), (1, "xx"))

    async def test_a_grant_that_was_not_offered_is_no_approval(self):
        async with self.client(Person("accept", {"scope": "tool-workspace"})) as client:
            self.assertTrue((await self.call(client)).is_error)
        self.assertEqual(self.written(), "")

    async def test_a_directory_that_a_command_lacked_is_lent_to_one_call(self):
        with tempfile.TemporaryDirectory(prefix="toolgate-lent-", dir="/var/tmp") as folder:
            pathlib.Path(folder, "notes.txt").write_text("lent words")
            line = {"command": f"cat {folder}/notes.txt"}
            person = Person("accept")
            async with self.client(person) as client:
                first = await self.call(client, "run_command", line)
                self.assertIn("[read denied:", text_of(first))
                person.content = {"allow": "directory-1"}
                second = await self.call(client, "run_command", line)
                self.assertIn("lent words", text_of(second))
                self.assertIn(f"let it read {folder} for this call", str(person.asked[-1]))
                person.content = {}
                third = await self.call(client, "run_command", line)
                self.assertNotIn("lent words", text_of(third))

    async def test_no_and_turning_away_are_refusals(self):
        for action, words in (("decline", "a person refused"), ("cancel", "was dismissed")):
            with self.subTest(action=action):
                async with self.client(Person(action)) as client:
                    result = await self.call(client)
                self.assertTrue(result.is_error)
                self.assertIn(words, text_of(result))
        self.assertEqual(self.written(), "")
        self.assertEqual(self.decisions(), [("DENIED", "APPROVAL"), ("DENIED", "APPROVAL")])

    async def test_with_nobody_to_ask_the_answer_says_how_to_allow_it(self):
        async with self.client(None) as client:
            result = await self.call(client)
            self.assertTrue(result.is_error)
            self.assertIn("elicitation", text_of(result))
            # What needs nobody's word still works.
            self.assertFalse((await client.call_tool("list_directory", {})).is_error)
        self.assertEqual(self.written(), "")
        self.assertEqual(self.decisions()[0], ("DENIED", "APPROVAL"))


@through()
class Patience(Asked):
    config = "approval: {timeout: 1s}\n"

    async def test_an_answer_that_does_not_come_in_time_is_no(self):
        never = anyio.Event()
        async with self.client(Person("accept", until=never)) as client:
            with anyio.move_on_after(PATIENCE) as scope:
                if self.is_newer:
                    first = await client.session.call_tool(*CALL, allow_input_required=True)
                    self.assertIsInstance(first, InputRequiredResult)
                else:
                    result = await self.call(client)
                    self.assertTrue(result.is_error)
                    self.assertIn("within", text_of(result))
            self.assertFalse(scope.cancelled_caught)
            [record] = await self.settled()
            self.assertEqual((record.decision, record.stage), ("DENIED", "APPROVAL"))
            if self.is_newer:
                # Yes, but too late: told so once, and of a call that is recorded already.
                late = await client.session.call_tool(*CALL, **answer_to(first), allow_input_required=True)
                self.assertTrue(late.is_error)
                self.assertIn("approval_expired", text_of(late))
        self.assertEqual(self.written(), "")
        self.assertEqual(self.decisions(), [("DENIED", "APPROVAL")])


class Undecided:
    """A person who never answers, and sees that the question is taken from the screen."""

    def __init__(self):
        self.withdrawn = anyio.Event()

    async def __call__(self, _context, _params):
        try:
            await anyio.Event().wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn.set()
            raise


@through(modes=["legacy"])
class Withdrawals(Asked):
    """In the newer era a question is an answer, which cannot be taken back: its state is refused instead, as `Patience` shows."""

    config = "approval: {timeout: 1s}\n"

    async def test_a_question_whose_call_ended_is_withdrawn(self):
        person = Undecided()
        async with self.client(person) as client:
            result = await self.call(client)
            self.assertTrue(result.is_error)
            with anyio.fail_after(PATIENCE):
                await person.withdrawn.wait()
            # The connection goes on.
            self.assertFalse((await client.call_tool("list_directory", {})).is_error)
        self.assertEqual(self.written(), "")


def answer_to(required, action="accept"):
    [key] = required.input_requests
    content = {} if action == "accept" else None
    return {
        "input_responses": {key: ElicitResult(action=action, content=content)},
        "request_state": required.request_state,
    }


@through(modes=["auto"])
class SealedStates(Asked):
    """What only the newer era has: the state of a question travels through the client."""

    async def ask(self, client, arguments=None):
        first = await client.session.call_tool(CALL[0], arguments or CALL[1], allow_input_required=True)
        self.assertIsInstance(first, InputRequiredResult)
        return first

    async def refused(self, client, tool, arguments, answer):
        with self.assertRaises(MCPError) as raised:
            await client.session.call_tool(tool, arguments, **answer, allow_input_required=True)
        self.assertEqual(raised.exception.code, -32602)

    async def test_a_state_counts_once(self):
        async with self.client(Person()) as client:
            first = await self.ask(client)
            done = await client.session.call_tool(*CALL, **answer_to(first))
            self.assertFalse(done.is_error, text_of(done))
            await self.refused(client, *CALL, answer_to(first))
        self.assertEqual(self.written(), "x")
        self.assertEqual([decision for decision, _ in self.decisions()], ["ALLOWED", "DENIED"])

    async def test_a_state_is_for_its_own_call(self):
        other = {"path": "log.txt", "content": "something else"}
        async with self.client(Person()) as client:
            first = await self.ask(client)
            await self.refused(client, CALL[0], other, answer_to(first))
            second = await self.ask(client)
            await self.refused(client, "write_file", CALL[1], answer_to(second))
        self.assertEqual(self.written(), "")

    async def test_a_state_that_was_changed_or_made_up_opens_nothing(self):
        async with self.client(Person()) as client:
            first = await self.ask(client)
            answer = answer_to(first)
            state = answer["request_state"]
            for forged in (state + "x", state[:-1], state[::-1], "", "e30"):
                with self.subTest(state=forged):
                    await self.refused(client, *CALL, answer | {"request_state": forged})
        self.assertEqual(self.written(), "")

    async def test_an_answer_without_a_state_is_asked_again(self):
        async with self.client(Person()) as client:
            first = await self.ask(client)
            answer = answer_to(first)
            again = await client.session.call_tool(
                *CALL, input_responses=answer["input_responses"], allow_input_required=True
            )
            self.assertIsInstance(again, InputRequiredResult)
            self.assertNotEqual(again.request_state, first.request_state)
        self.assertEqual(self.written(), "")


@through(doors=["stdio"], modes=["legacy"])
class OlderAnswers(Asked):
    """The same attacks in the older era, where an answer names its question by a number. By hand: the official client is too honest."""

    async def asyncSetUp(self):
        self.process = await asyncio.create_subprocess_exec(
            TOOLGATE, "mcp", *self.place.options(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self.addAsyncCleanup(self.process.wait)
        self.addCleanup(self.process.stdin.close)
        hello = {"protocolVersion": OLDER, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "by hand", "version": "1"}}
        await self.send(id=0, method="initialize", params=hello)
        await self.receive()
        await self.send(method="notifications/initialized")

    async def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self.process.stdin.drain()

    async def receive(self):
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), PATIENCE))

    async def begin(self, number, content="x"):
        """Begins a call and gives the question about it."""
        arguments = {"path": "log.txt", "content": content}
        await self.send(id=number, method="tools/call", params={"name": CALL[0], "arguments": arguments})
        question = await self.receive()
        self.assertEqual(question["method"], "elicitation/create")
        return question

    async def test_an_answer_that_is_given_twice_counts_once(self):
        question = await self.begin(1)
        for _ in range(2):
            await self.send(id=question["id"], result={"action": "accept", "content": {}})
        self.assertEqual((await self.receive())["id"], 1)
        # The second answer is to no question: the next call is asked about as if it had not come.
        second = await self.begin(2)
        self.assertNotEqual(second["id"], question["id"])
        await self.send(id=question["id"], result={"action": "accept", "content": {}})
        await self.send(id=second["id"], result={"action": "decline"})
        self.assertTrue((await self.receive())["result"]["isError"])
        self.assertEqual(self.written(), "x")
        self.assertEqual([decision for decision, _ in self.decisions()], ["ALLOWED", "DENIED"])

    async def test_an_answer_is_to_the_call_that_was_shown(self):
        first, second = await self.begin(1, "first"), await self.begin(2, "second")
        self.assertIn("first", first["params"]["message"])
        self.assertIn("second", second["params"]["message"])
        await self.send(id=second["id"], result={"action": "accept", "content": {}})
        self.assertEqual((await self.receive())["id"], 2)
        self.assertEqual(self.written(), "second")
        await self.send(id=first["id"], result={"action": "decline"})
        self.assertTrue((await self.receive())["result"]["isError"])
        self.assertEqual(self.written(), "second")

    async def test_an_answer_to_nothing_opens_nothing(self):
        for number in (0, 1, 99, "1"):
            await self.send(id=number, result={"action": "accept", "content": {}})
        question = await self.begin(1)
        for answer in ({"action": "yes"}, {"content": {}}, [], None, {"action": "accept", "content": {"scope": "for ever"}}):
            # A malformed answer may end the question with no, and never with yes.
            await self.send(id=question["id"], result=answer)
        self.assertTrue((await self.receive())["result"]["isError"])
        self.assertEqual(self.written(), "")
