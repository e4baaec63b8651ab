"""The official Ollama client talks with a scripted model."""

import httpx
import ollama

from scripts import SCHEMA, ScriptedTest
from support import PATIENCE

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "x", "parameters": SCHEMA}}
    for name in ("read_file", "list_directory")
]


class Chat(ScriptedTest):
    wire = "ollama"

    def ask(self, messages, streamed, client=None, **more):
        """The message, whole or put together from its pieces, and the last piece."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        arguments = {"model": "demo", "messages": messages, "tools": TOOLS} | more
        client = client or ollama.Client(host=self.url, timeout=PATIENCE)
        if not streamed:
            answer = client.chat(**arguments)
            return answer.message, answer
        pieces = list(client.chat(stream=True, **arguments))
        self.assertEqual([piece.done for piece in pieces], [False] * (len(pieces) - 1) + [True])
        messages = [piece.message for piece in pieces]
        message = ollama.Message(
            role="assistant",
            content="".join(message.content or "" for message in messages),
            thinking="".join(message.thinking or "" for message in messages) or None,
            tool_calls=[call for message in messages for call in message.tool_calls or []] or None,
        )
        return message, pieces[-1]

    def both(self, check):
        for streamed in (False, True):
            with self.subTest(streamed=streamed):
                check(streamed)

    def test_text(self):
        def check(streamed):
            message, last = self.ask("hello", streamed)
            self.assertEqual(message.content, "Hello from the script, in more than one delta. Äöü!")
            self.assertEqual((last.done, last.done_reason), (True, "stop"))
            self.assertGreater(last.prompt_eval_count, 10)

        self.both(check)

    def test_thinking(self):
        def check(streamed):
            message, _ = self.ask("thoughts", streamed, think=True)
            self.assertTrue(message.thinking.startswith("First I consider"))
            self.assertEqual(message.content, "I have thought.")
            message, _ = self.ask("thoughts", streamed, think=False)
            self.assertIsNone(message.thinking)

        self.both(check)

    def test_a_call_and_its_result(self):
        def check(streamed):
            asked = [{"role": "user", "content": "what is in the README?"}]
            message, _ = self.ask(asked, streamed)
            (call,) = message.tool_calls
            self.assertEqual((call.function.name, call.function.arguments["lines"]), ("read_file", [1, 2]))
            asked += [message, {"role": "tool", "tool_name": "read_file", "content": "Hello, reader"}]
            answer, _ = self.ask(asked, streamed)
            self.assertEqual(answer.content, "It says: Hello, reader")

        self.both(check)

    def test_several_calls_and_usage(self):
        def check(streamed):
            asked = [{"role": "user", "content": "read both"}]
            message, _ = self.ask(asked, streamed)
            self.assertEqual([call.function.arguments["path"] for call in message.tool_calls], ["one.txt", "two.txt"])
            result = {"role": "tool", "tool_name": "read_file", "content": "x"}
            answer, last = self.ask([*asked, message, result, result], streamed)
            self.assertEqual(answer.content, "Both were read.")
            self.assertEqual((last.prompt_eval_count, last.eval_count), (100, 20))

        self.both(check)

    def test_an_answer_that_is_cut(self):
        self.both(lambda streamed: self.assertEqual(self.ask("cut it", streamed)[1].done_reason, "length"))

    def test_what_the_model_can_do(self):
        client = ollama.Client(host=self.url)
        self.assertEqual([model.model for model in client.list().models], ["demo"])
        shown = client.show("demo")
        self.assertEqual(shown.capabilities, ["completion", "tools", "thinking"])
        self.assertEqual(shown.modelinfo["scripted.context_length"], 200_000)
        plain = ollama.Client(host=self.serve("model: {tools: false, thinking: false}\nsteps: [{say: hi}]"))
        self.assertEqual(plain.show("any").capabilities, ["completion"])
        for words, more in [("does not support tools", {"tools": TOOLS}), ("does not support thinking", {"tools": None, "think": True})]:
            with self.assertRaises(ollama.ResponseError) as raised:
                self.ask("hi", False, plain, **more)
            self.assertIn(words, raised.exception.error)

    def test_a_conversation_that_does_not_fit_loses_its_front(self):
        long = [{"role": "user", "content": "both " * 4000}, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "hello"}]
        _, last = self.ask(long, False)
        self.assertEqual(last.prompt_eval_count, 4096)
        _, last = self.ask(long, False, options={"num_ctx": 32_000})
        self.assertGreater(last.prompt_eval_count, 4096)

    def test_errors_are_the_clients_own(self):
        for status in (400, 404, 429, 500):
            with self.subTest(status), self.assertRaises(ollama.ResponseError) as raised:
                self.ask("hi", False, ollama.Client(host=self.serve(f"steps: [{{fault: {{status: {status}, message: no}}}}]")))
            self.assertEqual((raised.exception.status_code, raised.exception.error), (status, "no"))
        with self.assertRaises(ollama.ResponseError) as raised:
            self.ask("hello", False, model="another")
        self.assertEqual(raised.exception.error, "model 'another' not found")

    def test_requests_that_make_no_sense_are_refused(self):
        result = {"role": "tool", "tool_name": "read_file", "content": "x"}
        for words, messages in [("was not called", [result]), ("has no tool_name", [{"role": "tool", "content": "x"}])]:
            with self.subTest(words), self.assertRaises(ollama.ResponseError) as raised:
                self.ask(messages, False)
            self.assertIn(words, raised.exception.error)

    def test_a_stream_that_fails_says_so(self):
        script = "steps: [{say: Hello, fault: {kind: error_in_stream, message: out of memory}}]"
        with self.assertRaises(ollama.ResponseError) as raised:
            self.ask("hi", True, ollama.Client(host=self.serve(script)))
        self.assertEqual(raised.exception.error, "out of memory")
        script = "steps: [{calls: [{tool: read_file, arguments_text: '{\"path'}]}]"
        with self.assertRaises(ollama.ResponseError) as raised:
            self.ask("hi", True, ollama.Client(host=self.serve(script)))
        self.assertIn("error parsing tool call", raised.exception.error)
        with self.assertRaises(httpx.TransportError):
            self.ask("hi", True, ollama.Client(host=self.serve("steps: [{say: Hello, fault: reset}]")))
