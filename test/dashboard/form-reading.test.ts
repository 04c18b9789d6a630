import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openKeyring } from '../../src/base/keyring.ts';
import { DAY_MS } from '../../src/base/time.ts';
import { createFormRepeats, isToken, tokenFor } from '../../src/dashboard/form-reading.ts';
import { move, once, view, type Shown } from '../../src/dashboard/page.ts';
import { TestClock } from '../support/harness/app.ts';

describe('dashboard/form-reading: a form that is sent again', () => {
  let clock: TestClock;
  let repeats: ReturnType<typeof createFormRepeats>;
  let runs: number;
  beforeEach(() => {
    clock = new TestClock();
    repeats = createFormRepeats(clock);
    runs = 0;
  });

  const form = (fields: Record<string, string>, memberId = 'mem_1', url = '/exports') => ({
    memberId,
    url,
    fields: new URLSearchParams(fields),
  });
  const sent = { _token: 'a', _form: '1', kind: 'stats' };
  const work =
    (shown: Shown = move('/exports', 'It is written.')) =>
    (): Promise<Shown> => {
      runs += 1;
      return Promise.resolve(shown);
    };
  const nothing = (): Promise<void> => Promise.resolve();

  it('gets the first redirect, and is told so', async () => {
    await repeats(form(sent), work(), nothing);
    let repeated = 0;
    const again = await repeats(form({ ...sent, _token: 'b' }), work(), async () => {
      repeated += 1;
      await nothing();
    });
    const say = 'The form was sent twice and done once. It is written.';
    assert.deepEqual(again, { kind: 'move', to: '/exports', say });
    assert.deepEqual([repeated, runs], [1, 1]);
  });

  it('is led to the page that the first answer names, if that had a secret', async () => {
    const made = once('key-made', 'Your new API key', { key: 'secret' }, '/developer/keys');
    assert.deepEqual(await repeats(form(sent), work(made), nothing), made);
    const again = await repeats(form(sent), work(made), nothing);
    assert.equal(again.kind === 'move' && again.to, '/developer/keys');
  });

  it('waits for the first, and does the work itself if that is refused', async () => {
    let refuse: (error: Error) => void = () => undefined;
    const slow = (): Promise<Shown> => new Promise((_, reject) => (refuse = reject));
    const first = assert.rejects(repeats(form(sent), slow, nothing), /refused/);
    const others = [1, 2].map(() => repeats(form(sent), work(), nothing));
    assert.equal(runs, 0);
    refuse(new Error('refused'));
    await first;
    await Promise.all(others);
    assert.equal(runs, 1, 'the third has the redirect of the second');
  });

  const others: Record<string, Parameters<typeof form>> = {
    'another number': [{ ...sent, _form: '2' }],
    'another field': [{ ...sent, kind: 'events' }],
    'another member': [sent, 'mem_2'],
    'another address': [sent, 'mem_1', '/exports?x=1'],
    'a field more': [{ ...sent, format: '' }],
  };
  for (const [what, args] of Object.entries(others))
    it(`is another one with ${what}`, async () => {
      await repeats(form(sent), work(), nothing);
      await repeats(form(...args), work(), nothing);
      assert.equal(runs, 2);
    });

  const unkept: Record<string, { fields: Record<string, string>; shown: Shown }> = {
    'a form without a number': { fields: { kind: 'stats' }, shown: move('/exports') },
    'a form with an empty number': { fields: { ...sent, _form: '' }, shown: move('/exports') },
    'a page, such as that of a refused form': { fields: sent, shown: view('exports', 'Exports') },
    'a redirect with a new session': {
      fields: sent,
      shown: { kind: 'move', to: '/profile', cookies: [{ name: 'session', value: 'x' }] },
    },
  };
  for (const [what, { fields, shown }] of Object.entries(unkept))
    it(`is done again after ${what}`, async () => {
      await repeats(form(fields), work(shown), nothing);
      await repeats(form(fields), work(shown), nothing);
      assert.equal(runs, 2);
    });

  it('is forgotten after a day, and if very many were sent since', async () => {
    await repeats(form(sent), work(), nothing);
    clock.advance(DAY_MS);
    await repeats(form(sent), work(), nothing);
    assert.equal(runs, 2);
    for (let n = 0; n < 2001; n++) await repeats(form({ ...sent, kind: String(n) }), work(), nothing);
    runs = 0;
    await repeats(form(sent), work(), nothing);
    assert.equal(runs, 1);
  });
});

describe('dashboard/form-reading: tokens', () => {
  const folders = [0, 1].map(() => mkdtempSync(path.join(os.tmpdir(), 'keyring-')));
  const [keyring, other] = folders.map((folder) => openKeyring(folder));
  assert.ok(keyring && other);
  after(() => {
    for (const folder of folders) rmSync(folder, { recursive: true });
  });

  it('are those of one cookie', () => {
    assert.ok(isToken(keyring, 'a', tokenFor(keyring, 'a')));
    assert.ok(!isToken(keyring, 'b', tokenFor(keyring, 'a')));
    assert.ok(!isToken(keyring, '', tokenFor(keyring, '')), 'no cookie, no form');
    assert.ok(!isToken(other, 'a', tokenFor(keyring, 'a')));
  });

  it('have no secret in common from page to page, so that lengths of compressed pages tell nothing of the next', () => {
    const made = Array.from({ length: 50 }, () => tokenFor(keyring, 'a').split('.')[2] ?? '');
    for (const part of [made, made.map((one) => one.slice(0, 8)), made.map((one) => one.slice(-8))])
      assert.equal(new Set(part).size, made.length);
  });

  for (const bad of ['', 'x', 'A'.repeat(86), 'A'.repeat(100_000), '\u0000', '%', tokenFor(keyring, 'a').slice(1)])
    it(`refuses ${JSON.stringify(bad.slice(0, 20))} of ${String(bad.length)} characters`, () => {
      assert.equal(isToken(keyring, 'a', bad), false);
    });
});
