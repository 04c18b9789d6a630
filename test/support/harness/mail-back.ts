/** Mails that come back, and a hand to send them with. */
import net from 'node:net';

/** A report of a failure (RFC 3464), as mail hosts send it. */
export const dsn = (
  recipient: string,
  { action = 'failed', status = '5.1.1', text = '550 5.1.1 no such user' } = {},
): string =>
  [
    'From: MAILER-DAEMON@mx.dest.test',
    'Subject: Undelivered Mail Returned to Sender',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'Your message could not be delivered.',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.dest.test',
    '',
    `Final-Recipient: rfc822; ${recipient}`,
    `Action: ${action}`,
    `Status: ${status}`,
    `Diagnostic-Code: smtp; ${text}`,
    '',
    '--b--',
  ].join('\r\n');

/** A complaint (RFC 5965) that brings this head back. */
export const arf = (head: readonly string[]): string =>
  [
    'From: fbl@provider.test',
    'Subject: complaint',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=feedback-report; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'A complaint.',
    '--b',
    'Content-Type: message/feedback-report',
    '',
    'Feedback-Type: abuse',
    'User-Agent: SomeGenerator/1.0',
    'Version: 1',
    '',
    '--b',
    'Content-Type: message/rfc822',
    '',
    ...head,
    'Subject: Welcome',
    '',
    'Good day.',
    '--b--',
  ].join('\r\n');

/** Sends one mail by hand; the replies to the commands. */
export async function sendByHand(
  port: number,
  from: string,
  to: string | readonly string[],
  mail: string,
): Promise<string[]> {
  const socket = net.connect(port, '127.0.0.1');
  const replies: string[] = [];
  let text = '';
  let wake: () => void = () => undefined;
  socket.setEncoding('utf8').on('data', (part: string) => {
    text += part;
    wake();
  });
  const reply = async (): Promise<string> => {
    for (;;) {
      const end = /^\d{3} .*\r\n/m.exec(text);
      if (end !== null) {
        const whole = text.slice(0, end.index + end[0].length).trimEnd();
        text = text.slice(end.index + end[0].length);
        return whole;
      }
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  await reply();
  const recipients = [to].flat().map((address) => `RCPT TO:<${address}>`);
  for (const line of ['EHLO mx.dest.test', `MAIL FROM:<${from}>`, ...recipients]) {
    socket.write(`${line}\r\n`);
    replies.push(await reply());
  }
  if (replies.slice(2).some((reply) => reply.startsWith('250'))) {
    socket.write('DATA\r\n');
    replies.push(await reply());
    socket.write(`${mail.replaceAll(/^\./gm, '..')}\r\n.\r\n`);
    replies.push(await reply());
  }
  socket.destroy();
  return replies;
}
