/**
 * Real DNSSEC on loopback: NSD serves zones that ldns-signzone has signed with keys made here, and Unbound, which trusts those
 * keys and no others, answers our questions. All in a temporary folder.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createResolver } from '../../../src/net/resolver.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { freePort, missing, stoppedWithUs, until } from '../harness/peer.ts';

export interface SignedZone {
  /** Lines of a zone file, below the zone's SOA and NS. */
  records: readonly string[];
  /** `signed`, or `unsigned`: its parent says that it has no keys. */
  kind: 'signed' | 'unsigned';
  /** Changes the signed zone file, to make it bogus. */
  tamper?: (signed: string) => string;
}

export interface SignedZones {
  /** Of Unbound: `127.0.0.1:5300`. */
  resolver: string;
  stop(): Promise<void>;
}

/** Programs that are not there, or none. */
export const missingForDnssec = (): string[] => missing('unbound', 'nsd', 'ldns-signzone', 'ldns-keygen');

/** `zones` by name. */
export async function startSignedZones(zones: Readonly<Record<string, SignedZone>>): Promise<SignedZones> {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-dnssec-'));
  chmodSync(dir, 0o755);
  const [nsdPort, unboundPort] = [await freePort(), await freePort()];
  const anchors = Object.entries(zones).flatMap(([name, zone]) => writeZone(dir, name, zone));
  const names = Object.keys(zones);
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const each of stops.splice(0)) await each();
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    stops.push(run(dir, 'nsd', ['-d'], nsdConf(dir, nsdPort, names)));
    stops.push(run(dir, 'unbound', ['-d', '-p'], unboundConf(dir, unboundPort, nsdPort, names, anchors)));
    await answering(`127.0.0.1:${String(unboundPort)}`, names);
  } catch (error) {
    await stop();
    throw error;
  }
  return { resolver: `127.0.0.1:${String(unboundPort)}`, stop };
}

/** Writes the zone file that is served; gives the trust anchor of a signed one. */
function writeZone(dir: string, name: string, { records, kind, tamper = (text) => text }: SignedZone): string[] {
  const head = [
    `$ORIGIN ${name}.`,
    '$TTL 300',
    `@ SOA ns.${name}. hostmaster.${name}. 1 3600 600 86400 60`,
    '@ NS ns',
    'ns A 127.0.0.1',
  ];
  const file = path.join(dir, `${name}.zone`);
  writeFileSync(file, `${[...head, ...records].join('\n')}\n`);
  if (kind === 'unsigned') return [];
  const key = tool(dir, 'ldns-keygen', ['-k', '-a', 'ECDSAP256SHA256', name]).trim();
  tool(dir, 'ldns-signzone', ['-n', '-f', `${file}.signed`, file, key]);
  writeFileSync(file, tamper(readFileSync(`${file}.signed`, 'utf8')));
  return readdirSync(dir)
    .filter((each) => each.startsWith(`K${name}.`) && each.endsWith('.key'))
    .map((each) => path.join(dir, each));
}

function tool(cwd: string, program: string, args: readonly string[]): string {
  const ran = spawnSync(program, args, { cwd, encoding: 'utf8' });
  if (ran.status !== 0) throw new Error(`${program}: ${ran.stderr}`);
  return ran.stdout;
}

const nsdConf = (dir: string, port: number, names: readonly string[]): string => `server:
  ip-address: 127.0.0.1@${String(port)}
  username: ""
  chroot: ""
  zonesdir: "${dir}"
  database: ""
  pidfile: "${dir}/nsd.pid"
  xfrdfile: "${dir}/xfrd.state"
  zonelistfile: "${dir}/zone.list"
  xfrdir: "${dir}"
  server-count: 1
remote-control:
  control-enable: no
${names.map((name) => `zone:\n  name: ${name}\n  zonefile: ${name}.zone`).join('\n')}
`;

// "test." is a local zone of Unbound's own unless it is told otherwise.
const unboundConf = (
  dir: string,
  port: number,
  nsd: number,
  names: readonly string[],
  anchors: readonly string[],
): string => `server:
  interface: 127.0.0.1@${String(port)}
  username: ""
  chroot: ""
  directory: "${dir}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  do-ip6: no
  do-not-query-localhost: no
  module-config: "validator iterator"
  local-zone: "test." nodefault
  domain-insecure: "unsigned.test"
${anchors.map((file) => `  trust-anchor-file: "${file}"`).join('\n')}
remote-control:
  control-enable: no
${names.map((name) => `stub-zone:\n  name: "${name}"\n  stub-addr: 127.0.0.1@${String(nsd)}`).join('\n')}
`;

/** Starts it in the foreground; what it gives back ends it and waits until it has ended. */
function run(dir: string, program: string, args: readonly string[], conf: string): () => Promise<void> {
  const file = path.join(dir, `${program}.conf`);
  writeFileSync(file, conf);
  const child = spawn(program, [...args, '-c', file], { cwd: dir, stdio: 'ignore' });
  const ended = new Promise<void>((resolve) =>
    child.once('close', () => {
      resolve();
    }),
  );
  const kill = stoppedWithUs(() => child.kill('SIGTERM'));
  return () => {
    kill();
    return ended;
  };
}

/** Both need a moment; then each zone says something, be it that it is broken. */
async function answering(server: string, names: readonly string[]): Promise<void> {
  const resolver = createResolver({ clock: systemClock }, { servers: [server], timeoutMs: 1000 });
  try {
    for (const name of names)
      await until(async () => (await resolver.a(`ns.${name}`, { fresh: true })).kind !== 'trouble', `DNS for ${name}`);
  } finally {
    await resolver.close();
  }
}
