/** A healthy installation, as the doctor looks at it: real folder, database and certificate; DNS and the network are made up. */
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeSelfSigned } from '../../../src/config/own-certificate.ts';
import type { Config } from '../../../src/config/schema.ts';
import type { SettingsState } from '../../../src/config/settings-state.ts';
import { readSettings } from '../../../src/config/load.ts';
import { toDomainRecord, type DomainWithKeys } from '../../../src/domains/domain-record.ts';
import { addDomain, findDomain } from '../../../src/domains/domain-store.ts';
import { examine, checkNames, type Finding } from '../../../src/operator/doctor/doctor.ts';
import type { MailPortState } from '../../../src/inbound/mail-port.ts';
import { type Greeting, type Probes, type RelayAnswer, createMachine } from '../../../src/operator/doctor/probes.ts';
import type { BackupState } from '../../../src/backup/folder.ts';
import { storeProbes } from '../../../src/operator/doctor/store.ts';
import { FakeResolver } from '../../support/fakes/fake-resolver.ts';
import type { Zones } from '../../support/fakes/zones.ts';
import { Office } from '../office.ts';

export const HOST = 'mail.posthorn.example';
export const IP = '5.9.10.11';
const MAIL_HOST = 'mx.target.example';
const MAIL_HOST_IP = '8.8.4.4';
const TIME_IP = '9.9.9.9';

/** Making an RSA key takes longer than a whole examination. */
const made = new Map<string, DomainWithKeys>();

/** The facts that a fault changes; all of them are right to begin with. */
export class Patient {
  readonly office: Office;
  readonly zones: Zones;
  /** Settings as in the YAML file. */
  settings: Record<string, unknown> = {};
  /** Greetings by `ip:port`. */
  readonly greetings: Record<string, Greeting> = {
    [`${MAIL_HOST_IP}:25`]: { kind: 'greeted', line: '220 mx.target.example ESMTP', ms: 40 },
    [`${IP}:25`]: { kind: 'greeted', line: `220 ${HOST} ESMTP Posthorn`, ms: 1 },
  };
  /** The answers of smarthosts, by name or address. */
  readonly relays: Record<string, RelayAnswer> = {};
  /** The addresses of the smarthosts that a password was sent to. */
  readonly dialled: string[] = [];
  lists = ['list.example'];
  machine: Partial<Probes['machine']>;
  timeOffset: number | null = 30;
  ports: { mx: number | null; submission: number | null; submissions: number | null } = {
    mx: 25,
    submission: 587,
    submissions: 465,
  };
  selfTest: { ok: boolean; why: string | null; ms: number } = { ok: true, why: null, ms: 12 };
  /** The result of a bounce that goes through another program, and where it was sent. */
  detour: { ok: boolean; why: string | null; ms: number } = { ok: true, why: null, ms: 40 };
  detours: string[] = [];
  proxies: string[] = [];
  secure = ['signed.example'];
  written: SettingsState = { kind: 'in_force' };
  readonly folder: string;
  backups: BackupState;
  certFile = '';

  private constructor(office: Office, zones: Zones) {
    this.office = office;
    this.backups = {
      kind: 'read',
      dir: '/backups',
      count: 7,
      newest: { name: 'posthorn-x', at: office.clock.now() - 3_600_000, bytes: 4096, hasKeys: true },
    };
    this.folder = office.folder;
    this.zones = zones;
    this.machine = {
      addresses: () => [IP, 'fe80::1'],
      freeBytes: () => Promise.resolve(50 * 2 ** 30),
      backups: () => Promise.resolve(this.backups),
    };
  }

  static async open(): Promise<Patient> {
    const office = await Office.open();
    const patient = new Patient(office, {
      [`${HOST} A`]: [IP],
      [`${IP} PTR`]: [HOST],
      [`${MAIL_HOST} A`]: [MAIL_HOST_IP],
      'time.example A': [TIME_IP],
      'list.example A': [],
      'signed.example A': ['8.8.8.8'],
      'broken.example A': 'SERVFAIL',
    });
    chmodSync(patient.folder, 0o750);
    patient.certify(HOST, office.clock.now());
    await patient.addDomain('shop.example');
    return patient;
  }

