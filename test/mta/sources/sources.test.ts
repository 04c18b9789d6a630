/** The sources of several nodes on one database: which a node uses, and which one a mail leaves from. */
import assert from 'node:assert/strict';
import { Sources, type ConfiguredSource } from '../../../src/mta/sources/sources.ts';
import { limitsInMemory, quietLog } from '../lane-world.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';

const source = (name: string, node: string | null, pool = 'default'): ConfiguredSource => ({
  ...{ name, node, pool, ehlo: 'mail.test', ipv4: '192.0.2.1', ipv6: null },
});
const settings = [source('out1', 'one'), source('out2', 'two'), source('shared', null), source('bulk', 'two', 'news')];
/** A source at a site: until when it is closed, whether one mail has to find out, and how much waits. */
interface State {
  closedUntil?: number;
  isSuspect?: boolean;
  load?: number;
}

function open(name: string, list: readonly ConfiguredSource[] = settings, isDelivering = true): Sources {
  const clock = new FakeClock(NOW);
  return new Sources(
    {
      clock,
      log: quietLog,
      limits: limitsInMemory(clock),
      absent: new Map(),
    },
    { hostname: 'mail.test', settings: list, node: { name, isDelivering } },
  );
}

const namesOf = (sources: Sources): (string | null)[] => sources.list().map(({ name }) => name);

describe('mta/sources', () => {
  it('are those of the node and those of none', () => {
    assert.deepEqual(namesOf(open('one')), ['out1', 'shared']);
    assert.deepEqual(namesOf(open('two')), ['out2', 'shared', 'bulk']);
    // A node without delivery needs none.
    const three = open('three', [source('out1', 'one')], false);
    assert.deepEqual([namesOf(three), three.named], [[], true]);
  });

  const two = open('two');
  const choose = (states: Readonly<Record<string, State>>, last: string | null = null): string | null =>
    two.choose({ pool: 'default', last }, 'google', (name) => ({
      closedUntil: null,
      isSuspect: false,
      load: 0,
      ...states[name ?? ''],
    })).name;

  const rows: readonly [string, Record<string, State>, last: string | null, expected: string | null][] = [
    ['the least busy one', { out2: { load: 3 }, shared: { load: 2 } }, null, 'shared'],
    ['the one of the last attempt, however busy', { shared: { load: 9 } }, 'shared', 'shared'],
    ['another one, if the node has not that of the last attempt', { shared: { load: 1 } }, 'out1', 'out2'],
    ['another one, if that of the last attempt is closed', { shared: { closedUntil: 5 } }, 'shared', 'out2'],
    ['the open one, however busy', { out2: { load: 99 }, shared: { closedUntil: 5 } }, null, 'out2'],
    ['for one mail the one that was closed', { out2: { isSuspect: true } }, null, 'out2'],
    ['for the next mail the other one', { out2: { isSuspect: true, load: 1 }, shared: { load: 5 } }, null, 'shared'],
    ['the one that opens first', { out2: { closedUntil: 9 }, shared: { closedUntil: 5 } }, null, 'shared'],
  ];
  for (const [what, states, last, expected] of rows)
    it(`are chosen by their limits: ${what}`, () => {
      for (let turn = 0; turn < 3; turn++) assert.equal(choose(states, last), expected);
    });

  it('take turns where they have the same load', () => {
    const chosen = Array.from({ length: 4 }, () => choose({}));
    assert.deepEqual([...new Set(chosen)].sort(), ['out2', 'shared']);
  });
});
