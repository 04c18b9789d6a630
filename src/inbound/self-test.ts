/**
 * Tests whether mail that comes back is recognised: a simulated mail is delivered, a genuine report of its failure goes to the MX listener, and the
 * mail must be `bounced`. All takes place in the account of our own mail, so the numbers of no customer change.
 */
import { createTransport } from 'nodemailer';
import { newId } from '../base/id.ts';
import type { Mailbox } from '../mail/address.ts';
import { writeDeliveryReport } from '../mail/delivery-report-write.ts';
import { writeHead } from '../mail/header.ts';
import { hintsOf } from '../messages/delivery/due-hint.ts';
import { ownMailRows } from '../messages/accept/own-mail.ts';
import { returnPathFor, type ReturnPathKey } from '../messages/delivery/return-path.ts';
import type { InboundContext } from './context.ts';

type SelfTestDeps = Pick<InboundContext, 'clock' | 'notifiers' | 'ownAccount'> & {
  db: Pick<InboundContext['db'], 'commit' | 'prepared'>;
  /** The one that signs now. */
  returnPathKey: ReturnPathKey;
};

interface SelfTestPlace {
  /** Address of the MX listener; null without a port. */
  mx: { host: string; port: number } | null;
  hostname: string;
  simulatorDomain: string;
  /** Where the report is handed in instead, to test the way there, and the return-path domain that it is addressed to. */
  through?: Detour | undefined;
}

export interface Detour {
  host: string;
  port: number;
  domain: string;
}

/** `why` names the step that failed; null if all went well. */
export interface SelfTestResult {
  ok: boolean;
  why: string | null;
  ms: number;
}

/** The limit of each step. A step usually takes some milliseconds, and half a second if the reader of reports has to start. */
const STEP_TIMEOUT_MS = 15_000;

export async function selfTest(deps: SelfTestDeps, place: SelfTestPlace): Promise<SelfTestResult> {
  const started = deps.clock.monotonic();
  const why = await findFault(deps, place);
  return { ok: why === null, why, ms: Math.round(deps.clock.monotonic() - started) };
}

async function findFault(
  deps: SelfTestDeps,
  { mx, hostname, simulatorDomain, through }: SelfTestPlace,
): Promise<string | null> {
  const door = through ?? mx;
  if (door === null) return 'nothing listens for bounces: smtp.mx.port is taken by another program';
  const postmaster = mailbox('postmaster', hostname);
  const recipient = mailbox('delivered', simulatorDomain);
  const deliveryId = await send(deps, postmaster, recipient);
  if (!(await isReached(deps, deliveryId, 'delivered')))
    return `a simulated mail was not delivered within ${seconds(STEP_TIMEOUT_MS)}: the delivery engine does not get round to it`;
  const to = `${returnPathFor(deps.returnPathKey, deliveryId)}@${through?.domain ?? hostname}`;
  const taker = through === undefined ? 'the MX listener' : `port ${String(through.port)} of ${through.host}`;
  const report = bounceOf(postmaster, recipient, deps.clock.now());
  const { host, port } = door;
  const handed = await handIn({ host, port, helo: hostname, from: '', to, mail: report, patienceMs: STEP_TIMEOUT_MS });
  if (handed.kind === 'refused') return `${taker} did not take a bounce: ${handed.why}`;
  if (await isReached(deps, deliveryId, 'bounced')) return null;
  return `${taker} took a bounce (${handed.reply}), but it was not recognised within ${seconds(STEP_TIMEOUT_MS)}`;
}

async function send(deps: SelfTestDeps, from: Mailbox, to: Mailbox): Promise<string> {
  await deps.ownAccount.ensure();
  const now = deps.clock.now();
  const mail = {
    id: newId('msg', now),
    from,
    to,
    subject: 'Self-test',
    content: { kind: 'text', text: 'Self-test.\n', headers: [], attachments: [] },
  } as const;
  const rows = ownMailRows(mail, now, { maxAge: 10 * STEP_TIMEOUT_MS, rules: [] }, { isSimulated: true });
  await deps.db.commit.insert(rows);
  deps.notifiers.deliveries.notify(hintsOf(rows));
  return rows.deliveries[0]?.id ?? '';
}

/** Writes the report that a mail host would send: with the null sender, about a mailbox that does not exist. */
function bounceOf(from: Mailbox, { address, domain }: Mailbox, now: number): Buffer {
  const head = writeHead({
    from: mailbox('mailer-daemon', domain),
    to: [from],
    cc: [],
    replyTo: [],
    subject: 'Self-test: undelivered',
    date: new Date(now),
    messageId: `<${newId('msg', now)}@${domain}>`,
    extra: [['Auto-Submitted', 'auto-replied']],
  });
  const diagnostic = { type: 'smtp', text: '550 5.1.1 a self-test', host: domain } as const;
  const report = writeDeliveryReport({
    reportingMta: domain,
    arrivedAt: now,
    messageId: 'self-test',
    text: 'This is a self-test.\n',
    recipients: [{ address, status: '5.1.1', diagnostic, lastAttemptAt: now }],
    originalHead: null,
  });
  return Buffer.concat([Buffer.from(`${head}${report.headers}\r\n`), report.body]);
}

/** Reads the status after each notification of the event log, until it is reached or the time is over. */
async function isReached({ db, clock, notifiers }: SelfTestDeps, deliveryId: string, status: string): Promise<boolean> {
  const read = 'SELECT status FROM deliveries WHERE id = ?';
  let [isOver, wake] = [false, (): void => undefined];
  const unlisten = notifiers.events.listen(() => wake());
  const timeUp = (): void => {
    isOver = true;
    wake();
  };
  const timer = clock.after(STEP_TIMEOUT_MS, timeUp);
  try {
    for (;;) {
      const notified = new Promise<void>((resolve) => (wake = resolve));
      const [row] = await db.prepared.all<{ status: string }>(read, [deliveryId]);
      if (row?.status === status || isOver) return row?.status === status;
      await notified;
    }
  } finally {
    timer.cancel();
    unlisten();
  }
}

const mailbox = (local: string, domain: string): Mailbox => ({
  name: null,
  address: `${local}@${domain}`,
  local,
  domain,
});
const seconds = (ms: number): string => `${String(ms / 1000)} s`;

interface HandIn {
  host: string;
  port: number;
  helo: string;
  /** The null sender if it is empty. */
  from: string;
  to: string;
  mail: Buffer;
  patienceMs: number;
}

/** Hands a mail in by SMTP, without TLS. The delivery engine never connects to ourselves. */
export async function handIn({
  host,
  port,
  helo,
  from,
  to,
  mail,
  patienceMs,
}: HandIn): Promise<{ kind: 'taken'; reply: string } | { kind: 'refused'; why: string }> {
  // The error of a missing greeting says more than that of a silent socket, so it has to come first.
  const limits = { connectionTimeout: patienceMs, greetingTimeout: patienceMs, socketTimeout: 2 * patienceMs };
  const transport = createTransport({ host, port, name: helo, secure: false, ignoreTLS: true, ...limits });
  try {
    const { response } = await transport.sendMail({ envelope: { from, to }, raw: mail });
    return { kind: 'taken', reply: response };
  } catch (error) {
    const { response, message } = error as Error & { response?: unknown };
    return { kind: 'refused', why: typeof response === 'string' ? response : message };
  }
}