  /** A certificate that another party issued, as a public authority does. */
  certify(host: string, at: number, { isSelfSigned = false } = {}): void {
    const { cert, key } = makeSelfSigned(host, at);
    const [certFile, keyFile] = [path.join(this.folder, 'tls.pem'), path.join(this.folder, 'tls.key')];
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key, { mode: 0o600 });
    this.certFile = certFile;
    this.settings = { ...this.settings, tls: { certFile, keyFile } };
    const real = createMachine({ ...this.config(), tls: { certFile, keyFile } });
    this.machine = {
      ...this.machine,
      certificate: () => {
        const facts = real.certificate();
        return facts.kind === 'read' ? { ...facts, isSelfSigned } : facts;
      },
    };
  }

  /** With all of its records in DNS. */
  async addDomain(name: string, more: { trusted?: boolean; returnPath?: string } = {}): Promise<void> {
    const { db, clock, keyring } = this.office.deps;
    const account = (await db.reader('accounts').first()) as { id: string };
    const known = made.get(name);
    if (known === undefined) {
      await addDomain({ db, clock, keyring }, { accountId: account.id, name, trusted: false, ...more });
    } else {
      const keys = known.keys.map((key) => ({ ...key, private_key_sealed: keyring.seal('test', 'x') }));
      await db.commit.insert({ domains: [{ ...known.row, account_id: account.id }], dkim_keys: keys });
    }
    const domain = await findDomain({ db }, { accountId: null, nameOrId: name });
    made.set(name, domain);
    await db.commit.transact((tx) => tx.run(`UPDATE domains SET status = 'verified' WHERE name = ?`, [name]));
    for (const { host, type, value } of toDomainRecord(domain, HOST).records) this.zones[`${host} ${type}`] = [value];
  }

  config(): Config {
    const written = {
      dataDir: this.folder,
      http: { publicUrl: 'https://mail.posthorn.example' },
      smtp: { hostname: HOST },
      doctor: {
        mailHost: `${MAIL_HOST}:25`,
        timeServer: 'time.example',
        blocklists: this.lists,
        signedZone: 'signed.example',
        brokenZone: 'broken.example',
      },
      ...this.settings,
    };
    const reading = readSettings(written, { cwd: this.folder, privileged: true, terminal: false, hostname: HOST });
    if (reading.kind === 'bad') throw new Error(reading.mistakes.join('\n'));
    return reading.config;
  }

  probes(): Probes {
    const config = this.config();
    const { clock, deps } = this.office;
    const resolver = new FakeResolver(this.zones);
    for (const name of this.secure) resolver.secure.add(name);
    const silent: Greeting = { kind: 'silent', why: 'no answer within 8 s' };
    return {
      config,
      clock,
      resolver,
      wantsDnssec: true,
      machine: { ...createMachine(config), ...this.machine },
      network: {
        greet: ({ ip, port }) => Promise.resolve(this.greetings[`${ip}:${String(port)}`] ?? silent),
        tryRelay: ({ host, ip }) => {
          this.dialled.push(ip);
          return Promise.resolve(this.relays[host] ?? { kind: 'ready' });
        },
        askTime: () =>
          Promise.resolve(
            this.timeOffset === null
              ? { kind: 'silent', why: 'no answer within 3 s' }
              : { kind: 'answered', offsetMs: this.timeOffset },
          ),
      },
      store: storeProbes(deps.db),
      server: {
        writeTrouble: () => null,
        kind: 'server',
        listeners: () => this.listeners(),
        selfTest: (through) => {
          if (through === undefined) return Promise.resolve(this.selfTest);
          this.detours.push(`${through.host}:${String(through.port)} ${through.domain}`);
          return Promise.resolve(this.detour);
        },
        settings: () => this.written,
        nodes: deps.nodes,
        unknownProxies: () => this.proxies,
      },
    };
  }

  private listeners(): MailPortState[] {
    return (['mx', 'submission', 'submissions'] as const).map((name) => {
      const { [name]: open } = this.ports;
      const fault = open === null ? { code: 'EADDRINUSE' as const, since: 0 } : null;
      return { name, host: '0.0.0.0', port: { mx: 25, submission: 587, submissions: 465 }[name], open, fault };
    });
  }

  examine(): Promise<Finding[]> {
    return examine(this.probes(), checkNames);
  }

  close(): Promise<void> {
    return this.office.close();
  }
}
