/** HTTP clients of the bench: each connection sends its next request after the last answer. */
import http from 'node:http';
import { systemClock } from '../base/clock.ts';

export interface PostTarget {
  url: string;
  key: string;
  connections: number;
}

export interface PostWork {
  /** Returns the next body, or null at the end. */
  next(): string | null;
  answered(status: number, ms: number): void;
}

/** Resolves when each connection has its last answer. Rejects if the server is gone. */
export async function post({ url, key, connections }: PostTarget, work: PostWork): Promise<void> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
  const one = async (): Promise<void> => {
    for (let body = work.next(); body !== null; body = work.next()) {
      const begun = systemClock.monotonic();
      const status = await request(agent, `${url}/v1/messages`, key, body);
      work.answered(status, systemClock.monotonic() - begun);
    }
  };
  try {
    await Promise.all(Array.from({ length: connections }, one));
  } finally {
    agent.destroy();
  }
}

function request(agent: http.Agent, url: string, key: string, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    const sent = http.request(url, { method: 'POST', agent, headers }, (response) => {
      response.resume();
      response.on('end', () => {
        resolve(response.statusCode ?? 0);
      });
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
