/** The parts of the program that port 25 uses. */
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Recorder } from '../messages/delivery/record.ts';
import type { AgeRule } from '../messages/delivery/retry.ts';
import type { ReturnPathKey } from '../messages/delivery/return-path.ts';
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import type { Resolver } from '../net/resolver.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import type { ForwardRule } from './forward.ts';

export interface InboundContext {
  clock: Clock;
  log: Log;
  db: { commit: Committer; prepared: Connection; maintenance: Connection };
  recorder: Pick<Recorder, 'record'>;
  notifiers: { deliveries: Notifier<readonly DueHint[]>; events: Notifier };
  resolver: Pick<Resolver, 'txt' | 'a' | 'aaaa' | 'mx' | 'ptr'>;
  mailViewer: Pick<MailViewer, 'received'>;
  /** Those that sign return paths and unsubscribe addresses. */
  keys: readonly ReturnPathKey[];
  /** True for a host whose mail is ours: our own name, or a return-path domain. */
  isOurHost(host: string): Promise<boolean>;
  /** True for our own name, and for the return path of a domain that has been verified: of no other is it known who gets its mail. */
  isVerifiedHost(host: string): Promise<boolean>;
  /** Returns the domain that receives mail to this address; `refused` if it receives and has no such address, else null. */
  receiverOf(local: string, domain: string): Promise<ReceivingDomain | 'refused' | null>;
  hasRoomForStrangers(): boolean;
  usedUp: UsedUp;
  bounceRules: () => readonly BounceRule[];
  /** Carries out the wish in an unsubscribe mail, if it is about this delivery; else returns false. */
  unsubscribe(wish: string, deliveryId: string): Promise<boolean>;
  /** Settings for mail of people. */
  forward: ForwardRule & { retry: AgeRule };
  /** The account of our own mail, which notices belong to. */
  ownAccount: { ensure(): Promise<void> };
}

/** A domain that takes mail, and whose it is. */
export interface ReceivingDomain {
  account_id: string;
  name: string;
}
