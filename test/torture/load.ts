/**
 * The clients of `npm run torture -- kill`: they send mail over the API until the program is gone, send again with the same idempotency key
 * what got no answer, receive webhook calls, and report bounces as a mail host does: again and again until the 250.
 */
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { smtpClient } from '../support/harness/smtp-client.ts';
import type { Taken } from './receiver.ts';

export interface Sent {
  /** Messages that were answered with 202. */
  accepted: Set<string>;
  /** Bodies that got no answer, by idempotency key. */
  unanswered: Map<string, string>;
  /** Of the unanswered, what had been committed before the kill, as the repeated request showed, and what had not. */
  hadCommitted: number;
  hadNotCommitted: number;
}

/** The moments that a kill can wait for. Each is called with the moment's own work still undone. */
export interface SenderHooks {
  isRunning: () => boolean;
  /** The request has been handed to the socket. */
  onAsked: () => void;
  /** The 202 has come. */
  onAnswered: () => void;
  /** Octets of html in the next mail. */
  size: () => number;
}

/** Sends until it is stopped or the program is gone. */
export async function sender(url: string, key: string, sent: Sent, hooks: SenderHooks): Promise<void> {
  while (hooks.isRunning()) {
    const [again] = sent.unanswered;
    const id = again?.[0] ?? randomUUID();
    const html = `<p>${'x'.repeat(hooks.size())}</p>`;
    const body = again?.[1] ?? JSON.stringify({ from: 'a@torture.test', to: `${id}@dest.test`, subject: 'x', html });
    sent.unanswered.delete(id);
    try {
      const asked = fetch(`${url}/v1/messages`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': id },
        body,
      });
      hooks.onAsked();
      const answer = await asked;
      if (answer.status === 202) hooks.onAnswered();
      const record = (await answer.json()) as { id?: string };
      if (answer.status !== 202 || record.id === undefined) {
        sent.unanswered.set(id, body);
        continue;
      }
      sent.accepted.add(record.id);
      if (again !== undefined && answer.headers.has('idempotency-first-answer')) sent.hadCommitted++;
      else if (again !== undefined) sent.hadNotCommitted++;
    } catch {
      // The program is gone, or went before the answer was whole.
      sent.unanswered.set(id, body);
    }
  }
}

export interface Hook {
  url: string;
  /** Messages of which a `delivered` event came. */
  delivered: Set<string>;
  /** Called before a call is answered; where it returns true the call gets no answer. */
  onCall: () => boolean;
  stop(): void;
}

/** An endpoint of a customer that is told of every delivery. */
export async function startHook(): Promise<Hook> {
  const hook: Hook = { url: '', delivered: new Set(), onCall: () => false, stop: () => undefined };
  const server = http.createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => (body += part));
    request.on('error', () => undefined);
    request.on('end', () => {
      if (hook.onCall()) {
        request.socket.destroy();
        return;
      }
      const event = JSON.parse(body) as { type: string; data: { message_id: string } };
      if (event.type === 'delivered') hook.delivered.add(event.data.message_id);
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  hook.url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`;
  hook.stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return hook;
}

const reportOn = (recipient: string): string =>
  [
    'From: mailer-daemon@dest.test',
    'Subject: Undelivered Mail Returned to Sender',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'There is no such user here.',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; dest.test',
    '',
    `Final-Recipient: rfc822; ${recipient}`,
    'Action: failed',
    'Status: 5.1.1',
    'Diagnostic-Code: smtp; 550 5.1.1 no such user',
    '',
    '--b--',
  ].join('\r\n');

/** Hands in a report that the mail could not be delivered; returns whether it was answered with 250. `onDot` runs right behind the dot. */
export async function bounce(port: number, mail: Taken, onDot: () => void): Promise<boolean> {
  const client = smtpClient(port);
  try {
    await client.reply();
    for (const line of ['EHLO dest.test', 'MAIL FROM:<>', `RCPT TO:<${mail.returnPath}>`, 'DATA'])
      if (!/^[23]/.test(await client.say(line))) return false;
    client.write(`${reportOn(mail.recipient)}\r\n.\r\n`);
    onDot();
    return (await client.reply()).startsWith('250');
  } finally {
    client.end();
  }
}
