/** Sends single mails at an even rate and reads from the events how long each took from acceptance to `delivered`. */
import type { Appliance } from './appliance.ts';
import { httpRequest, paced } from './paced.ts';

export interface Latencies {
  count: number;
  /** In ms. */
  p50: number;
  p95: number;
  p99: number;
}

export interface Paced {
  appliance: Appliance;
  key: string;
  /** The recipient of the n-th mail. */
  to: (n: number) => string;
  count: number;
  perSecond: number;
  stream?: string;
}

const html = '<p>Good day, here is what you ordered.</p>\n'.repeat(50);

/** The mails' addresses have to be new: they are how their events are found. */
export async function pacedMails({ appliance, key, to, count, perSecond, stream }: Paced): Promise<Latencies> {
  const from = await lastEvent(appliance, key);
  const wanted = new Set(Array.from({ length: count }, (_, n) => to(n)));
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const requests = [...wanted].map((recipient, n) => {
    const mail = { from: 'hi@bench.test', to: recipient, subject: `Order ${String(n)}`, html };
    return httpRequest(
      'POST',
      '/v1/messages',
      headers,
      JSON.stringify(stream === undefined ? mail : { ...mail, stream }),
    );
  });
  await paced({ url: appliance.url, perSecond, status: 202, requests });
  const times = await deliveredTimes(appliance, key, wanted, from);
  times.sort((a, b) => a - b);
  const at = (part: number): number => times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
  return { count: times.length, p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

export async function post({ url }: Appliance, key: string, mail: unknown): Promise<void> {
  const answer = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(mail),
  });
  const text = await answer.text();
  if (answer.status !== 202) throw new Error(`${String(answer.status)} ${text}`);
}

interface Page {
  data: { data: { recipient: string; delivered?: { queue_ms: number } } }[];
  next_cursor: string;
}

async function page({ url }: Appliance, key: string, after: string): Promise<Page> {
  const where = `${url}/v1/events?type=delivered&limit=1000&wait=1${after === '' ? '' : `&after=${after}`}`;
  const answer = await fetch(where, { headers: { authorization: `Bearer ${key}` } });
  if (!answer.ok) throw new Error(`${String(answer.status)} ${await answer.text()}`);
  return (await answer.json()) as Page;
}

/** Where the event log ends now. */
async function lastEvent(appliance: Appliance, key: string): Promise<string> {
  for (let after = ''; ;) {
    const { data, next_cursor: next } = await page(appliance, key, after);
    after = next;
    if (data.length < 1000) return after;
  }
}

const LONGEST_MS = 120_000;

async function deliveredTimes(
  appliance: Appliance,
  key: string,
  wanted: ReadonlySet<string>,
  from: string,
): Promise<number[]> {
  const times: number[] = [];
  const until = performance.now() + LONGEST_MS;
  for (let after = from; times.length < wanted.size;) {
    if (performance.now() > until) throw new Error(`${String(wanted.size - times.length)} mails did not arrive`);
    const { data, next_cursor: next } = await page(appliance, key, after);
    after = next;
    for (const { data: event } of data) {
      if (wanted.has(event.recipient) && event.delivered !== undefined) times.push(event.delivered.queue_ms);
    }
  }
  return times;
}

export const shown = ({ count, p50, p95 }: Latencies): string =>
  `${String(count)} mails, p50 ${String(p50)} ms, p95 ${String(p95)} ms`;
