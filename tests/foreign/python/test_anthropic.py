"""The official Anthropic client talks with a scripted model."""

import anthropic
import httpx2

from scripts import SCHEMA, ScriptedTest
from support import PATIENCE

TOOLS = [{"name": name, "description": "x", "input_schema": SCHEMA} for name in ("read_file", "list_directory")]


class Messages(ScriptedTest):
    wire = "anthropic"

    def client(self, url=None, **options):
        options.setdefault("max_retries", 0)
        client = anthropic.Anthropic(base_url=url or self.url, api_key="any", timeout=PATIENCE, **options)
        self.addCleanup(client.close)
        return client

    def ask(self, messages, streamed, client=None, **more):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        arguments = {"model": "demo", "max_tokens": 4096, "messages": messages, "tools": TOOLS} | more
        client = client or self.client()
        if not streamed:
            return client.messages.create(**arguments)
        with client.messages.stream(**arguments) as stream:
            return stream.get_final_message()

    def both(self, check):
        for streamed in (False, True):
            with self.subTest(streamed=streamed):
                check(streamed)

    def test_text(self):
        def check(streamed):
            message = self.ask("hello", streamed)
            self.assertEqual(message.content[0].text, "Hello from the script, in more than one delta. Äöü!")
            self.assertEqual((message.stop_reason, message.model), ("end_turn", "demo"))
            self.assertGreater(message.usage.input_tokens, 10)

        self.both(check)

    def test_text_comes_in_deltas(self):
        with self.client().messages.stream(
            model="demo", max_tokens=64, messages=[{"role": "user", "content": "hello"}]
        ) as stream:
            deltas = list(stream.text_stream)
        self.assertGreater(len(deltas), 1)
        self.assertEqual("".join(deltas), "Hello from the script, in more than one delta. Äöü!")

    def test_thinking(self):
        def check(streamed):
            thinking, text = self.ask("thoughts", streamed, thinking={"type": "adaptive"}).content
            self.assertTrue(thinking.thinking.startswith("First I consider"))
            self.assertTrue(thinking.signature)
            self.assertEqual(text.text, "I have thought.")
            omitted = self.ask("thoughts", streamed, thinking={"type": "adaptive", "display": "omitted"}).content[0]
            self.assertEqual(omitted.thinking, "")
            self.assertTrue(omitted.signature)
            without = self.ask("thoughts", streamed, thinking={"type": "disabled"}).content
            self.assertEqual([block.type for block in without], ["text"])

        self.both(check)

    def test_a_call_and_its_result(self):
        def check(streamed):
            asked = [{"role": "user", "content": "what is in the README?"}]
            message = self.ask(asked, streamed)
            self.assertEqual([block.type for block in message.content], ["thinking", "text", "tool_use"])
            self.assertEqual(message.stop_reason, "tool_use")
            call = message.content[2]
            self.assertEqual((call.name, call.input["lines"]), ("read_file", [1, 2]))
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "Hello, reader"}
            asked += [message.to_param(), {"role": "user", "content": [result]}]
            answer = self.ask(asked, streamed)
            self.assertEqual(answer.content[0].text, "It says: Hello, reader")

        self.both(check)

    def test_a_call_without_arguments(self):
        def check(streamed):
            (call,) = self.ask("there is nothing to say to it", streamed).content
            self.assertEqual((call.name, call.input), ("list_directory", {}))

        self.both(check)

    def test_several_calls_and_usage(self):
        def check(streamed):
            asked = [{"role": "user", "content": "read both"}]
            message = self.ask(asked, streamed)
            calls = [block for block in message.content if block.type == "tool_use"]
            self.assertEqual([call.input["path"] for call in calls], ["one.txt", "two.txt"])
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": "x"} for call in calls]
            answer = self.ask(asked + [message.to_param(), {"role": "user", "content": results}], streamed)
            self.assertEqual(answer.content[0].text, "Both were read.")
            usage = answer.usage
            self.assertEqual((usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens), (60, 40, 20))

        self.both(check)

    def test_an_answer_that_is_cut(self):
        self.both(lambda streamed: self.assertEqual(self.ask("cut it", streamed).stop_reason, "max_tokens"))

    def test_the_list_of_models(self):
        (model,) = self.client().models.list().data
        self.assertEqual((model.id, model.max_input_tokens), ("demo", 200_000))

    def refused(self, part, **request):
        with self.assertRaises(anthropic.BadRequestError) as raised:
            self.client().messages.create(**({"model": "demo", "max_tokens": 64} | request))
        self.assertIn(part, raised.exception.api_message)
        self.assertEqual(raised.exception.type, "invalid_request_error")

    def test_requests_that_make_no_sense_are_refused(self):
        user = {"role": "user", "content": "hi"}
        use = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
        asked = [user, {"role": "assistant", "content": [use]}]
        for part, messages in [
            ("without `tool_result` blocks", asked + [user]),
            ("unexpected `tool_use_id`", [user, {"role": "assistant", "content": "hm"}, {"role": "user", "content": [result]}]),
            ("must have a single result", asked + [{"role": "user", "content": [result, result]}]),
            ("non-empty", [{"role": "user", "content": [{"type": "text", "text": ""}]}]),
            ("prefill", [user, {"role": "assistant", "content": "The answer is"}]),
            ("role", [{"role": "tool", "content": "x"}]),
        ]:
            with self.subTest(part):
                self.refused(part, messages=messages, tools=TOOLS)
        self.refused("must define tools", messages=asked + [{"role": "user", "content": [result]}])
        self.refused("temperature", messages=[user], extra_body={"temperature": 0.5})
        self.refused("match pattern", messages=[user], tools=[{"name": "fs.read", "input_schema": SCHEMA}])
        self.refused("max_tokens", messages=[user], max_tokens=1_000_000)

    def test_thinking_that_was_changed_or_left_out_is_refused(self):
        message = self.ask("what is in the README?", False)
        user = {"role": "user", "content": "what is in the README?"}
        call = message.content[2]
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Hello"}]}
        blocks = [block.to_dict() for block in message.content]
        for part, content in [
            ("signature", [blocks[0] | {"thinking": "Something else."}, *blocks[1:]]),
            ("signature", [blocks[0] | {"signature": "0000t0.ffff"}, *blocks[1:]]),
            ("Expected `thinking`", blocks[1:]),
        ]:
            self.refused(part, messages=[user, {"role": "assistant", "content": content}, result], tools=TOOLS)

    def test_errors_are_the_clients_own(self):
        for status, error, kind in [
            (401, anthropic.AuthenticationError, "authentication_error"),
            (403, anthropic.PermissionDeniedError, "permission_error"),
            (404, anthropic.NotFoundError, "not_found_error"),
            (429, anthropic.RateLimitError, "rate_limit_error"),
            (500, anthropic.InternalServerError, "api_error"),
            (529, anthropic.OverloadedError, "overloaded_error"),
        ]:
            with self.subTest(status):
                client = self.client(self.serve(f"steps: [{{fault: {{status: {status}, message: no}}}}]"))
                with self.assertRaises(error) as raised:
                    self.ask("hi", False, client)
                self.assertEqual((raised.exception.type, raised.exception.api_message), (kind, "no"))
        with self.assertRaises(anthropic.NotFoundError):
            self.ask("hello", False, model="another")

    def test_a_spent_allowance_has_a_code(self):
        fault = "{status: 429, code: enforced_spend_limit_reached, should_retry: false}"
        client = self.client(self.serve(f"steps: [{{fault: {fault}}}]"), max_retries=5)
        with self.assertRaises(anthropic.RateLimitError) as raised:
            self.ask("hi", False, client)
        self.assertEqual(raised.exception.error_code, "enforced_spend_limit_reached")

    def test_hints_are_obeyed(self):
        script = "steps: [{fault: {status: 529, retry_after_ms: 1, times: 2}, say: at last}]"
        client = self.client(self.serve(script), max_retries=2)
        self.assertEqual(self.ask("hi", False, client).content[0].text, "at last")
        script = "steps: [{fault: {status: 500, should_retry: false, times: 1}, say: too late}]"
        with self.assertRaises(anthropic.InternalServerError):
            self.ask("hi", False, self.client(self.serve(script), max_retries=2))

    def test_a_stream_that_fails_says_so(self):
        with self.assertRaises(anthropic.APIStatusError) as raised:
            self.ask("hi", True, self.client(self.serve("steps: [{say: Hello, fault: error_in_stream}]")))
        self.assertEqual(raised.exception.type, "overloaded_error")
        for fault in ("reset", "{kind: reset, after_bytes: 700}"):
            with self.subTest(fault), self.assertRaises(httpx2.TransportError):
                self.ask("hi", True, self.client(self.serve(f"steps: [{{say: Hello, fault: {fault}}}]")))

    def test_what_nobody_knows_is_passed_over(self):
        script = "steps: [{do: [{fault: comment}, {fault: unknown_event}, {say: Hello}]}]"
        self.assertEqual(self.ask("hi", True, self.client(self.serve(script))).content[0].text, "Hello")
