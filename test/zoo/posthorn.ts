/** The built program as a separate process: mail is sent by its API, and read by its API and commands. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { variableOf } from '../../src/config/load.ts';
import { benchKey, startAppliance } from '../bench/appliance.ts';
import type { Inspector, SeenEvent, Sender } from './sender.ts';

export interface PosthornOptions {
  /** A built working tree. */
  dir?: string;
  dnsServer: string;
  remotePort: number;
  env?: Record<string, string>;
  /** Settings of `delivery`. */
  delivery?: Readonly<Record<string, unknown>>;
}

const PER_CALL = 1000;

export async function startPosthorn({
  dir,
  dnsServer,
  remotePort,
  env = {},
  delivery = {},
}: PosthornOptions): Promise<Sender> {
  const options = {
    ...(dir === undefined ? {} : { dir }),
    env: {
      ...Object.fromEntries(
        Object.entries(delivery).map(([name, value]) => [variableOf(`delivery.${name}`), JSON.stringify(value)]),
      ),
      POSTHORN_DELIVERY__DNS_SERVERS: dnsServer,
      POSTHORN_DELIVERY__REMOTE_PORT: String(remotePort),
      ...env,
    },
  };
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-zoo-'));
  let appliance = await startAppliance({ ...options, dataDir });
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const ids = new Map<string, string>();
  const call = async <Body>(method: string, path: string, body?: unknown): Promise<Body> => {
    const answer = await fetch(`${appliance.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${String(answer.status)} ${text}`);
    return JSON.parse(text) as Body;
  };
  const events = async (...types: string[]): Promise<SeenEvent[]> => {
    const all: SeenEvent[] = [];
    for (let after = ''; ;) {
      const page = await call<{ data: SeenEvent[]; has_more: boolean; next_cursor: string }>(
        'GET',
        `/v1/events?type=${types.join(',')}&limit=1000${after}`,
      );
      all.push(...page.data);
      if (!page.has_more) return all;
      after = `&after=${encodeURIComponent(page.next_cursor)}`;
    }
  };
  const inspect: Inspector = {
    async why(to) {
      interface Why {
        recipients: { status: string; reason: string; message: string; until: string | null }[];
      }
      const { recipients } = await call<Why>('GET', `/v1/messages/${ids.get(to) ?? ''}/why`);
      const found = recipients[0];
      if (found === undefined) throw new Error(`nothing is said of the mail to ${to}`);
      return found;
    },
    events,
    lanes: () => appliance.command('queue', 'lanes', '--json'),
  };
  return {
    name: 'Posthorn',
    async send(to) {
      for (let at = 0; at < to.length; at += PER_CALL) {
        const recipients = to.slice(at, at + PER_CALL).map((one) => ({ to: one }));
        const mail = {
          from: 'hi@bench.test',
          subject: 'Order',
          text: 'Good day, here is what you ordered.',
          recipients,
        };
        const { data } = await call<{ data: { to: string; id: string }[] }>('POST', '/v1/messages', mail);
        for (const { to: one, id } of data) ids.set(one, id);
      }
    },
    async flush(domain) {
      await appliance.command('queue', 'flush', '--domain', domain, '--json');
    },
    bounced: async () => (await events('bounced')).length,
    usage: () => ({ cpuMs: appliance.cpu(), bytesWritten: bytesWritten(appliance.pid) }),
    inspect,
    async restart() {
      await appliance.kill();
      appliance = await startAppliance({ ...options, dataDir });
    },
    async stop() {
      await appliance.kill();
      rmSync(dataDir, { recursive: true, force: true });
      rmSync(`${dataDir}.log`, { force: true });
    },
  };
}

function bytesWritten(pid: number): number {
  const io = readFileSync(`/proc/${String(pid)}/io`, 'utf8');
  return Number(/^write_bytes: (\d+)/m.exec(io)?.[1] ?? NaN);
}
