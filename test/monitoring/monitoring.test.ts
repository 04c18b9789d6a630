/** Alert rules and dashboard: they speak of figures that are there, and the alerts fire when they should. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';
import { startTestApp } from '../support/harness/app.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');

/** Names of metrics in a text of PromQL, without the ending of a histogram's or summary's parts. */
const metricsIn = (text: string): string[] => [
  ...new Set(
    [...text.matchAll(/\b(?:posthorn|process)_\w+/g)].map(([name]) => name.replace(/_(?:bucket|sum|count)$/, '')),
  ),
];

interface Dashboard {
  uid: string;
  panels: {
    id: number;
    type: string;
    title: string;
    gridPos: { x: number; w: number };
    targets?: { expr: string }[];
  }[];
}

describe('monitoring', () => {
  /** Families of a running server. */
  let families: string[] = [];
  before(async () => {
    const test = await startTestApp({ settings: { metrics: { port: 0 } } });
    // Lanes are there while they have work.
    test.app.mta.reports.lanes = () =>
      Promise.resolve([
        {
          name: '~unresolved',
          source: null,
          slots: 1,
          waiting: 0,
          limit: 2,
          cause: '',
          causeAt: null,
          perMinute: null,
          limits: [],
          waits: [],
          parkedUntil: null,
          lastReply: null,
          lastProgressAt: 0,
          changes: [],
        },
      ]);
    await test.send({ to: 'x@later.test', send_at: new Date(test.clock.now() + 60_000).toISOString() });
    // Refusals are counted from the first one on.
    await test.send({ to: 'x@nowhere.test' });
    await test.settled();
    const url = String(test.logged.find(({ event }) => event === 'metrics')?.['url']);
    const text = await (await fetch(url)).text();
    families = [...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name = '']) => name);
    await test.stop();
  });

  it('has every family in docs/monitoring.md, and no other there', () => {
    const documented = [...read('docs/monitoring.md').matchAll(/^- `(\w+)`/gm)].map(([, name = '']) => name);
    assert.deepEqual([...documented].sort(), [...families].sort());
  });
  it('alerts speak of figures that are there', () => {
    const { groups } = parse(read('config/monitoring/alerts.yaml')) as {
      groups: { rules: { alert: string; expr: string; labels: { severity: string }; annotations: object }[] }[];
    };
    const rules = groups.flatMap((group) => group.rules);
    assert.ok(rules.length >= 12);
    for (const { alert, expr, labels, annotations } of rules) {
      assert.deepEqual(
        metricsIn(expr).filter((name) => !families.includes(name)),
        [],
        alert,
      );
      assert.match(labels.severity, /^(?:warning|critical)$/);
      assert.deepEqual(Object.keys(annotations), ['summary', 'description']);
    }
  });
  it('has a line in the runbook for each alert, and for no other', () => {
    const { groups } = parse(read('config/monitoring/alerts.yaml')) as { groups: { rules: { alert: string }[] }[] };
    const runbook = [...read('docs/monitoring.md').matchAll(/^\| (Posthorn\w+) +\| \S.* \| \S/gm)].map(
      ([, name]) => name,
    );
    assert.deepEqual(runbook.sort(), groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)).sort());
  });
  it('panels speak of figures that are there, and have ids and places of their own', () => {
    const { panels } = JSON.parse(read('config/monitoring/grafana-dashboard.json')) as Dashboard;
    const graphs = panels.filter(({ type }) => type !== 'row');
    assert.ok(graphs.length >= 12);
    for (const { title, targets = [], gridPos } of graphs) {
      assert.ok(targets.length > 0, title);
      assert.ok(gridPos.x + gridPos.w <= 24, title);
      for (const { expr } of targets)
        assert.deepEqual(
          metricsIn(expr).filter((name) => !families.includes(name)),
          [],
          title,
        );
    }
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    const shown = metricsIn(JSON.stringify(panels));
    assert.deepEqual(
      families.filter((name) => name.startsWith('posthorn') && !shown.includes(name)),
      ['posthorn_build_info'],
    );
  });

  describe('by promtool', () => {
    before(function () {
      if (spawnSync('promtool', ['--version']).status === 0) return;
      this.skip('promtool is not installed (apt-get install prometheus)');
    });
    for (const args of [
      ['check', 'rules', 'config/monitoring/alerts.yaml'],
      ['test', 'rules', 'test/monitoring/alerts.promtool.yaml'],
    ]) {
      it(args.join(' '), () => {
        const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: root, encoding: 'utf8' });
        assert.equal(status, 0, stdout + stderr);
      });
    }
    it('takes every expression of the dashboard', () => {
      const { panels } = JSON.parse(read('config/monitoring/grafana-dashboard.json')) as Dashboard;
      const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
      const rules = expressions.map((expr, at) => ({
        record: `panel:${String(at)}`,
        expr: expr.replaceAll('$__rate_interval', '5m'),
      }));
      const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'ph-rules-')), 'rules.yaml');
      writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
      const { status, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
      rmSync(path.dirname(file), { recursive: true });
      assert.equal(status, 0, stderr);
    });
  });
});
