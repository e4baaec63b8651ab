"""A protected MCP server made with the official SDK: takes only tokens of one issuer that are made out for itself.

python protected.py ISSUER prints its address.
"""

import asyncio
import socket
import sys

import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer


class Verifier:
    """Checks the signature, the issuer, the audience and the time of a token."""

    def __init__(self, issuer, resource):
        self.issuer = issuer
        self.resource = resource
        self.keys = jwt.PyJWKClient(f"{issuer}/jwks")

    async def verify_token(self, token):
        try:
            key = await asyncio.to_thread(self.keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(token, key.key, ["RS256"], audience=self.resource, issuer=self.issuer)
        except jwt.PyJWTError as error:
            print(f"refused: {type(error).__name__}", file=sys.stderr, flush=True)
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=self.resource,
            subject=claims["sub"],
        )


def main():
    issuer = sys.argv[1]
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    auth = AuthSettings(
        issuer_url=issuer, resource_server_url=url, required_scopes=["issues:read"], validate_token_resource=True
    )
    server = MCPServer("tracker", token_verifier=Verifier(issuer, url), auth=auth)

    @server.tool()
    def whoami() -> str:
        """Who is logged in."""
        return get_access_token().subject

    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    print(url, flush=True)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
