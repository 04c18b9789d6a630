/** One measured run of the built appliance: warm it up, then send mails and wait until the event log has all of them as delivered. */
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { load, readyLoad, watchDelivered, type Answers } from './drive.ts';

export interface RunOptions {
  /** Where the receiver listens on loopback. */
  sinkPort: number;
  /** Connections to the receiver. */
  sessions: number;
  messages: number;
  /** Mails before the clock starts. */
  warm: number;
  /** Octets of html in each mail. */
  html: number;
  /** Connections of the clients. */
  connections: number;
  env?: Record<string, string>;
  nodeArgs?: readonly string[];
  /** Runs on the started appliance before the first mail. */
  prepare?: (appliance: Appliance) => Promise<void>;
  /** Runs when everything has been delivered. */
  afterwards?: (appliance: Appliance) => void;
}

export interface Run {
  /** Delivered messages a second. */
  rate: number;
  /** Accepted messages a second. */
  acceptedRate: number;
  answers: Answers;
  /** CPU time of the server for one message. */
  cpuMs: number;
  /** Resident memory at the end. */
  rssMiB: number;
}

export async function measuredRun(options: RunOptions): Promise<Run> {
  const { sinkPort, sessions, messages, warm, html, connections, env = {}, nodeArgs = [] } = options;
  const appliance = await startAppliance({
    env: {
      ...env,
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sinkPort)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(sessions),
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: String(sessions),
    },
    nodeArgs,
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    await options.prepare?.(appliance);
    const common = { url: appliance.url, key, connections, html };
    const delivered = watchDelivered(appliance.url, key);
    await load({ ...common, count: warm, offset: 0 });
    await delivered(warm);
    const run = await readyLoad({ ...common, count: messages, offset: warm });
    const cpu = appliance.cpu();
    const started = performance.now();
    const answers = await run();
    const accepted = performance.now() - started;
    await delivered(messages);
    const took = performance.now() - started;
    options.afterwards?.(appliance);
    return {
      rate: (messages / took) * 1000,
      acceptedRate: (messages / accepted) * 1000,
      answers,
      cpuMs: (appliance.cpu() - cpu) / messages,
      rssMiB: appliance.rss(),
    };
  } finally {
    await appliance.stop();
  }
}

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
