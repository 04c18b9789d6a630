/** Builds, starts and stops the listeners: reports and bounces (MX), submission by STARTTLS and by TLS from the start. */
import type { Notifier } from '../scheduling/notifier.ts';
import { budgets } from '../base/budgets.ts';
import { MOST_BYTES } from '../mail/mime-read.ts';
import { MailPort, type MailPortName, type MailPortState, type Place } from './mail-port.ts';
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

export interface Certificate {
  /** PEM. */
  cert: string;
  key: string;
}

export interface InboundDeps extends InboundContext, Omit<SubmissionDeps, 'reader'> {
  keyChanges: Notifier;
  /** A submission, or a step before it that was refused, has ended with this code of SMTP. */
  submitted: (code: number) => void;
  /** Returns whether an operator takes this server out of service. */
  isDraining: () => boolean;
}

export interface InboundSettings {
  certificate: Certificate;
  mx: { host: string; place: Place };
  submission: SubmissionSettings & { host: string; size: number; start: Place; tls: Place };
  limits: Partial<ListenerLimits>;
  /** The size of the disk with the data folder. */
  diskBytes: number;
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

export function createInbound(deps: InboundDeps, settings: InboundSettings) {
  const { clock, log } = deps;
  const reader = createSubmissionReader({ clock });
  const { submission, certificate } = settings;
  const submit = { ...submissionHandlers({ ...deps, reader }, submission), ended: deps.submitted };
  const memory = new Tally();
  const { isDraining } = deps;
  const common = { hostname: submission.hostname, certificate, isDraining };
  const submitters = ({ port }: Place, isSecure: boolean): Listener<Submitter> =>
    new Listener(
      { clock, log },
      {
        ...common,
        host: submission.host,
        port,
        isSecure,
        size: submission.size,
        keepBytes: submission.size,
        maxRecipients: submission.recipients,
        memory,
        smtputf8: submission.smtputf8,
        limits: settings.limits,
      },
      submit,
    );
  const mxBudgets = createMxBudgets(deps);
  const kept = keptReports(deps, settings.diskBytes);
  const reports = createReportReader({ clock }, { keys: deps.keys, rules: deps.bounceRules, count: REPORT_THREADS });
  const { inbox } = new Receiver(deps, { budgets: mxBudgets, kept, reader: reports });
  const { inbox: received } = new ReceivedMails(deps, mxBudgets, settings.diskBytes);
  const mx = new Listener(
    { clock, log },
    {
      ...common,
      host: settings.mx.host,
      port: settings.mx.place.port,
      isSecure: false,
      size: submission.size + MORE_THAN_MAIL,
      keepBytes: MOST_BYTES,
      maxRecipients: MOST_REPORT_RECIPIENTS,
      smtputf8: true,
      limits: MX_LIMITS,
    },
    mxHandlers(deps, { budgets: mxBudgets, reports: inbox, received }),
  );
  const submitting = [submitters(submission.start, false), submitters(submission.tls, true)] as const;
  const listeners = [mx, ...submitting];
  const mailPorts = [
    new MailPort(deps, 'mx', settings.mx.host, settings.mx.place, () => mx.listen()),
    new MailPort(deps, 'submission', submission.host, submission.start, () => submitting[0].listen()),
    new MailPort(deps, 'submissions', submission.host, submission.tls, () => submitting[1].listen()),
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
    for (const listener of submitting)
      void listener.endWhere(isOver).catch((error: unknown) => {
        log.error({ event: 'smtp_failed', err: error }, 'sessions of a revoked key could not be looked at');
      });
  }

  return {
    /** Makes the draft of a mail that comes by HTTP. */
    mailDraft: createMailDrafts({ ...deps, reader }, submission),
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
