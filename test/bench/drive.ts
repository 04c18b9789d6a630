/** Drives an appliance: load by a process of its own, and waiting until so many mails are told of as delivered. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { until } from './peers.ts';

export interface Answers {
  sent: number;
  refused: number;
  /** Milliseconds from request to answer. */
  p50: number;
  p99: number;
}

export interface Load {
  url: string;
  key: string;
  count: number;
  /** Number of the first mail, which its recipient and its subject bear. */
  offset: number;
  /** Kept connections that send one request after the other. */
  connections: number;
  /** Octets of html in each mail. */
  html: number;
  /** Recipients' domains, of which each mail has the next one; one where left out. */
  domains?: number;
}

/** The load, started and waiting for its word: a process takes half a second to begin, which is none of what is measured. */
export async function readyLoad(what: Load): Promise<() => Promise<Answers>> {
  const { url, key, count, offset, connections, html, domains = 1 } = what;
  const args = [url, key, ...[count, connections, html, offset, domains].map(String)];
  const child = spawn(process.execPath, ['--import', 'tsx', new URL('load.ts', import.meta.url).pathname, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<string> => {
    const next = await lines.next();
    if (next.done === true) throw new Error('the load ended early');
    return next.value;
  };
  await line();
  return async () => {
    child.stdin.end();
    return JSON.parse(await line()) as Answers;
  };
}

export const load = async (what: Load): Promise<Answers> => (await readyLoad(what))();

/** Reads the event log by cursor; the function it gives waits until so many more `delivered` were seen. */
export function watchDelivered(url: string, key: string): (count: number) => Promise<void> {
  let after = '';
  let seen = 0;
  let wanted = 0;
  return async (count) => {
    wanted += count;
    await until(
      async () => {
        const cursor = after === '' ? '' : `&after=${encodeURIComponent(after)}`;
        const page = await fetch(`${url}/v1/events?type=delivered&limit=1000${cursor}`, {
          headers: { authorization: `Bearer ${key}` },
        });
        const { data, next_cursor } = (await page.json()) as { data: unknown[]; next_cursor: string };
        seen += data.length;
        after = next_cursor;
        if (seen < wanted) await new Promise((resolve) => setTimeout(resolve, 50));
        return seen >= wanted;
      },
      `${String(count)} delivered events`,
      300_000,
    );
  };
}
