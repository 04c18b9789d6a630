/** The doctor's look at the nodes: what differs between them, and the settings that must not. */
import assert from 'node:assert/strict';
import { differingSettings, digestsOf } from '../../../src/config/shared-settings.ts';
import { verdictsOf } from '../../../src/operator/doctor/probes.ts';
import { verdictsOnNodes } from '../../../src/operator/doctor/store.ts';
import { nodeFigures } from '../../../src/operator/metrics/metrics.ts';
import type { NodeRecord } from '../../../src/storage/nodes.ts';
import { configFor } from '../../support/harness/app.ts';

const node = (name: string, fields: Partial<NodeRecord> = {}): NodeRecord => ({
  epoch: 1,
  name,
  version: '1.0.0',
  facts: '{}',
  isDraining: false,
  isLeader: name === 'a',
  isDelivering: true,
  isCommand: false,
  since: 0,
  quietMs: 100,
  ...fields,
});
const facts = (settings: Record<string, string>): string => JSON.stringify({ settings });

describe('operator/doctor: nodes', () => {
  for (const [what, all, status, says] of [
    ['are alike', [node('a'), node('b')], 'ok', /^2 nodes, of the same version/],
    [
      'are one, beside a command',
      [node('a'), node('cli', { isCommand: true, version: '' })],
      'ok',
      /^a is the only node/,
    ],
    [
      'have a silent one',
      [node('a'), node('b', { quietMs: 9000 })],
      'warning',
      /^the node b has given no sign of life for 9 s$/,
    ],
    [
      'are all silent, since the database is away',
      [node('a', { quietMs: 9000 }), node('b', { quietMs: 8000 })],
      'warning',
      /^the database has not answered for 8 s, so nothing is known of the nodes$/,
    ],
    [
      'deliver nothing',
      [node('a', { isDelivering: false }), node('b', { isDelivering: false })],
      'warning',
      /^no node delivers/,
    ],
    [
      'have one whose clock is wrong, at whichever node the doctor is asked',
      [node('a'), node('b', { facts: '{"clockOffMs":-300000}' })],
      'warning',
      /^the clock of the node b is 300000 ms behind that of the database: /,
    ],
    ['have a drained one', [node('a', { isDraining: true }), node('b')], 'warning', /^the node a is drained/],
    [
      'differ in version',
      [node('a'), node('b', { version: '1.1.0' })],
      'warning',
      /different versions: a 1\.0\.0, b 1\.1\.0$/,
    ],
    [
      'differ in settings',
      [
        node('a', { facts: facts({ limits: 'x', plans: 'p' }) }),
        node('b', { facts: facts({ limits: 'y', plans: 'p' }) }),
      ],
      'warning',
      /different settings: limits$/,
    ],
  ] as const)
    it(`that ${what}: ${status}`, async () => {
      const found = await verdictsOf(verdictsOnNodes(all));
      assert.deepEqual(
        found.map((one) => one.status),
        [status],
      );
      assert.match(found[0]?.why ?? '', says);
      assert.equal(found[0]?.cure === null, status === 'ok');
    });

  it('finds pools without a source at a node, and sources of nodes that are not there', async () => {
    const sources = [
      { name: 'out1', node: 'a', pool: 'default' },
      { name: 'out2', node: 'b', pool: 'default' },
      { name: 'bulk', node: 'a', pool: 'news' },
      { name: 'old', node: 'c', pool: 'default' },
    ].map((one) => ({ ...one, ipv4: '192.0.2.1', ipv6: null, ehlo: null, warmUp: null }));
    const all = [node('a'), node('b'), node('door', { isDelivering: false }), node('c', { isCommand: true })];
    assert.deepEqual(
      (await verdictsOf(verdictsOnNodes(all, sources))).map(({ status, why }) => [status, why]),
      [
        ['warning', 'the node b has no source of the pool news in delivery.sources'],
        ['warning', 'the source old belongs to the node c, which is not there: nothing is sent from it'],
      ],
    );
    const shared = sources.slice(0, 2).map((one) => ({ ...one, node: null }));
    assert.equal((await verdictsOf(verdictsOnNodes(all, shared)))[0]?.status, 'ok');
  });

  it('compares only settings that both versions have, and no text of another form', () => {
    assert.deepEqual(
      differingSettings([facts({ a: '1', b: '2' }), facts({ b: '3', c: '4' }), 'null', '[', '{"settings":7}']),
      ['b'],
    );
  });

  it('makes other digests of other settings and keys, and the same of the same', () => {
    const key = Buffer.alloc(32, 1);
    const own = digestsOf(configFor('/tmp/one', 25), key);
    // The folder and the ports are the node's own.
    assert.deepEqual(digestsOf(configFor('/tmp/two', 25, { smtp: { mx: { port: 2525 } } }), key), own);
    const other = digestsOf(configFor('/tmp/one', 25, { retention: { events: '30d' } }), key);
    assert.deepEqual(differingSettings([facts(own), facts(other)]), ['retention']);
    assert.notEqual(digestsOf(configFor('/tmp/one', 25), Buffer.alloc(32, 2))['limits'], own['limits']);
  });

  it('counts no command as a node', () => {
    const figures = nodeFigures({
      nodes: { isLeader: true, list: () => [node('a'), node('cli', { isCommand: true })] },
    });
    assert.deepEqual(
      figures.map(({ name, samples }) => [name, samples]),
      [
        ['posthorn_nodes', [{ value: 1 }]],
        ['posthorn_node_leads', [{ value: 1 }]],
        ['posthorn_node_sign_of_life_age_seconds', [{ labels: { node: 'a' }, value: 0.1 }]],
      ],
    );
  });
});
