//! Tools that live elsewhere: other MCP servers, behind the gate.
