"""A server without dependencies: `where` says from where its module was loaded."""

import json
import sys


def answer(request):
    method = request["method"]
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "where", "description": "Says where it is", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": __file__}]}
    return None


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request)
        found = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **found}), flush=True)
