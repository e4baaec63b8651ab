"""The tools of a suite as an MCP server, with the environment of the task that is being played.

A call that arrives here was let through by the gate, so the trace of the task is what arrived: a refused call is in no trace."""

import asyncio
import socket
from collections.abc import Sequence

import uvicorn
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from mcp import types
from mcp.server.lowlevel import Server


class SuiteTools:
    """Serves the tools of one suite on loopback. One task is played at a time."""

    def __init__(self, tools: Sequence):
        self.runtime = FunctionsRuntime(tools)
        self.environment = None
        self.trace: list[FunctionCall] = []
        server = Server("suite", on_list_tools=self.list_tools, on_call_tool=self.call_tool)
        self.listener = socket.create_server(("127.0.0.1", 0))
        application = server.streamable_http_app(host="127.0.0.1")
        self.http = uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/mcp"

    async def serve(self):
        await self.http.serve(sockets=[self.listener])

    async def stop(self):
        self.http.should_exit = True

    def play(self, environment):
        """Begins a task: its environment, and an empty trace."""
        self.environment, self.trace = environment, []

    async def list_tools(self, _context, _params) -> types.ListToolsResult:
        def schema(function):
            found = function.parameters.model_json_schema()
            found["title"] = function.name
            return found

        listed = [
            types.Tool(name=one.name, description=one.description, input_schema=schema(one))
            for one in self.runtime.functions.values()
        ]
        return types.ListToolsResult(tools=listed)

    async def call_tool(self, _context, params) -> types.CallToolResult:
        arguments = params.arguments or {}
        result, problem = self.runtime.run_function(self.environment, params.name, arguments)
        self.trace.append(FunctionCall(function=params.name, args=arguments))
        text = problem if problem is not None else tool_result_to_str(result)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=problem is not None)
