/**
 * `npm run bench -- tracking`: what tracking costs. Marking a document of 100 KB for one recipient, and clicks on the built
 * program at a steady rate: how long the redirects take, and that every click is an event afterwards. Two seconds of clicks take
 * turns with two seconds of a server that only redirects: where the machine itself stands still, both do. A moment of that spoils the
 * p99 of all clicks, so the p99 of the middle turn is told as well. Exit 1 if that one or marking is over its limit, or a click is lost.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { parseArgs } from 'node:util';
import sqlite3 from 'sqlite3';
import { openKeyring } from '../../src/base/keyring.ts';
import { planHtml, trackedHtml, trackPaths } from '../../src/tracking/rewrite.ts';
import { clickTokens, trackingKeys, type TrackingKey } from '../../src/tracking/token.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { keepAwake } from './awake.ts';
import { httpRequest, paced } from './paced.ts';
import { until } from './peers.ts';

const { values: options } = parseArgs({
  options: {
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '30' },
    links: { type: 'string', default: '100' },
  },
});
const MARK_LIMIT_MS = 5;
const REDIRECT_LIMIT_MS = 5;
const MAILS = 500;
/** The first seconds of a process, in which code is compiled, do not show the usual cost of a click. */
const WARM_SECONDS = 5;
const TURN_SECONDS = 2;
/** The first of each turn are for the new process that clicks. */
const UNCOUNTED_SECONDS = 1;
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';

const at = (times: readonly number[], share: number): number =>
  [...times].sort((a, b) => a - b)[Math.floor(share * (times.length - 1))] ?? NaN;

/** 100 KB with so many links. */
function document(links: number): string {
  const filler = '<p style="margin:0 0 1em">Good day, here is what you ordered.</p>\n';
  const each = Math.floor((100 * 1024) / links);
  const part = (n: number): string =>
    `<a class="b" href="https://shop.test/p/${String(n)}?utm=mail&amp;n=${String(n)}">article ${String(n)}</a>\n`;
  return Array.from({ length: links }, (_, n) => part(n) + filler.repeat(Math.ceil((each - 80) / filler.length))).join(
    '',
  );
}

/** CPU time of one run, in ms: other programs on the machine are not to count. */
function cpuOf(work: () => void): number {
  const runs = 200;
  for (let run = 0; run < 50; run++) work();
  const before = process.cpuUsage();
  for (let run = 0; run < runs; run++) work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / runs;
}

function marking(key: TrackingKey): number {
  const html = document(Number(options.links));
  const stamp = { deliveryId: `dlv_${'0'.repeat(26)}`, host: null };
  const tracking = {
    ...{ key, stamp, base: 'https://mail.bench.test', opens: true, clicks: true, untouched: [] },
    unsubscribeUrl: null,
  };
  const plan = planHtml(html);
  const reading = cpuOf(() => planHtml(html));
  const writing = cpuOf(() => trackedHtml(html, plan, tracking));
  console.log(
    `${String(html.length)} bytes, ${options.links} links: ${reading.toFixed(2)} ms of CPU to read, ${writing.toFixed(2)} ms for each recipient`,
  );
  return reading + writing;
}

