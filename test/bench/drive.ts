/** Drives an appliance: load by a process of its own, and waiting until so many mails are told of as delivered. */
import { spawn } from 'node:child_process';
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
}

export function load({ url, key, count, offset, connections, html }: Load): Promise<Answers> {
  const args = [url, key, ...[count, connections, html, offset].map(String)];
  const child = spawn(process.execPath, ['--import', 'tsx', new URL('load.ts', import.meta.url).pathname, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('exit', (code) => {
      if (code === 0) resolve(JSON.parse(text) as Answers);
      else reject(new Error(`the load ended with ${String(code)}`));
    });
  });
}

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
