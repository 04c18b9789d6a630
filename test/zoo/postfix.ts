/** Postfix with Debian's defaults for delivery, sending everything to one host of the zoo. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import nodemailer from 'nodemailer';
import { startPostfix } from '../support/harness/postfix.ts';
import type { Sender } from './sender.ts';

/** `relay` is an address with a port: Postfix asks the system's DNS, not ours, so it needs the address. */
export async function startPostfixSender(relay: string): Promise<Sender> {
  const postfix = await startPostfix({
    hostname: 'mail.bench.test',
    main: () => `mynetworks = 127.0.0.0/8
relayhost = ${relay}
smtpd_recipient_restrictions = permit_mynetworks, reject
smtpd_client_connection_count_limit = 0
smtp_tls_security_level = none
`,
  });
  const injector = nodemailer.createTransport({
    host: '127.0.0.1',
    port: postfix.port,
    pool: true,
    maxConnections: 8,
    ignoreTLS: true,
  });
  // The null sender: otherwise its bounces would go to the same host and count as attempts.
  const mail = { from: 'hi@bench.test', subject: 'Order', text: 'Good day, here is what you ordered.' };
  return {
    name: 'Postfix',
    async send(to) {
      await Promise.all(to.map((one) => injector.sendMail({ ...mail, to: one, envelope: { from: '', to: one } })));
    },
    async flush() {
      spawnSync('postqueue', ['-c', path.join(postfix.dir, 'conf'), '-f']);
    },
    bounced: async () => postfix.log().match(/status=bounced/g)?.length ?? 0,
    // Its work is done by many short-lived processes, whose time is not added up.
    usage: () => ({ cpuMs: NaN, bytesWritten: NaN }),
    inspect: null,
    restart: () => Promise.reject(new Error('no scenario asks Postfix for that')),
    async stop() {
      injector.close();
      postfix.stop();
    },
  };
}
