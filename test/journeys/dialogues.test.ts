/**
 * Scripted receivers: each file of test/dialogues is a mail host that does what the file says, with the expected end of a mail to it.
 *
 *   # what it is about
 *   rcpt: 550 5.1.1 no such user     a reply at a stage (fake-mail-server.ts); or hang, drop, reset; or bytes as they are
 *   message: "250 ok\r\n" | reset    in quotes, with * n for so many times; after the | what follows
 *   offer: PIPELINING                the extensions; tls, certificate (expired), need (`delivery.tls`), to (local part),
 *   second: yes                      and whether there is a second MX host, which takes everything
 *   dane: key                        what its TLSA records match, in a secure zone: key, anchor, other, unusable; or SERVFAIL
 *
 *   = status deferred                of the recipient; attempt, code, enhanced, text (part of it), class (or `not hard`),
 *   = next 60                        reason, mx (part), tls (part, or none), policy, verified, event; seconds to the next try or -; mails taken
 */
import assert from 'node:assert/strict';
import { X509Certificate, createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expired, server as certificate, testCa } from '../support/harness/certificate.ts';
import {
  startMailServer,
  type Action,
  type FakeMailServer,
  type MailServerOptions,
  type Stage,
} from '../support/fakes/fake-mail-server.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import type { ZoneFault } from '../support/fakes/zones.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

const folder = path.join(import.meta.dirname, '../dialogues');
const stages: ReadonlySet<string> = new Set([
  'connect',
  'ehlo',
  'helo',
  'starttls',
  'mail',
  'rcpt',
  'data',
  'message',
  'quit',
]);

/** The time limit of each stage at which a host hangs. */
const limitsInSeconds: Partial<Record<Stage, number>> = {
  connect: 311,
  ehlo: 313,
  starttls: 61,
  mail: 317,
  rcpt: 331,
  data: 127,
  message: 599,
};
const secondsOf = (stage: Stage): string => `${String(limitsInSeconds[stage])}s`;
const timeouts = {
  banner: secondsOf('connect'),
  bannerWithOthers: secondsOf('connect'),
  ehlo: secondsOf('ehlo'),
  tls: secondsOf('starttls'),
  mail: secondsOf('mail'),
  rcpt: secondsOf('rcpt'),
  data: secondsOf('data'),
  dot: secondsOf('message'),
};

const leaf = new X509Certificate(certificate.cert);
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
/** Values of `dane`. */
const tlsaRecords: Readonly<Record<string, readonly string[] | ZoneFault>> = {
  key: [`3 1 1 ${sha256(leaf.publicKey.export({ type: 'spki', format: 'der' }))}`],
  anchor: [`2 0 1 ${sha256(new X509Certificate(testCa).raw)}`],
  other: [`3 1 1 ${'ab'.repeat(32)}`],
  unusable: [`1 1 1 ${'ab'.repeat(32)}`],
  SERVFAIL: 'SERVFAIL',
};

interface Dialogue {
  name: string;
  about: string;
  /** The answers of the host at its stages. */
  script: Partial<Record<Stage, Action>>;
  /** The other lines. */
  settings: Readonly<Record<string, string>>;
  expected: readonly (readonly [string, string])[];
}

function readDialogue(file: string): Dialogue {
  const lines = readFileSync(path.join(folder, file), 'utf8')
    .split('\n')
    .filter((line) => line !== '');
  const about = lines.flatMap((line) => (line.startsWith('# ') ? [line.slice(2)] : [])).join(' ');
  const expected = lines.flatMap((line) => (line.startsWith('= ') ? [cutAt(line.slice(2), ' ')] : []));
  const pairs = lines.filter((line) => !/^[#=]/.test(line)).map((line) => cutAt(line, ':'));
  const script = Object.fromEntries(pairs.flatMap(([key, value]) => (stages.has(key) ? [[key, actionOf(value)]] : [])));
  const settings = Object.fromEntries(pairs.filter(([key]) => !stages.has(key)));
  return { name: file.replace('.txt', ''), about, script, settings, expected };
}

function cutAt(line: string, mark: string): readonly [string, string] {
  const at = line.indexOf(mark);
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).trim()];
}

