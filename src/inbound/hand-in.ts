/**
 * Hands one mail to our own MX listener, by the plainest SMTP: for the self-test. The delivery engine, which never
 * connects to ourselves, has no part in it.
 */
import net from 'node:net';
import type { Clock } from '../base/clock.ts';

export interface HandIn {
  host: string;
  port: number;
  helo: string;
  /** Empty for the null sender. */
  from: string;
  to: string;
  /** Line ends CRLF. */
  mail: Buffer;
  patienceMs: number;
}

export type HandedIn = { kind: 'taken'; reply: string } | { kind: 'refused'; why: string };

/** Our replies have a few lines. */
const MOST_REPLY = 16 * 1024;

export async function handIn({ clock }: { clock: Clock }, order: HandIn): Promise<HandedIn> {
  const socket = net.connect(order.port, order.host);
  const end = { why: null as string | null };
  const over = (why: string): void => {
    end.why ??= why;
    socket.destroy();
  };
  const timer = clock.after(order.patienceMs, () => {
    over(`no answer within ${String(order.patienceMs / 1000)} s`);
  });
  const reply = replies(socket, over);
  try {
    let last = await reply();
    for (const step of stepsOf(order)) {
      if (last === null || !/^[23]/.test(last)) break;
      socket.write(step);
      last = await reply();
    }
    if (last === null) return { kind: 'refused', why: end.why ?? 'the connection was closed' };
    return last.startsWith('250 ') ? { kind: 'taken', reply: last } : { kind: 'refused', why: last };
  } finally {
    timer.cancel();
    socket.destroy();
  }
}

/** Returns the commands. A dot that begins a line is doubled (RFC 5321 section 4.5.2). */
function stepsOf({ helo, from, to, mail }: HandIn): string[] {
  const stuffed = mail.toString('latin1').replace(/^\./gm, '..');
  return [
    `EHLO ${helo}\r\n`,
    `MAIL FROM:<${from}>\r\n`,
    `RCPT TO:<${to}>\r\n`,
    'DATA\r\n',
    `${stuffed}${stuffed.endsWith('\r\n') ? '' : '\r\n'}.\r\n`,
  ];
}

/** Returns the last line of the next reply, or null if the connection has ended. */
function replies(socket: net.Socket, over: (why: string) => void): () => Promise<string | null> {
  let text = '';
  let wake: () => void = () => undefined;
  socket.setEncoding('latin1');
  socket.on('data', (more: string) => {
    text += more;
    if (text.length > MOST_REPLY) over('a reply without an end');
    wake();
  });
  socket.on('error', (error) => {
    over(error.message);
  });
  socket.on('close', () => {
    wake();
  });
  return async () => {
    for (;;) {
      const whole = /^(?:\d{3}-.*\r\n)*(\d{3} .*)\r\n/.exec(text);
      if (whole?.[1] !== undefined) {
        text = text.slice(whole[0].length);
        return whole[1];
      }
      if (socket.destroyed) return null;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
}
