/** The side of operations that people see: each presentation is of an operation that there is, and sends only what that takes. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import type { Route } from '../../src/api/route.ts';
import { endpoints } from '../../src/client/types.ts';
import { serverRouteNamed, serverRoutes } from '../../src/operator/routes.ts';
import { presentations } from '../../src/presentations/index.ts';
import { columns } from '../../src/presentations/presentation.ts';
import { Office } from '../operator/office.ts';

const all = Object.values(presentations).flat();

describe('presentations', () => {
  let routes: readonly Route[] = [];
  before(async () => {
    const office = await Office.open();
    routes = [...office.routes, ...serverRoutes(office.deps)];
    await office.close();
  });

  it('name each command once', () => {
    const names = all.map(({ command }) => command);
    assert.deepEqual([...new Set(names)], names);
  });

  const performed = all.flatMap(({ instead, ...one }) => [
    {
      ...one,
      input: one.input?.filter(({ flag }) => instead === undefined || !flag.startsWith(`--${instead.given} `)),
    },
    ...(instead === undefined ? [] : [{ ...one, ...instead }]),
  ]);
  for (const { command, operation, input = [], list, with: fixed = {} } of performed)
    it(`${command} sends what ${operation} takes`, () => {
      const route = routes.find(({ operationId }) => operationId === operation);
      assert.ok(route);
      const taken = [route.params, route.query, route.operatorBody ?? route.body].flatMap((schema) =>
        schema instanceof z.ZodObject ? Object.keys(schema.shape) : [],
      );
      const named = ({ flag }: { flag: string }): string =>
        (/[\w-]+/.exec(flag.replace(/^--/, ''))?.[0] ?? '').replaceAll('-', '_');
      const sent = [
        ...input.flatMap((one) => (one.member === null ? [] : [one.member ?? named(one)])),
        ...Object.keys(fixed),
        ...(list === undefined ? [] : ['limit']),
      ].filter((name) => route.scope === 'server' || name !== 'account');
      assert.deepEqual(
        sent.filter((name) => !taken.includes(name)),
        [],
      );
    });

  it('are addressed by the method and path of their operation', () => {
    for (const { operation } of all) {
      const route = routes.find(({ operationId }) => operationId === operation);
      if (serverRouteNamed(operation) === null)
        assert.equal(endpoints[operation as keyof typeof endpoints], `${route?.method ?? ''} ${route?.path ?? ''}`);
    }
  });

  it('have columns that are headed by their members', () => {
    const made = columns<{ last_used_at: string; scopes: string[] }>('last_used_at', 'scopes', ['N', () => 1]);
    assert.deepEqual(
      made.map(({ head, member, of }) => [head, member, of({ last_used_at: 'x', scopes: ['a', 'b'] })]),
      [
        ['LAST USED', 'last_used_at', 'x'],
        ['SCOPES', 'scopes', 'a,b'],
        ['N', null, 1],
      ],
    );
  });
});
