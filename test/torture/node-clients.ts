/** The clients of `npm run torture -- nodes`: senders by HTTP and SMTP that go on at another node, and a reader of events by cursor. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { plainAuth, smtpClient } from '../support/harness/smtp-client.ts';
import type { TortureNode } from './node-cluster.ts';

/** A client gives a node up after this time and asks the next one. */
/** A server answers within 15 s, also if its database does not. */
const PATIENCE_MS = 20_000;
const PAUSE_MS = 150;

/** One request and what became of it. `status` is 0 where no answer came. */
export interface Asked {
  node: string;
  /** When it was begun, on `performance.now()`. */
  at: number;
  ms: number;
  status: number;
  code: string;
  hasRetryAfter: boolean;
}

/** A message that was answered with 202 or 250. */
export interface Accepted {
  id: string;
  /** The recipient's domain. */
  domain: string;
  /** When the answer came, on `performance.now()`. */
  at: number;
}

export interface Clients {
  /** By what the receiver finds in their X-Message-Id. */
  readonly accepted: Map<string, Accepted>;
  readonly asked: Asked[];
  /** The numbers of the events that the reader has seen, in its order. */
  readonly events: string[];
  /** Lets the senders end what they have begun. */
  stopSending(): Promise<void>;
  /** Reads all events that are left, and ends the reader. */
  stopReading(): Promise<void>;
}

export interface ClientOptions {
  nodes: readonly TortureNode[];
  key: string;
  random: () => number;
  /** The domains that mail goes to. */
  domains: readonly string[];
  httpSenders: number;
  smtpSenders: number;
}

type Init = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> };

/** Starts the clients. */
export function startClients({ nodes, key, random, domains, httpSenders, smtpSenders }: ClientOptions): Clients {
  const accepted = new Map<string, Accepted>();
  const asked: Asked[] = [];
  const events: string[] = [];
  let isSending = true;
  let isReading = true;

  const nodeAt = (place: number): TortureNode => {
    const node = nodes[place % nodes.length];
    if (node === undefined) throw new Error('there are no nodes');
    return node;
  };
  const anyNode = (): TortureNode => nodeAt(Math.floor(random() * nodes.length));
  const anyDomain = (): string => domains[Math.floor(random() * domains.length)] ?? 'dest.test';
  const accept = (mark: string, id: string, domain: string): void =>
    void accepted.set(mark, { id, domain, at: performance.now() });
  const ask = async (node: TortureNode, where: string, init: Init): Promise<{ status: number; body: unknown }> => {
    const at = performance.now();
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...init.headers };
    let answer = { status: 0, body: null as unknown, hasRetryAfter: false };
    try {
      const got = await fetch(`http://127.0.0.1:${String(node.httpPort)}${where}`, { ...init, headers, signal });
      answer = { status: got.status, body: await got.json(), hasRetryAfter: got.headers.has('retry-after') };
    } catch {
      // It is down, or went before the answer was whole.
    }
    const { status, body, hasRetryAfter } = answer;
    const code = (body as { code?: string } | null)?.code ?? '';
    asked.push({ node: node.name, at, ms: performance.now() - at, status, code, hasRetryAfter });
    return { status, body };
  };

  /** Sends one mail after the other, each with its key: to its own node, and where that does not answer with 202, to the next ones. */
  async function httpSender(home: number): Promise<void> {
    while (isSending) {
      const id = randomUUID();
      const domain = anyDomain();
      const body = JSON.stringify({ from: 'a@torture.test', to: `${id}@${domain}`, subject: 'x', html: '<p>x</p>' });
      for (let place = home; ; place++) {
        const init = { method: 'POST', headers: { 'idempotency-key': id }, body };
        const { status, body: record } = await ask(nodeAt(place), '/v1/messages', init);
        const message = (record as { id?: string } | null)?.id;
        if (status === 202 && message !== undefined) {
          accept(message, message, domain);
          break;
        }
        await sleep(PAUSE_MS);
      }
      await sleep(PAUSE_MS * 2 * random());
    }
  }

  /** SMTP has no idempotency: a mail without an answer is another mail the next time, and only those with an answer count. */
  async function smtpSender(): Promise<void> {
    while (isSending) {
      const mark = randomUUID();
      const domain = anyDomain();
      const submitted = submit(anyNode().smtpPort, key, { mark, to: `${mark}@${domain}` });
      const message = await Promise.race([submitted, sleep(PATIENCE_MS, null)]);
      if (message !== null) accept(mark, message, domain);
      await sleep(PAUSE_MS * 4 * random());
    }
  }

  /** Reads page after page at any node, each from the cursor of the page before. */
  async function reader(): Promise<void> {
    let cursor = 'start';
    for (;;) {
      const isLast = !isReading;
      const { status, body } = await ask(anyNode(), `/v1/events?after=${cursor}&limit=100`, {});
      const page = body as { data?: { id: string }[]; next_cursor?: string } | null;
      if (status !== 200 || page?.data === undefined || page.next_cursor === undefined) {
        await sleep(PAUSE_MS);
        continue;
      }
      events.push(...page.data.map(({ id }) => id));
      cursor = page.next_cursor;
      if (page.data.length > 0) continue;
      if (isLast) return;
      await sleep(PAUSE_MS * 2);
    }
  }

  const senders = [
    ...Array.from({ length: httpSenders }, (_, at) => httpSender(at)),
    ...Array.from({ length: smtpSenders }, smtpSender),
  ];
  const reading = reader();
  return {
    accepted,
    asked,
    events,
    async stopSending() {
      isSending = false;
      await Promise.all(senders);
    },
    async stopReading() {
      isReading = false;
      await reading;
    },
  };
}

/** Hands a mail to the submission port, which keeps its bytes; returns its id, or null if it was not answered with 250. */
async function submit(port: number, key: string, { mark, to }: { mark: string; to: string }): Promise<string | null> {
  const client = smtpClient(port);
  try {
    await client.reply();
    const lines = [
      'EHLO client.test',
      plainAuth('apikey', key),
      'MAIL FROM:<a@torture.test>',
      `RCPT TO:<${to}>`,
      'DATA',
    ];
    for (const line of lines) if (!/^[23]/.test(await client.say(line))) return null;
    const answer = await client.say(`From: a@torture.test\r\nTo: ${to}\r\nSubject: x\r\nX-Mark: ${mark}\r\n\r\nx\r\n.`);
    return /^250 .*\b(msg_\w+)/.exec(answer)?.[1] ?? null;
  } finally {
    client.end();
  }
}
