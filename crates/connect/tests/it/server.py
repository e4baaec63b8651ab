"""An MCP server without a library, honest or not, as its first argument says."""

import itertools
import json
import os
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "honest"
NOTES = sys.argv[2] if len(sys.argv) > 2 else None
LOCK = threading.Lock()
CANCELLED = set()
ANSWERS = {}
OUT = sys.stdout.buffer


def write(data):
    with LOCK:
        OUT.write(data)
        OUT.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def note(name, text=""):
    if NOTES:
        with open(os.path.join(NOTES, name), "a") as file:
            file.write(text + "\n")


def noted(name, otherwise):
    try:
        with open(os.path.join(NOTES, name)) as file:
            return file.read().strip()
    except (OSError, TypeError):
        return otherwise


def await_note(name):
    while not os.path.exists(os.path.join(NOTES, name)):
        time.sleep(0.01)


def tool(name, description, schema=None, **more):
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}, **more}


def tools():
    if MODE == "many":
        return [tool(f"t{index}", "x") for index in range(1001)]
    if MODE == "checks":
        return [tool("slow_check", "Declares what takes long to check.", outputSchema={"type": "object", "properties": {"a": {"items": {"allOf": [{"not": {"const": part}} for part in range(1500)]}}}})]
    if MODE == "patterns":
        return [tool(f"t{index:02}", "x", {"type": "object", "properties": {"a": {"allOf": [{"pattern": "\\w{900}%d" % part} for part in range(8)]}}}) for index in range(30)] + [tool("without", "x")]
    if MODE == "names":
        names = ["", "x" * 129, "Read", "read", "get-item", "get_item", "b__plain", "good"]
        return [tool(name, "fine") for name in names]
    if MODE == "plain":
        return [tool("plain", "fine"), tool("other", "fine")]
    if MODE == "odd":
        return [
            tool("good", "fine"),
            tool("spaced name", "no name for a tool"),
            tool("good", "the second of its name"),
            tool("string_schema", "x", {"type": "string"}),
            tool("ahead", "x", {"type": "object", "properties": {"a": {"not": {"pattern": "^(?!x)"}}}}),
            tool("back", "x", outputSchema={"type": "object", "properties": {"a": {"not": {"pattern": "(.*)\\1x"}}}}),
            tool("large", "x", {"type": "object", "properties": {"a": {"allOf": [{"pattern": "\\w{4000}%d" % index} for index in range(6500)]}}}),
            tool("outside", "x", {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/s"}}}),
            {"name": "no_schema"},
            {"name": 5, "inputSchema": {}},
        ]
    listed = [
        tool("echo", noted("description", "Says it again."), {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}),
        tool(
            "add",
            "Adds two numbers.",
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
            title="Add",
            outputSchema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
            annotations={"readOnlyHint": True},
        ),
        tool("lie", "Declares a number and answers with text.", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    ]
    for name in ["slow", "fail", "ask", "die", "hang", "garbage", "half", "twice", "wrong", "unasked", "endless", "errors", "picture", "deaf", "idless", "environment", "ignore", "strays", "wait", "progress", "own_progress", "bigline", "heavy", "blank"]:
        listed.append(tool(name, "Misbehaves."))
    icon = noted("icon", "")
    if icon:
        listed[0]["icons"] = [{"src": "https://example.com/a.png"}, {"src": icon, "sizes": ["48x48"], "theme": "dark"}]
    extra = noted("extra", "")
    if extra:
        listed.append(tool(extra, "Came later."))
    if noted("gone", ""):
        listed = [one for one in listed if one["name"] != noted("gone", "")]
    return listed


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def call(identity, params):
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    answer = lambda result: send({"id": identity, "result": result})
    if name == "echo":
        answer(text(arguments["text"]))
    elif name == "add":
        total = arguments["a"] + arguments["b"]
        answer(text(str(total), structuredContent={"sum": total}))
    elif name == "slow_check":
        answer(text("x", structuredContent={"a": ["x"] * 150_000}))
    elif name == "lie":
        answer(text("no", structuredContent={"n": "many"}))
    elif name == "slow":
        for step in range(3):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}\u202e"}})
            # The gate rate-limits progress, so the next update is sent a while after this one was received.
            await_note(f"heard {step}")
            time.sleep(0.05)
        # Progress with an unknown token is dropped.
        send({"method": "notifications/progress", "params": {"progressToken": "other", "progress": 9, "message": "stray"}})
        answer(text("done"))
    elif name == "fail":
        answer(text("the row is locked\u202e", isError=True))
    elif name == "ask":
        said = {}
        for method, asked in [("sampling/createMessage", {"messages": [], "maxTokens": 1}), ("elicitation/create", {"message": "password?", "requestedSchema": {"type": "object", "properties": {}}}), ("roots/list", {}), ("ping", {})]:
            wait = threading.Event()
            ANSWERS[method] = [wait, None]
            send({"id": method, "method": method, "params": asked})
            wait.wait()
            said[method] = ANSWERS[method][1]
        answer(text(json.dumps(said)))
    elif name == "die":
        print("a lamp went out", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "hang":
        note("hanging")
        while identity not in CANCELLED:
            time.sleep(0.01)
        note("cancelled", "hang")
        # A response after the cancellation is dropped.
        answer(text("late"))
    elif name == "ignore":
        pass
    elif name == "wait":
        note("waiting")
        await_note("go")
        answer(text("waited"))
    elif name == "garbage":
        write(b"this is not JSON\n" * 500)
    elif name == "half":
        write(b'{"jsonrpc": "2.0", "id": %d, "resu' % identity)
        os._exit(0)
    elif name == "twice":
        answer(text("first"))
        answer(text("second"))
    elif name == "wrong":
        send({"id": identity + 1000, "result": text("for somebody else")})
        send({"id": "nobody", "result": text("for nobody")})
        send({"id": str(identity), "result": text("right")})
    elif name == "unasked":
        while True:
            write(b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}\n' * 100)
    elif name == "strays":
        while True:
            write(b'{"jsonrpc": "2.0", "id": 987654, "result": {"content": []}}\n' * 100)
    elif name == "progress" or name == "own_progress":
        about = json.dumps("nobody" if name == "progress" else token).encode()
        while True:
            write((b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": ' + about + b', "progress": 1}}\n') * 100)
    elif name == "bigline":
        line = b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "x": [' + b"0," * 7_000_000 + b"0]}}\n"
        for _ in range(3):
            write(line)
        answer(text("still here"))
    elif name == "heavy":
        write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [], "structuredContent": {"x": [' % identity + b"0," * 7_000_000 + b"0]}}}\n")
    elif name == "blank":
        while True:
            write(b"\n" * 10_000)
    elif name == "endless":
        while True:
            write(b"x" * 65536)
    elif name == "errors":
        for _ in range(200):
            sys.stderr.write("e" * 65536)
        answer(text("done"))
    elif name == "picture":
        answer({"content": [{"type": "image", "mimeType": "image/png", "data": "aGk="}, {"type": "text", "text": "a\u001b[31m picture"}]})
    elif name == "deaf":
        global DEAF
        DEAF = True
        answer(text("I hear nothing any longer"))
    elif name == "idless":
        send({"error": {"code": -32700, "message": "what?"}, "id": None})
        answer(text("still here"))
    elif name == "environment":
        answer(text(json.dumps(sorted(os.environ))))
    else:
        send({"id": identity, "error": {"code": -32602, "message": "unknown tool"}})


DEAF = False
STATELESS = ("newer", "late", "locked")
HELD_DISCOVER = []


def respond(message):
    method, identity, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        waiting = ANSWERS.get(identity)
        if waiting:
            waiting[1] = message.get("result", message.get("error"))
            waiting[0].set()
    elif method == "server/discover" and MODE == "locked" and not HELD_DISCOVER:
        # Serves this protocol from here on, and answers once `initialize` was refused.
        HELD_DISCOVER.append(message)
    elif method == "server/discover" and MODE in STATELESS:
        send({"id": identity, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "fixture", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}})
    elif method == "server/discover" and MODE == "fragile":
        os._exit(4)
    elif method == "server/discover" and MODE == "silent":
        pass
    elif method == "initialize" and MODE == "locked":
        note("initialized", "refused")
        send({"id": identity, "error": {"code": -32600, "message": "connection is serving the 2026-07-28 protocol"}})
        for held in HELD_DISCOVER:
            respond(held)
    elif method == "initialize" and MODE in STATELESS:
        send({"id": identity, "error": {"code": -32601, "message": "no such method"}})
    elif method == "notifications/initialized" and MODE in STATELESS:
        note("initialized", "in vain")
    elif method == "initialize":
        if MODE == "mute":
            return
        if MODE == "refuse":
            send({"id": identity, "error": {"code": -32000, "message": "no\u202e"}})
            return
        note("started", str(os.getpid()))
        send({"id": identity, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "fixture", "version": "1"}}})
    elif method == "subscriptions/listen":
        send({"method": "notifications/subscriptions/acknowledged", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": identity}, "notifications": {"toolsListChanged": True}}})
    elif method == "tools/list":
        if MODE == "pages":
            send({"id": identity, "result": {"tools": [], "nextCursor": "again"}})
        else:
            send({"id": identity, "result": {"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"} if MODE in STATELESS else {"tools": tools()}})
    elif method == "tools/call":
        # After the response of `deaf` nothing is read any more.
        if params.get("name") in ("echo", "deaf"):
            call(identity, params)
        else:
            threading.Thread(target=call, args=(identity, params), daemon=True).start()
    elif method == "notifications/cancelled":
        CANCELLED.add(params.get("requestId"))
    elif identity is not None:
        send({"id": identity, "error": {"code": -32601, "message": "no such method"}})


def declared():
    return (noted("description", ""), noted("extra", ""), noted("gone", ""), noted("icon", ""))


def watch(last):
    while True:
        now = declared()
        if now != last:
            send({"method": "notifications/tools/list_changed"})
        last = now
        time.sleep(0.02)


if MODE == "dead":
    sys.stderr.write("cannot find my licence\n")
    sys.exit(1)
if MODE == "greeting":
    write(b"Welcome!\nListening on stdio\n\n")
if MODE == "babble":
    while True:
        write(b"blah\n" * 1000)
if NOTES:
    # The state before the first response is no change.
    threading.Thread(target=watch, args=(declared(),), daemon=True).start()
HELD = []
if MODE == "late" and not noted("late", ""):
    # On its first start it becomes ready only after the probe timeout, when the gate has sent `initialize`.
    note("late", "once")
    HELD = [sys.stdin.buffer.readline(), sys.stdin.buffer.readline()]
for line in itertools.chain(HELD, sys.stdin.buffer):
    if line.strip():
        respond(json.loads(line))
    while DEAF:
        time.sleep(1)
