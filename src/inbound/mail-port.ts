/** A port for mail, tried again every minute while another program has it. It is not an error: the API, delivery and other ports work without it. */
import { codeOf } from '../base/error-code.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

export type MailPortName = 'mx' | 'submission' | 'submissions';

export interface MailPortState {
  name: MailPortName;
  /** The address and port of the settings. */
  host: string;
  port: number;
  /** The port that is listened on; null while none is. */
  open: number | null;
  /** The reason why the port cannot be opened; null while it is open or was not tried yet. */
  fault: { code: 'EADDRINUSE' | 'EACCES'; since: number } | null;
}

/** The mail that cannot arrive while a port is not open, and the setting that chooses another port, for the log. */
const WORDS: Readonly<Record<MailPortName, { takes: string; setting: string }>> = {
  mx: { takes: 'bounces, complaints and mail to domains that receive', setting: 'smtp.mx.port' },
  submission: { takes: 'mail of applications', setting: 'smtp.submission.port' },
  submissions: { takes: 'mail of applications', setting: 'smtp.submission.tlsPort' },
};

const RETRY_MS = 60_000;

export class MailPort {
  readonly state: MailPortState;
  private readonly deps: { clock: Clock; log: Log };
  private readonly isChosen: boolean;
  private readonly listener: { listen(): Promise<number> };
  private timer: Timer | null = null;
  private trying: Promise<void> | null = null;
  private isStopped = false;

  /** `isChosen`: by the settings. The right to listen on a default port may be missing, and then it is left out. */
  constructor(
    deps: { clock: Clock; log: Log },
    state: Pick<MailPortState, 'name' | 'host' | 'port'>,
    isChosen: boolean,
    listener: { listen(): Promise<number> },
  ) {
    this.deps = deps;
    this.isChosen = isChosen;
    this.listener = listener;
    this.state = { ...state, open: null, fault: null };
  }

  /** Rejects if the port cannot be had for another reason than a program that has it or a missing right, such as an address that this machine does not have. */
  async start(): Promise<void> {
    const { state, deps, isChosen } = this;
    const { name, host, port } = state;
    try {
      state.open = await this.listener.listen();
      if (state.fault === null) return;
      state.fault = null;
      const text = 'a port for mail that another program had is open now';
      deps.log.info({ event: 'smtp_port_opened', listener: name, host, port: state.open }, text);
    } catch (error) {
      const code = codeOf(error);
      if (code !== 'EADDRINUSE' && (code !== 'EACCES' || isChosen)) throw error;
      this.tryLater();
      if (state.fault !== null) return;
      state.fault = { code, since: deps.clock.now() };
      const cause =
        code === 'EADDRINUSE'
          ? `port ${String(port)} is in use by another program`
          : `this user may not listen on port ${String(port)}`;
      const { takes, setting } = WORDS[name];
      deps.log.warn(
        { event: 'smtp_port_taken', listener: name, host, port, code },
        `${cause}: ${takes} cannot arrive here. End that program, or choose another port with ${setting} (docs/beside-postfix.md); it is tried again every minute`,
      );
    }
  }

  private tryLater(): void {
    if (this.isStopped) return;
    const failed = (err: unknown): void => {
      const { name, host, port } = this.state;
      this.deps.log.error(
        { event: 'smtp_port_failed', listener: name, host, port, err },
        'a port for mail could not be opened',
      );
      this.tryLater();
    };
    const tryAgain = (): void => {
      this.trying = this.start().catch(failed);
    };
    this.timer = this.deps.clock.after(RETRY_MS, tryAgain, { background: true });
  }

  /** Ends the tries, and waits for one that runs. The listener is closed by its owner, afterwards. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.timer?.cancel();
    await this.trying;
  }
}
