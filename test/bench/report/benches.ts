/** The benchmarks of `npm run bench -- all`, in the order in which they run: a line for each aim of docs/benchmark.md. */
import path from 'node:path';

export interface Bench {
  name: string;
  /** The subject of the benchmark, in a few words. */
  shows: string;
  /** File of test/bench. */
  script: string;
  args: readonly string[];
  /** Instead of `args` with `--quick`: enough to see that it runs. */
  quick: readonly string[];
  /** Programs that it runs as peers or receivers. */
  needs: readonly Program[];
  /** On two quiet cores; for the progress and as a tenth of the time after which it is ended. */
  minutes: number;
  /** True if it needs a database of `--postgres`. */
  takesPostgres?: true;
}

/** Programs of others, with the Debian packages that have them. */
export const packages = {
  'smtp-sink': 'postfix',
  'smtp-source': 'postfix',
  postfix: 'postfix',
  opendkim: 'opendkim opendkim-tools',
  'opendkim-genkey': 'opendkim-tools',
} as const;
export type Program = keyof typeof packages;

const POSTFIX = ['smtp-sink', 'smtp-source', 'postfix'] as const;
const OPENDKIM = [...POSTFIX, 'opendkim', 'opendkim-genkey'] as const;
const ONE_CELL = ['--doors', 'http', '--sizes', '4096', '--connections', 'kept'] as const;

export const benches: readonly Bench[] = [
  {
    name: 'doors',
    shows: 'SMTP and HTTP to `delivered`, mails of 4 KB to 1 MB, beside Postfix and Postfix with OpenDKIM',
    script: 'doors.ts',
    args: [],
    quick: ['--quick', '--sizes', '4096,102400'],
    needs: OPENDKIM,
    minutes: 60,
  },
  {
    name: 'dual-signing',
    shows: 'RSA and Ed25519 beside RSA alone',
    script: 'dual.ts',
    args: [],
    quick: ['--runs', '1', '--messages', '200', '--warm', '100'],
    needs: ['smtp-sink'],
    minutes: 2,
  },
  {
    name: 'bulk',
    shows: '10 calls of 1,000 recipients with one body: acceptance, the longest hold of the main loop, delivery',
    script: 'bulk.ts',
    args: [],
    quick: ['--runs', '1', '--calls', '2', '--recipients', '100'],
    needs: ['smtp-sink'],
    minutes: 3,
  },
  {
    name: 'latency',
    shows: 'answers of POST at 500 a second, a cold lane, acceptance to `delivered` at 200 a second',
    script: 'answer-times.ts',
    args: [],
    quick: ['--rate', '50', '--seconds', '2', '--delivered-rate', '50', '--lanes', '10'],
    needs: ['smtp-sink'],
    minutes: 1,
  },
  {
    name: 'backlog',
    shows: '1,000,000 waiting recipients over 20,000 domains, 30 % of them dead',
    script: 'backlog.ts',
    args: ['--recipients', '1000000', '--domains', '20000', '--seconds', '60', '--memory', '286'],
    quick: ['--recipients', '2000', '--domains', '100', '--seconds', '2', '--short', '500'],
    needs: [],
    minutes: 4,
  },
  {
    name: 'isolation',
    shows: 'healthy domains beside 120 broken ones',
    script: 'isolation.ts',
    args: [],
    quick: ['--mails', '50', '--bad', '1'],
    needs: [],
    minutes: 1,
  },
  {
    name: 'tenants',
    shows: "single mails of one account beside another's broadcast to 20,000 domains that never answer",
    script: 'tenants.ts',
    args: [],
    quick: ['--domains', '300', '--mails', '5'],
    needs: [],
    minutes: 2,
  },
  {
    name: 'wan',
    shows: 'a receiver 50 ms away over up to 600 connections: round trips, memory',
    script: 'wan.ts',
    args: [],
    quick: ['--mails', '400', '--lanes', '20'],
    needs: [],
    minutes: 1,
  },
  {
    name: 'wan-connections',
    shows: 'the same at 100, 200 and 500 connections: how the rate grows',
    script: 'wan-connections.ts',
    args: [],
    quick: ['--seconds', '1', '--connections', '10,20'],
    needs: [],
    minutes: 4,
  },
  {
    name: 'idle',
    shows: 'memory and CPU without work, and a restart',
    script: 'idle.ts',
    args: [],
    quick: ['--seconds', '1', '--restarts', '1'],
    needs: [],
    minutes: 2,
  },
  {
    name: 'cost',
    shows: 'CPU and disk for one message at 10,000 and 100,000 messages',
    script: 'cost.ts',
    args: [],
    quick: ['--counts', '200,400'],
    needs: ['smtp-sink'],
    minutes: 3,
  },
  {
    name: 'postgresql',
    shows: 'POST to `delivered` on PostgreSQL beside SQLite',
    script: 'doors.ts',
    args: [...ONE_CELL, '--alone', '--runs', '3'],
    quick: [...ONE_CELL, '--alone', '--quick'],
    needs: ['smtp-sink', 'smtp-source'],
    minutes: 2,
    takesPostgres: true,
  },
  {
    name: 'overload',
    shows: 'clients at three times what can be delivered, for a minute',
    script: 'overload.ts',
    args: [],
    quick: ['--seconds', '2', '--mails', '300', '--connections', '100'],
    needs: ['smtp-sink'],
    minutes: 3,
  },
];

/** Returns the arguments for Node.js that run the benchmark. */
export function commandOf(bench: Bench, options: { quick: boolean; postgres?: string | undefined }): string[] {
  const file = path.resolve(import.meta.dirname, '..', bench.script);
  const own = options.quick ? bench.quick : bench.args;
  const postgres = bench.takesPostgres === true ? ['--postgres', options.postgres ?? ''] : [];
  return ['--import', 'tsx', file, ...own, ...postgres];
}
