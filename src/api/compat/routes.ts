/** Makes routes of the requests of other services. Each runs an operation of ours, with its key, scope, budgets, idempotency and audit. */
import type { ApiOperation } from '../../operations/summaries.ts';
import { refuseScope } from '../middleware/admit.ts';
import type { Incoming, Reply, Route } from '../route.ts';
import { refuseInTestMode } from '../test-mode.ts';
import { checkMail } from '../send-check.ts';
import { MIME, type Ask, type ForeignRequest, type Service, type Told } from './foreign.ts';
import { COMPAT, services } from './services.ts';

/** The statuses that the answers have: they are described in docs/migrating.md, and not in the API's description. */
const responses = Object.fromEntries([200, 201, 202, 204].map((status) => [status, { description: '-' }]));

export function compatRoutes(routes: readonly Route[], { publicUrl }: { publicUrl: string }): Route[] {
  const byId = new Map(routes.map((route) => [route.operationId, route]));
  const operation = (id: ApiOperation): Route => {
    const route = byId.get(id);
    if (route === undefined) throw new Error(`there is no operation ${id}`);
    return route;
  };
  return services.flatMap((service) =>
    service.requests
      .filter((request) => byId.has(request.operation))
      .map((request) => routeOf(service, request, { operation, base: `${publicUrl}${COMPAT}${service.name}` })),
  );
}

interface Parts {
  operation: (id: ApiOperation) => Route;
  base: string;
}

function routeOf(service: Service, request: ForeignRequest, parts: Parts): Route {
  const { params: _, query: __, body: ___, ...ours } = parts.operation(request.operation);
  return {
    ...ours,
    method: request.method,
    path: `${COMPAT}${service.name}${request.path}`,
    description: '-',
    tag: 'compat',
    ...(request.form === undefined ? {} : { foreignBody: `${service.name}.${request.form}` }),
    bodyByHandler: true,
    responses,
    run: (incoming) => perform(request, parts, incoming),
  };
}

async function perform(request: ForeignRequest, { operation, base }: Parts, incoming: Incoming): Promise<Reply> {
  const { params, json: body, now } = incoming;
  const query = Object.fromEntries(new URLSearchParams(incoming.search));
  if (request.run !== undefined)
    return request.run({ base, params, query, body, now, ask: askWithin(operation, incoming, request.status ?? 200) });
  let told: Reply | null = null;
  const tell = (reply: Reply): Reply => {
    if (request.reply === undefined || !('body' in reply)) return reply;
    return (told ??= request.reply((reply.body ?? reply.before ?? {}) as Told, { params, body, now }));
  };
  const ours = operation(request.operation);
  // A small one was not checked in a thread.
  const checked = request.form === MIME && ours.sendRules !== undefined ? checkMail(body, ours.sendRules(now)) : null;
  return tell(
    await ours.run({
      ...incoming,
      checked: incoming.checked ?? checked,
      search: '',
      idempotencyRow: (reply) => incoming.idempotencyRow(tell(reply)),
      auditRow: (reply) => incoming.auditRow({ ...reply, status: tell(reply).status }),
    }),
  );
}

/** Returns what performs further operations within a request. Each has to be allowed; `status` is that of the answer to the request. */
function askWithin(operation: Parts['operation'], incoming: Incoming, status: number): Ask {
  return async (id, { params = {}, query = {}, body = {} }) => {
    const route = operation(id);
    if (incoming.caller !== null) {
      refuseScope(route, incoming.caller, body);
      refuseInTestMode(route, incoming.caller);
    }
    const pairs = Object.entries(query).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, value]],
    );
    const reply = await route.run({
      ...incoming,
      params,
      search: new URLSearchParams(pairs).toString(),
      json: body,
      checked: null,
      method: route.method,
      header: (name) => (name === 'accept' ? 'application/json' : incoming.header(name)),
      // The middleware keeps the answer of the whole request.
      idempotencyRow: () => null,
      auditRow: (answered) => incoming.auditRow({ ...answered, status }),
    });
    return (('body' in reply ? reply.body : null) ?? {}) as Told;
  };
}
