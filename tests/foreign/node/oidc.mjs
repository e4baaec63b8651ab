// A real authorization server, oidc-provider: dynamic registration, PKCE, resource indicators, rotation of refresh tokens, revocation.
//
// node oidc.mjs PACKAGES SECONDS, where SECONDS is how long access tokens are good for. Prints its issuer. Instead of pages with forms it asks the cookie
// `account` who logs in, and agrees to everything, or to nothing for the account `nobody`.

import http from "node:http";
import { pathToFileURL } from "node:url";

const [packages, seconds] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${packages}/node_modules/oidc-provider/lib/index.js`));

const server = http.createServer();
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  cookies: { keys: ["a key of the tests"] },
  scopes: ["openid", "offline_access"],
  findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
  rotateRefreshToken: true,
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context, resource) => ({
        scope: "issues:read issues:write",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: Number(seconds),
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
const handle = provider.callback();

async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  const account = /(?:^|; )account=([a-z]+)/.exec(request.headers.cookie ?? "")?.[1];
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: account } });
  }
  if (account === "nobody") {
    return provider.interactionFinished(request, response, { error: "access_denied" });
  }
  const known = grantId ? await provider.Grant.find(grantId) : undefined;
  const grant = known ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(" "));
  for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(" "));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

server.on("request", (request, response) => {
  if (!request.url.startsWith("/interaction/")) return handle(request, response);
  interact(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
});
console.log(issuer);
