"""The official OpenAI client talks with a scripted model: Responses, and Chat Completions."""

import json

import openai

from scripts import SCHEMA, ScriptedTest
from support import PATIENCE

HELLO = "Hello from the script, in more than one delta. Äöü!"
ENCRYPTED = {"store": False, "include": ["reasoning.encrypted_content"]}


class OpenaiTest(ScriptedTest):
    def client(self, url=None, **options):
        options.setdefault("max_retries", 0)
        client = openai.OpenAI(base_url=url or self.url, api_key="any", timeout=PATIENCE, **options)
        self.addCleanup(client.close)
        return client

    def both(self, check):
        for streamed in (False, True):
            with self.subTest(streamed=streamed):
                check(streamed)

    def errors_are_the_clients_own(self):
        for status, error in [
            (400, openai.BadRequestError),
            (401, openai.AuthenticationError),
            (403, openai.PermissionDeniedError),
            (404, openai.NotFoundError),
            (429, openai.RateLimitError),
            (500, openai.InternalServerError),
        ]:
            with self.subTest(status):
                fault = f"{{status: {status}, message: no, code: because}}"
                with self.assertRaises(error) as raised:
                    self.ask("hi", False, self.client(self.serve(f"steps: [{{fault: {fault}}}]")))
                self.assertEqual((raised.exception.body["message"], raised.exception.code), ("no", "because"))
        with self.assertRaises(openai.NotFoundError) as raised:
            self.ask("hello", False, model="another")
        self.assertEqual(raised.exception.code, "model_not_found")

    def hints_are_obeyed(self):
        script = "steps: [{fault: {status: 429, retry_after_ms: 1, times: 2}, say: at last}]"
        self.assertIn("at last", str(self.ask("hi", False, self.client(self.serve(script), max_retries=2))))
        script = "steps: [{fault: {status: 500, should_retry: false, times: 1}, say: too late}]"
        with self.assertRaises(openai.InternalServerError):
            self.ask("hi", False, self.client(self.serve(script), max_retries=2))

    def streams_that_break_are_errors(self):
        for fault in ("reset", "{kind: reset, after_bytes: 700}"):
            with self.subTest(fault), self.assertRaises(openai.APIConnectionError):
                self.ask("hi", True, self.client(self.serve(f"steps: [{{say: Hello, fault: {fault}}}]")))


