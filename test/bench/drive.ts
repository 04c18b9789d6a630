/** Drives an appliance: load by a process of its own, and waiting until so many mails are told of as delivered. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { writeMail } from './mails.ts';
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
  /** Connections at a time, each with one request after the other. */
  connections: number;
  /** Octets of each mail (mails.ts). */
  size: number;
  /** Each mail comes over a connection of its own. */
  isFresh?: boolean;
  /** Recipients' domains, of which each mail has the next one; one if left out. */
  domains?: number;
}

/** The argument of load.ts: `json` names the file with the mail. */
export type LoadOrder = Omit<Required<Load>, 'size'> & { json: string };

/** The load by POST, started and waiting for its word: a process takes half a second to begin, which is none of what is measured. */
export async function readyLoad({ size, ...what }: Load): Promise<() => Promise<Answers>> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-load-'));
  const order: LoadOrder = { isFresh: false, domains: 1, ...what, json: writeMail(folder, size).json };
  const program = new URL('load.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, ['--import', 'tsx', program, JSON.stringify(order)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<string> => {
    const next = await lines.next();
    if (next.done === true) throw new Error('the load ended early');
    return next.value;
  };
  await line();
  rmSync(folder, { recursive: true });
  return async () => {
    child.stdin.end();
    return JSON.parse(await line()) as Answers;
  };
}

export const load = async (what: Load): Promise<Answers> => (await readyLoad(what))();

export interface SmtpLoad {
  port: number;
  count: number;
  sessions: number;
  /** Octets of each mail. */
  size: number;
  /** Each mail comes over a connection of its own. */
  isFresh: boolean;
}

/** Sends mails with `smtp-source`. Rejects if one of them is refused. */
export async function loadBySmtp({ port, count, sessions, size, isFresh }: SmtpLoad): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-load-'));
  const { mime } = writeMail(folder, size);
  const args = ['-s', String(sessions), '-m', String(count), '-f', 'hi@bench.test', '-t', 'r@dest.test', '-F', mime];
  const child = spawn('smtp-source', [...args, ...(isFresh ? [] : ['-d']), `127.0.0.1:${String(port)}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  rmSync(folder, { recursive: true });
  if (code !== 0 || errors !== '') throw new Error(`smtp-source ended with ${String(code)}: ${errors.slice(0, 500)}`);
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
