#!/usr/bin/env python3
"""A client of `toolgate serve` in the standard library: sends a message, prints the answer, asks on the terminal.

    toolgate serve --model scripted/demo &
    ./client.py http://127.0.0.1:8420 ~/.local/state/toolgate/keys/serve.token 'What is in this directory?'

With `--yes` every question is answered with yes, once.
"""

import argparse
import json
import pathlib
import sys
import urllib.error
import urllib.request


class Toolgate:
    """The HTTP API of one server, with one token."""

    def __init__(self, url, token):
        self.base = f"{url.rstrip('/')}/api/v1/"
        self.token = token

    def request(self, method, path, body=None):
        """The answer, opened. A refusal is a problem document (RFC 9457) that says what would help."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, headers=headers, method=method)
        try:
            return urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            raise SystemExit(f"{problem['code']}: {problem['detail']}. {problem.get('help', '')}".strip()) from None

    def post(self, path, body):
        with self.request("POST", path, body) as answer:
            return json.load(answer)

    def events(self, session, after=0):
        """The numbered events of a session as (name, data), from the one after `after` on (server-sent events)."""
        with self.request("GET", f"sessions/{session}/events?after={after}") as stream:
            event = {}
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name in ("event", "data"):
                    event[name] = value
                elif not name and "data" in event:
                    yield event.get("event"), json.loads(event["data"])
                    event = {}


def answer(gate, question, always_yes):
    """Shows a question as the server worded it, and sends what the person says."""
    for row in question["card"].get("rows", []):
        print(f"    {row['text']}", file=sys.stderr)
    yes = always_yes or input(f"{question['toolName']}: {' '.join(question['summary'])} [y/N] ").strip().lower() == "y"
    gate.post(f"approvals/{question['toolId']}", {"approved": yes, "scope": "once"} if yes else {"approved": False})


def main():
    parser = argparse.ArgumentParser(description="Send a message to an agent behind Toolgate.")
    parser.add_argument("url")
    parser.add_argument("token_file", type=pathlib.Path)
    parser.add_argument("message")
    parser.add_argument("--yes", action="store_true", help="answer every question with yes")
    arguments = parser.parse_args()
    gate = Toolgate(arguments.url, arguments.token_file.expanduser().read_text().strip())
    session = gate.post("sessions", {})["id"]
    gate.post(f"sessions/{session}/messages", {"text": arguments.message})
    for event, data in gate.events(session):
        if event == "chat:text-delta":
            print(data["text"], end="", flush=True)
        elif event == "chat:tool-confirm":
            answer(gate, data, arguments.yes)
        elif event == "chat:tool-result":
            print(f"[{data['toolName']}: {data['status']}]", file=sys.stderr)
        elif event == "chat:stream-end":
            print()
            return 0 if data["reason"] == "done" else 1
    return 1


if __name__ == "__main__":
    sys.exit(main())