class Responses(OpenaiTest):
    wire = "openai"
    TOOLS = [
        {"type": "function", "name": name, "description": "x", "parameters": SCHEMA, "strict": False}
        for name in ("read_file", "list_directory")
    ]

    def ask(self, items, streamed, client=None, **more):
        arguments = {"model": "demo", "input": items, "tools": self.TOOLS} | more
        client = client or self.client()
        if not streamed:
            return client.responses.create(**arguments)
        with client.responses.stream(**arguments) as stream:
            return stream.get_final_response()

    def test_text(self):
        def check(streamed):
            response = self.ask("hello", streamed)
            self.assertEqual((response.output_text, response.status), (HELLO, "completed"))
            self.assertEqual(response.usage.total_tokens, response.usage.input_tokens + response.usage.output_tokens)

        self.both(check)

    def test_events_come_in_order(self):
        events = list(self.client().responses.create(model="demo", input="thoughts", stream=True, reasoning={"summary": "auto"}))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        kinds = []
        for event in events:
            if event.type not in kinds[-1:]:
                kinds.append(event.type)
        text = ["response.content_part.added", "response.output_text.delta", "response.output_text.done", "response.content_part.done"]
        summary = [f"response.reasoning_summary_{part}" for part in ("part.added", "text.delta", "text.done", "part.done")]
        added, done = "response.output_item.added", "response.output_item.done"
        begin = ["response.created", "response.in_progress"]
        self.assertEqual(kinds, [*begin, added, *summary, done, added, *text, done, "response.completed"])

    def test_reasoning(self):
        def check(streamed):
            reasoning, message = self.ask("thoughts", streamed, reasoning={"summary": "auto"}, **ENCRYPTED).output
            self.assertTrue(reasoning.summary[0].text.startswith("First I consider"))
            self.assertTrue(reasoning.encrypted_content)
            self.assertEqual(message.content[0].text, "I have thought.")
            self.assertEqual(self.ask("thoughts", streamed).output[0].summary, [])
            none = self.ask("thoughts", streamed, reasoning={"effort": "none"}).output
            self.assertEqual([item.type for item in none], ["message"])

        self.both(check)

    def test_a_call_and_its_output(self):
        def check(streamed):
            asked = [{"role": "user", "content": "what is in the README?"}]
            response = self.ask(asked, streamed, **ENCRYPTED)
            self.assertEqual([item.type for item in response.output], ["reasoning", "message", "function_call"])
            call = response.output[2]
            self.assertEqual((call.name, json.loads(call.arguments)["lines"]), ("read_file", [1, 2]))
            asked += response.output
            asked.append({"type": "function_call_output", "call_id": call.call_id, "output": "Hello, reader"})
            self.assertEqual(self.ask(asked, streamed, **ENCRYPTED).output_text, "It says: Hello, reader")

        self.both(check)

    def test_several_calls_and_usage(self):
        def check(streamed):
            asked = [{"role": "user", "content": "read both"}]
            response = self.ask(asked, streamed)
            self.assertEqual([json.loads(call.arguments)["path"] for call in response.output], ["one.txt", "two.txt"])
            outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "x"} for call in response.output]
            answer = self.ask(asked + response.output + outputs, streamed)
            self.assertEqual(answer.output_text, "Both were read.")
            usage = answer.usage
            self.assertEqual((usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens), (100, 40, 20))

        self.both(check)

    def test_an_answer_that_is_cut(self):
        response = self.ask("cut it", False)
        self.assertEqual((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        last = list(self.client().responses.create(model="demo", input="cut it", stream=True))[-1]
        self.assertEqual(last.type, "response.incomplete")

    def refused(self, part, status=400, **request):
        with self.assertRaises(openai.APIStatusError) as raised:
            self.client().responses.create(**({"model": "demo", "input": "hi"} | request))
        self.assertEqual(raised.exception.status_code, status)
        self.assertIn(part, raised.exception.body["message"])

    def test_requests_that_make_no_sense_are_refused(self):
        user = {"role": "user", "content": "hi"}
        call = {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
        for part, items in [
            ("No tool output found", [user, call]),
            ("No tool call found", [user, output]),
            ("begins with 'fc'", [user, call | {"id": "call_1"}, output]),
            ("'output_text' and 'refusal'", [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]),
            ("Supported values are", [{"role": "tool", "content": "x"}]),
        ]:
            with self.subTest(part):
                self.refused(part, input=items, tools=self.TOOLS)
        self.refused("Unknown parameter", extra_body={"max_tokens": 100})
        self.refused("Expected a value >= 16", max_output_tokens=1)
        self.refused("Missing required parameter: 'tools[0].name'", tools=[{"type": "function", "function": {"name": "x"}}])
        self.refused("'additionalProperties' is required", tools=[self.TOOLS[0] | {"strict": True}])
        self.refused("only allowed when 'tools'", tool_choice="none")
        self.refused("not found", previous_response_id="resp_1")

    def test_reasoning_that_was_changed_or_left_out_is_refused(self):
        user = {"role": "user", "content": "what is in the README?"}
        reasoning, message, call = (item.to_dict() for item in self.ask([user], False, **ENCRYPTED).output)
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "Hello"}
        for part, status, items in [
            ("could not be verified", 400, [reasoning | {"encrypted_content": "x"}, message, call]),
            ("not found", 404, [reasoning | {"encrypted_content": None}, message, call]),
            ("without its required 'reasoning' item", 400, [message, call]),
            ("without its required following item", 400, [message, call, reasoning]),
        ]:
            with self.subTest(part):
                self.refused(part, status, input=[user, *items, output], tools=self.TOOLS, **ENCRYPTED)

    def test_a_stream_that_fails_says_so(self):
        client = self.client(self.serve("steps: [{say: Hello, fault: error_in_stream}]"))
        last = list(client.responses.create(model="demo", input="hi", stream=True))[-1]
        self.assertEqual((last.type, last.response.error.code), ("response.failed", "server_error"))

    def test_errors_hints_and_breaks(self):
        self.errors_are_the_clients_own()
        self.hints_are_obeyed()
        self.streams_that_break_are_errors()


class Chat(OpenaiTest):
    wire = "openai-chat"
    TOOLS = [
        {"type": "function", "function": {"name": name, "description": "x", "parameters": SCHEMA}}
        for name in ("read_file", "list_directory")
    ]

    def ask(self, messages, streamed, client=None, **more):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        arguments = {"model": "demo", "messages": messages, "tools": self.TOOLS} | more
        client = client or self.client()
        if not streamed:
            return client.chat.completions.create(**arguments)
        arguments["stream_options"] = {"include_usage": True}
        with client.chat.completions.stream(**arguments) as stream:
            return stream.get_final_completion()

    def test_text(self):
        def check(streamed):
            completion = self.ask("hello", streamed)
            (choice,) = completion.choices
            self.assertEqual((choice.message.content, choice.finish_reason), (HELLO, "stop"))
            self.assertGreater(completion.usage.prompt_tokens, 10)

        self.both(check)

    def test_usage_is_told_when_it_is_asked_for(self):
        messages = [{"role": "user", "content": "hello"}]
        chunks = list(self.client().chat.completions.create(model="demo", messages=messages, stream=True))
        self.assertTrue(all(chunk.choices and chunk.usage is None for chunk in chunks))
        options = {"include_usage": True}
        chunks = list(self.client().chat.completions.create(model="demo", messages=messages, stream=True, stream_options=options))
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)

    def test_reasoning(self):
        def check(streamed):
            message = self.ask("thoughts", streamed).choices[0].message
            self.assertTrue(message.reasoning_content.startswith("First I consider"))
            self.assertEqual(message.content, "I have thought.")

        self.both(check)

    def test_a_call_and_its_result(self):
        def check(streamed):
            asked = [{"role": "user", "content": "what is in the README?"}]
            (choice,) = self.ask(asked, streamed).choices
            self.assertEqual((choice.finish_reason, choice.message.content), ("tool_calls", "I will read it."))
            (call,) = choice.message.tool_calls
            self.assertEqual((call.function.name, json.loads(call.function.arguments)["lines"]), ("read_file", [1, 2]))
            calls = [{"id": call.id, "type": "function", "function": {"name": "read_file", "arguments": call.function.arguments}}]
            asked += [
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": call.id, "content": "Hello, reader"},
            ]
            self.assertEqual(self.ask(asked, streamed).choices[0].message.content, "It says: Hello, reader")

        self.both(check)

    def test_several_calls_and_usage(self):
        def check(streamed):
            asked = [{"role": "user", "content": "read both"}]
            message = self.ask(asked, streamed).choices[0].message
            self.assertEqual([json.loads(call.function.arguments)["path"] for call in message.tool_calls], ["one.txt", "two.txt"])
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": "{}"}}
                for call in message.tool_calls
            ]
            asked.append({"role": "assistant", "content": None, "tool_calls": calls})
            asked += [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls]
            answer = self.ask(asked, streamed)
            self.assertEqual(answer.choices[0].message.content, "Both were read.")
            usage = answer.usage
            self.assertEqual((usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens), (100, 40, 20))

        self.both(check)

    def test_an_answer_that_is_cut(self):
        self.assertEqual(self.ask("cut it", False).choices[0].finish_reason, "length")
        with self.assertRaises(openai.LengthFinishReasonError):
            self.ask("cut it", True)

    def test_the_list_of_models(self):
        (model,) = self.client().models.list().data
        self.assertEqual(model.id, "demo")

    def refused(self, part, **request):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.client().chat.completions.create(**({"model": "demo", "messages": [{"role": "user", "content": "hi"}]} | request))
        self.assertIn(part, raised.exception.body["message"])

    def test_requests_that_make_no_sense_are_refused(self):
        user = {"role": "user", "content": "hi"}
        call = {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
        called = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
        for part, messages in [
            ("did not have response messages: call_1", [user, called, user]),
            ("must be a response to a preceeding message", [user, result]),
            ("must be a response to a preceeding message", [user, called, result, result]),
            ("expected a string, got null", [user, {"role": "assistant", "content": None}]),
            ("empty array", [user, {"role": "assistant", "content": "x", "tool_calls": []}]),
            ("Supported values are", [{"role": "robot", "content": "x"}]),
        ]:
            with self.subTest(part):
                self.refused(part, messages=messages, tools=self.TOOLS)
        self.refused("Unrecognized request argument", extra_body={"thinking": True})
        self.refused("only allowed when 'stream'", stream_options={"include_usage": True})
        self.refused("only allowed when 'tools'", tool_choice="none")
        self.refused("does not match pattern", tools=[{"type": "function", "function": {"name": "fs.read", "parameters": SCHEMA}}])

    def test_a_stream_that_fails_says_so(self):
        with self.assertRaises(openai.APIError) as raised:
            self.ask("hi", True, self.client(self.serve("steps: [{say: Hello, fault: {kind: error_in_stream, message: gone}}]")))
        self.assertEqual(raised.exception.message, "gone")

    def test_what_nobody_knows_is_passed_over(self):
        client = self.client(self.serve("steps: [{do: [{fault: comment}, {say: Hello}]}]"))
        self.assertEqual(self.ask("hi", True, client).choices[0].message.content, "Hello")

    def test_errors_hints_and_breaks(self):
        self.errors_are_the_clients_own()
        self.hints_are_obeyed()
        self.streams_that_break_are_errors()


# The base is no test of its own.
del OpenaiTest