async function mailsOf(appliance: Appliance, key: string): Promise<string[]> {
  const recipients = Array.from({ length: MAILS }, (_, n) => ({
    to: `delivered+${String(n)}@simulator.posthorn.test`,
  }));
  const body = { from: 'hi@simulator.posthorn.test', subject: 's', html: document(3), track_clicks: true, recipients };
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const answer = await fetch(`${appliance.url}/v1/messages`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (answer.status !== 202) throw new Error(await answer.text());
  const db = new sqlite3.Database(path.join(appliance.dataDir, 'posthorn.db'), sqlite3.OPEN_READONLY);
  const delivered = (): Promise<{ id: string }[]> =>
    new Promise((resolve, reject) => {
      db.all("SELECT id FROM deliveries WHERE status = 'delivered'", (error: Error | null, rows) => {
        if (error === null) resolve(rows as { id: string }[]);
        else reject(error);
      });
    });
  let rows: { id: string }[] = [];
  await until(async () => (rows = await delivered()).length === MAILS, 'the mails');
  db.close();
  return rows.map(({ id }) => id);
}

/** The p99 of the turn that half of all turns are better than. */
const middleTurn = (turns: readonly number[][]): number =>
  at(
    turns.map((times) => at(times, 0.99)),
    0.5,
  );

const told = (turns: readonly number[][]): string =>
  `p50 ${at(turns.flat(), 0.5).toFixed(2)} ms, p99 ${at(turns.flat(), 0.99).toFixed(2)} ms, of the middle turn ${middleTurn(turns).toFixed(2)} ms`;

/** Measures the most that the machine gives just now: a server that answers each with the same redirect and notes nothing. */
async function startBare(): Promise<{ url: string; stop: () => void }> {
  const server = http.createServer({ keepAliveTimeout: 0 }, (_, response) => {
    response.writeHead(302, { Location: 'https://shop.test/', 'Content-Length': 0 }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`, stop };
}

/** So many clicks, on all mails in turn. */
function clicksOn(ids: readonly string[], trackingKey: TrackingKey): (from: number, count: number) => string[] {
  return (from, count) =>
    Array.from({ length: count }, (_, n) => {
      const stamp = { deliveryId: ids[(from + n) % ids.length] ?? '', host: null };
      const token = clickTokens(trackingKey, stamp)({ link: 1, links: 3, part: 'html', url: 'https://shop.test/' });
      return httpRequest('GET', trackPaths.click + token, { 'User-Agent': BROWSER });
    });
}

async function clicking(): Promise<{ p99: number; lost: number }> {
  const appliance = await startAppliance();
  const bare = await startBare();
  try {
    const key = benchKey(appliance);
    const ids = await mailsOf(appliance, key);
    const [trackingKey] = trackingKeys(openKeyring(appliance.dataDir));
    const clicks = clicksOn(ids, trackingKey);
    const rate = Number(options.rate);
    const uncounted = rate * UNCOUNTED_SECONDS;
    const ask = (url: string, requests: string[]): Promise<number[]> =>
      paced({ url, perSecond: rate, status: 302, uncounted, requests });
    const warm = rate * WARM_SECONDS;
    await ask(appliance.url, clicks(0, warm));
    await ask(bare.url, clicks(0, warm));
    await recorded(appliance, key, warm);
    const each = rate * TURN_SECONDS + uncounted;
    const turns = Math.ceil(Number(options.seconds) / TURN_SECONDS);
    const cpu = appliance.cpu();
    const ours: number[][] = [];
    const least: number[][] = [];
    for (let turn = 0; turn < turns; turn++) {
      ours.push(await ask(appliance.url, clicks(warm + turn * each, each)));
      least.push(await ask(bare.url, clicks(0, each)));
    }
    const total = each * turns;
    console.log(
      `${String(total)} clicks at ${String(rate)}/s: ${told(ours)}; a server that only redirects: ${told(least)}`,
    );
    const seen = (await recorded(appliance, key, warm + total)) - warm;
    const cost = (appliance.cpu() - cpu) / total;
    console.log(
      `events: ${String(seen)} of ${String(total)}; ${cost.toFixed(2)} ms of CPU a click, its event included`,
    );
    return { p99: middleTurn(ours), lost: total - seen };
  } finally {
    bare.stop();
    await appliance.stop();
  }
}

/** Counts `clicked` events until all are there, at most for 10 seconds. */
async function recorded(appliance: Appliance, key: string, wanted: number): Promise<number> {
  let seen = 0;
  let after = '';
  const end = performance.now() + 10_000;
  while (seen < wanted && performance.now() < end) {
    const url = `${appliance.url}/v1/events?type=clicked&limit=1000&wait=2${after === '' ? '' : `&after=${after}`}`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    const { data, next_cursor } = (await answer.json()) as { data: unknown[]; next_cursor: string };
    seen += data.length;
    after = next_cursor;
  }
  return seen;
}

const marked = marking({ tag: Buffer.alloc(3), sign: Buffer.alloc(32), seal: Buffer.alloc(32) });
const letSleep = keepAwake();
const { p99, lost } = await clicking();
letSleep();
if (marked > MARK_LIMIT_MS || p99 > REDIRECT_LIMIT_MS || lost > 0) process.exitCode = 1;
