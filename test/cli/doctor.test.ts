import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { startTestApp, newFolder, zonesFor } from '../support/harness/app.ts';
import { ran, type Ran } from './ran.ts';

interface Report {
  data: { check: string; status: string; why: string; cure: string | null }[];
}

/** Checks that ask nothing outside of this machine. */
const HERE = 'files,secret_key,disk,listeners,certificate,domains,one_click,webhooks,books';
const report = ({ out }: Ran): Report['data'] => (JSON.parse(out) as Report).data;
const lineOf = (ran: Ran, check: string): Report['data'][number] | undefined =>
  report(ran).find((line) => line.check === check);

describe('posthorn doctor', () => {
  it('examines the running server', async () => {
    const test = await startTestApp({ zones: zonesFor('dest.test'), settings: { storage: { minFreeBytes: '0B' } } });
    const env = { POSTHORN_DATA_DIR: test.folder };
    const json = await ran(['doctor', '--json', '--only', HERE], env);
    assert.deepEqual(Object.keys(report(json)[0] ?? {}), ['check', 'status', 'why', 'cure', 'about', 'copy']);
    assert.deepEqual([...new Set(report(json).map(({ check }) => check))].sort(), HERE.split(',').sort());
    const listening = lineOf(json, 'listeners')?.why ?? '';
    assert.match(
      listening.replaceAll(' (this machine only)', ''),
      /^bounces \d+, submission \d+, submission by TLS \d+$/,
    );
    assert.equal(lineOf(json, 'books')?.why, 'balanced: 0 recipients accepted');
    assert.equal(lineOf(json, 'domains')?.status, 'ok', 'acme.test is trusted');
    assert.equal(json.code, 0, json.out);
    const table = await ran(['doctor', '--only', 'books,certificate'], env);
    assert.equal(table.code, 0);
    assert.match(table.out, /^warning +certificate +\S+ is signed by itself.*\n +-> Get one.*\nok +books +balanced/);
    await test.stop();
  });

  it('has the running server send itself a bounce', async () => {
    const test = await startTestApp();
    const json = await ran(['doctor', '--json', '--only', 'bounce'], { POSTHORN_DATA_DIR: test.folder });
    assert.match(lineOf(json, 'bounce')?.why ?? '', /^a bounce sent to ourselves was recognised after \d+ ms$/);
    await test.stop();
  });

  it('fails with exit code 1 where the server has a fault, and names the cure', async () => {
    const test = await startTestApp({ settings: { storage: { minFreeBytes: '1TiB' } } });
    const { code, out } = await ran(['doctor', '--only', 'disk'], { POSTHORN_DATA_DIR: test.folder });
    assert.equal(code, 1);
    assert.match(out, /^FAILED {3}disk .*new mail is refused\n +-> Free some/);
    await test.stop();
  });

  it('looks for itself where no server runs: at the database of one that has stopped', async () => {
    const test = await startTestApp({ folder: newFolder() });
    await test.send();
    await test.stop();
    const json = await ran(['doctor', '--json', '--only', HERE], { POSTHORN_DATA_DIR: test.folder });
    assert.deepEqual(lineOf(json, 'listeners'), {
      check: 'listeners',
      status: 'warning',
      why: 'not looked at: the server is not running',
      about: null,
      copy: [],
      cure: 'Start it (posthorn serve) and ask again.',
    });
    assert.equal(lineOf(json, 'books')?.why, 'balanced: 1 recipient accepted');
    assert.equal(lineOf(json, 'secret_key')?.status, 'ok');
    rmSync(test.folder, { recursive: true });
  });

  it('makes nothing where there is nothing yet', async () => {
    const folder = newFolder();
    const data = path.join(folder, 'data');
    const { code, out } = await ran(['doctor', '--json', '--only', HERE], {
      POSTHORN_DATA_DIR: data,
      POSTHORN_STORAGE__MIN_FREE_BYTES: '0B',
    });
    const lines = (JSON.parse(out) as Report).data;
    assert.equal(code, 0, out);
    assert.match(lines.find(({ check }) => check === 'books')?.why ?? '', /there is no database/);
    assert.deepEqual(readdirSync(folder), []);
    rmSync(folder, { recursive: true });
  });

  it('names the checks there are', async () => {
    const { code, notes } = await ran(['doctor', '--only', 'teeth']);
    assert.equal(code, 65);
    assert.match(notes, /no check teeth; there are settings, files/);
  });
});
