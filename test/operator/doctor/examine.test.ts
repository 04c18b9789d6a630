import assert from 'node:assert/strict';
import { Patient } from './healthy.ts';
import { checkNames, examine } from '../../../src/operator/doctor/doctor.ts';
import { settleEventLoop } from '../../support/harness/event-loop.ts';
import { storeProbes } from '../../../src/operator/doctor/store.ts';
import type { Missing } from '../../../src/operator/doctor/probes.ts';

describe('an examination', () => {
  let patient: Patient;
  beforeEach(async () => {
    patient = await Patient.open();
  });
  afterEach(() => patient.close());

  it('runs the checks side by side, and gives the findings in their order', async () => {
    let release = (): void => undefined;
    const waiting = new Promise<void>((resolve) => (release = resolve));
    const probes = patient.probes();
    const { freeBytes } = probes.machine;
    const machine = {
      ...probes.machine,
      freeBytes: async (dir: string) => {
        await waiting;
        return freeBytes(dir);
      },
      addresses: () => {
        release();
        return ['5.9.10.11'];
      },
    };
    const findings = await examine({ ...probes, machine }, ['disk', 'blocklists']);
    assert.deepEqual(
      findings.map(({ check }) => check),
      ['disk', 'blocklists'],
    );
  });

  it('does not wait for a check that hangs', async () => {
    const probes = patient.probes();
    const greet = () => new Promise<never>(() => undefined);
    const examined = examine({ ...probes, network: { ...probes.network, greet } }, ['outbound', 'one_click']);
    await settleEventLoop();
    patient.office.clock.advance(20_000);
    const [late, other] = await examined;
    assert.deepEqual([late?.check, late?.status, late?.why], ['outbound', 'warning', 'no result within 20 s']);
    assert.deepEqual([other?.check, other?.status], ['one_click', 'ok']);
    assert.equal(patient.office.clock.nextAt(), null, 'no timer is left');
  });

  it('says so where a check breaks', async () => {
    const machine = { ...patient.probes().machine, freeBytes: () => Promise.reject(new Error('EIO')) };
    const [finding] = await examine({ ...patient.probes(), machine }, ['disk']);
    assert.deepEqual([finding?.status, finding?.why], ['failed', 'the check itself failed: EIO']);
  });

  for (const [what, url, code, syscall, why, cure] of [
    ['the disk of the database is full', 'sqlite', 'SQLITE_FULL', '', /^the disk of .* is full/, /Make room/],
    [
      'the disk of PostgreSQL is full',
      'postgres://me@/mail',
      '53100',
      '',
      /^PostgreSQL cannot do more now: it/,
      /its disk/,
    ],
    [
      'PostgreSQL is away',
      'postgres://me@/mail',
      'ECONNREFUSED',
      'connect',
      /^the database cannot .* now: it/,
      /Is the database running/,
    ],
    [
      'a page is damaged',
      'sqlite',
      'SQLITE_CORRUPT',
      '',
      /^the database of .* is damaged: it/,
      /restore the last backup/,
    ],
    ['a file is away', 'sqlite', 'ENOENT', 'open', /^the check itself failed: it$/, /^Report it/],
  ] as const)
    it(`says so where ${what}`, async () => {
      const error = Object.assign(new Error('it'), { code, syscall });
      const probes = patient.probes();
      const { storage } = probes.config;
      const config = { ...probes.config, storage: { ...storage, url } };
      const store = { ...storeProbes(patient.office.deps.db), books: () => Promise.reject(error) };
      const [finding] = await examine({ ...probes, config, store }, ['books']);
      assert.equal(finding?.status, 'failed');
      assert.match(finding.why, why);
      assert.match(finding.cure ?? '', cure);
    });

  it('says what it cannot see without a server and without a database, and fails for neither', async () => {
    const missing: Missing = { kind: 'missing', why: 'it is not there', cure: 'Start it.' };
    const findings = await examine({ ...patient.probes(), server: missing, store: missing }, checkNames);
    const unseen = findings.filter(({ status }) => status !== 'ok');
    assert.deepEqual(
      unseen.map(({ check, status }) => `${check} ${status}`),
      ['listeners warning', 'bounce warning', 'domains warning', 'webhooks warning', 'books warning'],
    );
    for (const { why, cure } of unseen) {
      assert.match(why, /it is not there/);
      assert.equal(cure, 'Start it.');
    }
  });
});
