/** The operations on the server itself, as routes of the API with the scope `server`. */
import { z } from 'zod';
import type { Route } from '../api/route.ts';
import { check } from '../base/check.ts';
import { accountOperations } from './team/accounts.ts';
import { teamOperations } from './team/team.ts';
import { commandActOperations } from './door/command-acts.ts';
import { doctorOperations } from './doctor/doctor.ts';
import { messageOperations } from './messages.ts';
import { removalOperations } from './team/remove-account.ts';
import { holdOperations } from './holds.ts';
import { inboundOperations } from './reports/inbound.ts';
import { dryRunAnswer, type OperatorDeps, type StoreDeps, type ServerRoute } from './server-route.ts';
import { serverPath } from './door/socket.ts';
import { serverStateOperations } from './server-state.ts';
import { needOperations, machineFigures } from './needs/needs.ts';
import { queueOperations } from './queue.ts';
import { reputationOperations } from './reports/reputation.ts';
import { sourceOperations, sourceFigures } from './sources.ts';
import { watchOperations, lineFigures } from './watch.ts';
import { laneFigures } from './lanes.ts';
import { addressFigures } from './listings.ts';
import type { Figures } from './node-figures.ts';

const table = {
  ...accountOperations,
  ...removalOperations,
  ...commandActOperations,
  ...messageOperations,
  ...queueOperations,
  ...needOperations,
  ...holdOperations,
  ...sourceOperations,
  ...watchOperations,
  ...serverStateOperations,
  ...inboundOperations,
  ...reputationOperations,
  ...teamOperations,
  ...doctorOperations,
};

export type OperationName = keyof typeof table;
/** The input, before its schema is applied. */
export type ArgsOf<Name extends OperationName> = (typeof table)[Name] extends ServerRoute<infer Body> ? Body : never;
export type ResultOf<Name extends OperationName> = z.output<(typeof table)[Name]['answer']>;

const declarations: Readonly<Record<string, ServerRoute>> = table;

/** Returns the declaration of the operation with this name, or null. */
export const serverRouteNamed = (name: string): ServerRoute | null =>
  Object.hasOwn(declarations, name) ? (declarations[name] ?? null) : null;

const answerOf = (one: ServerRoute): z.ZodType =>
  one.dryRun === undefined ? one.answer : z.union([one.answer, dryRunAnswer]);

/** Returns the routes. With `deps` of the store alone those that need the running server must not be called. */
export const serverRoutes = (deps: StoreDeps | OperatorDeps): Route[] =>
  Object.entries(declarations).map(([name, declared]) => ({
    method: 'POST',
    path: serverPath(name),
    operationId: name,
    tag: 'server',
    summary: '',
    description: '',
    scope: 'server',
    needs: declared.needs,
    body: declared.body,
    ...(declared.act === undefined ? {} : { act: declared.act }),
    ...(declared.scope === undefined ? {} : { members: { scope: declared.scope, body: declared.forMembers ?? {} } }),
    responses: { 200: { description: 'The result.', schema: answerOf(declared) } },
    async run({ json: { dry_run: isDry, ...json }, act }) {
      if (act === undefined) throw new Error(`${name} was reached from outside`);
      if (isDry !== true || declared.dryRun === undefined) {
        const input = isDry === undefined ? json : { ...json, dry_run: isDry };
        return { status: 200, body: await declared.run(deps as OperatorDeps, check(declared.body, input), act) };
      }
      act.changesNothing();
      const found = await declared.dryRun(deps as OperatorDeps, check(declared.body, json));
      return { status: 200, body: { object: 'dry_run', ...found } };
    },
  }));

export const nodeFigures: readonly Figures<OperatorDeps, unknown>[] = [
  laneFigures,
  lineFigures,
  sourceFigures,
  machineFigures,
  addressFigures,
];
