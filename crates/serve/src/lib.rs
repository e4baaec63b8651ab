//! The doors of the gate: MCP on stdio and over HTTP.
