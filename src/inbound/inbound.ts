/** Builds, starts and stops the listeners: reports and bounces (MX), submission by STARTTLS and by TLS from the start. */
import type { Certificate } from '../config/certificate.ts';
import type { Config } from '../config/schema.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import { budgets } from '../base/budgets.ts';
import { MOST_BYTES } from '../mail/mime-read.ts';
import { MailPort, type MailPortName, type MailPortState } from './mail-port.ts';
import type { InboundContext } from './context.ts';
import { keptReports } from './bounded-store.ts';
import { Listener } from './listener.ts';
import { type ListenerLimits, Tally } from './mail-intake.ts';
import { mxHandlers } from './mx.ts';
import { createMxBudgets } from './mx-budgets.ts';
import { Receiver } from './receive.ts';
import { ReceivedMails } from './received.ts';
import { createReportReader } from './report-reader.ts';
import { createMailDrafts, submissionHandlers } from './submission.ts';
import {
  createSubmissionReader,
  type SubmissionDeps,
  type SubmissionSettings,
  type Submitter,
} from './submission-session.ts';

export interface InboundDeps extends InboundContext, Omit<SubmissionDeps, 'reader'> {
  keyChanges: Notifier;
  /** A submission, or a step before it that was refused, has ended with this code of SMTP. */
  submitted: (code: number) => void;
  /** Returns whether an operator takes this server out of service. */
  isDraining: () => boolean;
}

/** The open ports; null for one that cannot be had. */
export type InboundPorts = Record<MailPortName, number | null>;

/** Reports of RFC 3464 bring the mail back, so they may be larger than the largest mail by this much; only the front of them is kept. */
const MORE_THAN_MAIL = 10 * 1024 * 1024;
const MOST_REPORT_RECIPIENTS = 100;
const REPORT_THREADS = 1;

const MX_LIMITS: Partial<ListenerLimits> = {
  connections: budgets.mx_connections.most,
  connectionsPerNetwork: budgets.mx_connections_network.most,
  heldBytes: budgets.mx_memory.most,
  heldBytesPerNetwork: budgets.mx_memory_network.most,
};

export type Inbound = ReturnType<typeof createInbound>;

/** `diskBytes`: the size of the disk with the data folder. */
export function createInbound(deps: InboundDeps, config: Config, certificate: Certificate, diskBytes: number) {
  const { clock, log, isDraining } = deps;
  const { smtp, limits, delivery } = config;
  const { submission, hostname } = smtp;
  const { clientConnections, clientConnectionsPerMinute } = submission;
  const reader = createSubmissionReader({ clock }, limits.messageBytes);
  const settings: SubmissionSettings = {
    ...submission,
    hostname,
    smtputf8: delivery.smtputf8,
    recipients: limits.recipients,
    operatorAddress: smtp.operatorAddress,
  };
  const submit = { ...submissionHandlers({ ...deps, reader }, settings), ended: deps.submitted };
  const memory = new Tally();
  const common = { hostname, certificate, isDraining };
  const submitters = (port: number, isSecure: boolean): Listener<Submitter> =>
    new Listener(
      { clock, log },
      {
        ...common,
        host: submission.host,
        port,
        isSecure,
        size: limits.messageBytes,
        keepBytes: limits.messageBytes,
        maxRecipients: limits.recipients,
        memory,
        smtputf8: delivery.smtputf8,
        limits: { clientConnections, clientConnectionsPerMinute },
      },
      submit,
    );
  const mxBudgets = createMxBudgets(deps);
  const kept = keptReports(deps, diskBytes);
  const reports = createReportReader({ clock }, { keys: deps.keys, rules: deps.bounceRules, count: REPORT_THREADS });
  const { inbox } = new Receiver(deps, { budgets: mxBudgets, kept, reader: reports });
  const { inbox: received } = new ReceivedMails(deps, mxBudgets, diskBytes);
  const mx = new Listener(
    { clock, log },
    {
      ...common,
      host: smtp.mx.host,
      port: smtp.mx.port,
      isSecure: false,
      size: limits.messageBytes + MORE_THAN_MAIL,
      keepBytes: MOST_BYTES,
      maxRecipients: MOST_REPORT_RECIPIENTS,
      smtputf8: true,
      limits: MX_LIMITS,
    },
    mxHandlers(deps, { budgets: mxBudgets, reports: inbox, received }),
  );
  const [plain, secure] = [submitters(submission.port, false), submitters(submission.tlsPort, true)];
  const listeners = [mx, plain, secure];
  const { host } = submission;
  const mailPorts = [
    new MailPort(deps, { name: 'mx', host: smtp.mx.host, port: smtp.mx.port }, smtp.mx.isPortChosen, mx),
    new MailPort(deps, { name: 'submission', host, port: submission.port }, submission.isPortChosen, plain),
    new MailPort(deps, { name: 'submissions', host, port: submission.tlsPort }, submission.isTlsPortChosen, secure),
  ];
  let unlisten: (() => void) | null = null;

  /** Ends sessions of keys that were revoked or have expired. */
  function endRevoked(): void {
    const isOver = async ({ token }: Submitter): Promise<boolean> => {
      if (token === null) return false;
      const found = await deps.authenticate(token);
      if (found.kind === 'unknown') return true;
      const { revokedAt, expiresAt } = found.caller;
      return [revokedAt, expiresAt].some((at) => at !== null && at <= clock.now());
    };
    for (const listener of [plain, secure])
      void listener.endWhere(isOver).catch((error: unknown) => {
        log.error({ event: 'smtp_failed', err: error }, 'sessions of a revoked key could not be looked at');
      });
  }

  return {
    /** Makes the draft of a mail that comes by HTTP. */
    mailDraft: createMailDrafts({ ...deps, reader }, settings),
    /** Opens the ports. One that another program has is opened later; rejects if a port cannot be had for another reason. */
    async start(): Promise<void> {
      for (const mailPort of mailPorts) await mailPort.start();
      unlisten = deps.keyChanges.listen(endRevoked);
      await kept.trim();
    },
    /** Reads the mails that an earlier run, or a node that has ended, has left unread. Only the node that leads does that. */
    takeLeft(): void {
      inbox.takeLeft();
      received.takeLeft();
    },
    /** Returns the state of each port, in the order mx, submission, submissions. */
    mailPorts: (): MailPortState[] => mailPorts.map(({ state }) => state),
    ports: (): InboundPorts =>
      Object.fromEntries(mailPorts.map(({ state: { name, open } }) => [name, open])) as InboundPorts,
    setCertificate(renewed: Certificate): void {
      for (const listener of listeners) listener.setCertificate(renewed);
    },
    async stop(): Promise<void> {
      unlisten?.();
      await Promise.all(mailPorts.map((mailPort) => mailPort.stop()));
      await Promise.all(listeners.map((listener) => listener.close()));
      await Promise.all([inbox.stop(), received.stop()]);
      await Promise.all([reports.close(), reader.close()]);
    },
  };
}
