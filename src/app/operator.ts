/** Builds the dependencies of the operator's operations, which the command line and the dashboard share. */
import type { Inside } from '../api/inside.ts';
import { watchSettings } from '../config/settings-state.ts';
import type { CertificateWatch } from '../config/certificate.ts';
import type { Inbound } from '../inbound/inbound.ts';
import { handIn, selfTest } from '../inbound/self-test.ts';
import type { LaneFactsOf } from '../messages/delivery/why.ts';
import type { OperatorDeps } from '../operator/deps.ts';
import type { DeliveryEngine } from './delivery-engine.ts';
import { signingKey, type AppContext } from './context.ts';
import { invitationMail, type AccountNotices } from './notices.ts';

export interface OperatorParts {
  delivery: DeliveryEngine;
  inside: Inside;
  notices: AccountNotices;
  laneFacts: LaneFactsOf;
}

/** The parts of the service whose state operators see. */
export interface ServiceParts {
  inbound: Pick<Inbound, 'mailPorts' | 'ports'>;
  certificate: Pick<CertificateWatch, 'look' | 'state'>;
}

export function buildOperator(
  context: AppContext,
  { delivery, inside, notices, laneFacts }: OperatorParts,
  { inbound, certificate }: ServiceParts,
): OperatorDeps {
  const { mta, holds, limits } = delivery;
  const { db, clock, log, keyring, resolver, recorder, notifiers, config, ownAccount, live } = context;
  return {
    db,
    clock,
    log,
    keyring,
    resolver,
    recorder,
    notifiers,
    // Those in force: a reload replaces some of them.
    get config() {
      return live.config;
    },
    nodes: context.nodes,
    mta,
    owners: context.owners,
    laneFacts,
    holds,
    limits,
    invitations: invitationMail(notices, context),
    strangerLines: context.strangerLines,
    inside,
    listeners: () => inbound.mailPorts(),
    unknownProxies: () => [...context.unknownProxies],
    settings: watchSettings(
      { clock },
      { inForce: () => live.config, read: context.overrides.readSettings ?? (() => live.config) },
    ),
    certificate,
    async handIn({ from, to, mail }) {
      const port = inbound.ports().mx;
      if (port === null) return { taken: false, reply: 'smtp.mx.port is taken by another program' };
      const host = dialAddressOf(config.smtp.mx.host);
      const given = { host, port, helo: config.smtp.hostname, from, to, mail, patienceMs: HAND_IN_MS };
      const done = await handIn(given);
      return done.kind === 'taken' ? { taken: true, reply: done.reply } : { taken: false, reply: done.why };
    },
    selfTest(through) {
      const port = inbound.ports().mx;
      return selfTest(
        { clock, db, notifiers, ownAccount, returnPathKey: signingKey(keyring) },
        {
          mx: port === null ? null : { host: dialAddressOf(config.smtp.mx.host), port },
          hostname: config.smtp.hostname,
          simulatorDomain: config.simulator.domain,
          through,
        },
      );
    },
  };
}

/** A mail of the largest size takes a few seconds. */
const HAND_IN_MS = 15_000;

/** Returns the address to dial: a port that listens on all addresses is dialled on the loopback. */
const dialAddressOf = (host: string): string => (host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host);