function actionOf(value: string): Action {
  const [what = '', then] = value.split(' | ');
  const raw = [...what.matchAll(/("(?:[^"\\]|\\.)*")(?: \* (\d+))?/g)]
    .map(([, text = '""', times = '1']) => (JSON.parse(text) as string).repeat(Number(times)))
    .join('');
  if (raw === '' && then === undefined) return what;
  return { raw: raw === '' ? `${what}\r\n` : raw, ...(then === undefined ? {} : { then: then as 'drop' }) };
}

const dialogues = readdirSync(folder)
  .filter((file) => file.endsWith('.txt'))
  .sort()
  .map(readDialogue);

describe('dialogues', () => {
  let app: TestApp;
  let mailPort: number;
  let servers: FakeMailServer[];
  const domainOf = (at: number): string => `d${String(at)}.test`;

  before(async () => {
    // All hosts share the port, each at an address of its own.
    const probe = await startMailServer();
    mailPort = probe.port;
    await probe.close();
    const needs = dialogues.flatMap(({ settings }, at) =>
      settings['need'] === undefined ? [] : [[domainOf(at), settings['need']]],
    );
    const names = dialogues.flatMap((_, at): [string, string[]][] => [
      [
        `${domainOf(at)} MX`,
        [
          `10 mx1.${domainOf(at)}`,
          ...(dialogues[at]?.settings['second'] === undefined ? [] : [`20 mx2.${domainOf(at)}`]),
        ],
      ],
      [`mx1.${domainOf(at)} A`, [`127.1.1.${String(at + 1)}`]],
      [`mx2.${domainOf(at)} A`, [`127.1.2.${String(at + 1)}`]],
    ]);
    const resolver = new FakeResolver(Object.fromEntries(names));
    for (const [at, { settings }] of dialogues.entries()) {
      if (settings['dane'] === undefined) continue;
      const name = `_25._tcp.mx1.${domainOf(at)}`;
      resolver.zones[`${name} TLSA`] = tlsaRecords[settings['dane']] ?? [];
      for (const one of [domainOf(at), `mx1.${domainOf(at)}`, name]) resolver.secure.add(one);
    }
    app = await startTestApp({
      mailPort,
      resolver,
      settings: {
        delivery: { dnssecResolver: true, smtputf8: true, timeouts, tls: Object.fromEntries(needs) as unknown },
      },
    });
  });
  after(() => app.stop());
  beforeEach(() => {
    servers = [];
  });
  afterEach(async () => {
    for (const server of servers) await server.close();
  });

  async function listen(host: string, options: MailServerOptions): Promise<FakeMailServer> {
    const server = await startMailServer({ ...options, listen: { host, port: mailPort } });
    servers.push(server);
    return server;
  }

  /**
   * Lets a hanging host's time run out, as often as it is dialled, until the attempt has ended. The limits of the stages differ,
   * so that the timer tells that the program waits at this one: pipelined commands arrive before the replies are read.
   */
  async function outwait(server: FakeMailServer, { script }: Dialogue, ended: Promise<unknown>): Promise<void> {
    const hanging = (Object.entries(script) as [Stage, Action][]).find(
      ([, action]) => action === 'hang' || (typeof action === 'object' && action.then === 'hang'),
    );
    if (hanging === undefined) return;
    let over = false;
    void ended.then(() => (over = true));
    const isOver = (): boolean => over;
    for (let time = 1; !isOver(); time++) {
      await Promise.race([server.reached(hanging[0], time), ended]);
      const limit = 1000 * (limitsInSeconds[hanging[0]] ?? 0);
      while (!isOver() && !app.clock.isDueIn(limit)) await new Promise((resolve) => setImmediate(resolve));
      if (!isOver()) app.clock.advance(limit);
    }
  }

  it('are at least sixty', () => {
    assert.ok(dialogues.length >= 60);
  });

  for (const [at, dialogue] of dialogues.entries()) {
    it(`${dialogue.name}: ${dialogue.about}`, async () => {
      const { settings, script, expected } = dialogue;
      const { offer, tls = 'none' } = settings;
      const server = await listen(`127.1.1.${String(at + 1)}`, {
        script,
        tls: tls as 'none',
        certificate:
          settings['certificate'] === 'expired' ? expired : { ...certificate, cert: certificate.cert + testCa },
        ...(offer === undefined ? {} : { extensions: offer === '' ? [] : offer.split(', ') }),
      });
      if (settings['second'] !== undefined) await listen(`127.1.2.${String(at + 1)}`, {});
      const event = expected.find(([what]) => what === 'event')?.[1] ?? 'deferred';
      const { id } = await app.send({ to: `${settings['to'] ?? 'ana'}@${domainOf(at)}` });
      const ended = app.follow().of(id, event);
      await outwait(server, dialogue, ended);
      const events = await ended;
      const message = await app.message(id);
      const [attempt] = message.attempts;
      const line = app.logged.find((one) => one['event'] === 'attempt' && one['message_id'] === id);
      assert.ok(attempt && line, 'an attempt, and its line in the log');
      assert.deepEqual(
        [line['outcome'], line['code'], line['enhanced'], line['text'], line['host']],
        [attempt.outcome, attempt.smtp_code, attempt.enhanced_code, attempt.smtp_reply, attempt.mx],
      );
      const wait =
        attempt.next_attempt_at === null
          ? '-'
          : String(
              (Date.parse(attempt.next_attempt_at) -
                Date.parse((attempt as unknown as { ended_at: string }).ended_at)) /
                1000,
            );
      const seen: Readonly<Record<string, string>> = {
        status: message.recipients[0]?.status ?? '',
        attempt: attempt.outcome,
        event: events.at(-1)?.type ?? '',
        code: String(attempt.smtp_code),
        enhanced: String(attempt.enhanced_code),
        text: attempt.smtp_reply ?? '',
        class: String(attempt.class),
        reason: String(attempt.reason),
        mx: String(attempt.mx),
        tls: typeof line['tls'] === 'string' ? line['tls'] : 'none',
        policy: String(line['tls_policy']),
        verified: String(line['tls_verified']),
        next: wait,
        mails: String(server.sessions.flatMap(({ mails }) => mails.filter(({ data }) => data !== '')).length),
      };
      for (const [what, wanted] of expected)
        assert.ok(
          isAs(what, seen[what] ?? '', wanted),
          `${what}: ${JSON.stringify(seen[what])}, not ${JSON.stringify(wanted)}\n${JSON.stringify(seen)}`,
        );
      if (message.recipients[0]?.status === 'deferred') await app.operator.call('queue.cancel', { message_id: id });
    });
  }
});

function isAs(what: string, seen: string, wanted: string): boolean {
  if (wanted.startsWith('not ')) return seen !== wanted.slice(4);
  return ['text', 'mx', 'tls'].includes(what) ? seen.includes(wanted) : seen === wanted;
}
