import assert from 'node:assert/strict';
import { z } from 'zod';
import { InFlight, WAIT_MS, idempotencyKey } from '../../src/api/idempotency.ts';
import { KEEP_MS, recordKey } from '../../src/storage/idempotency-store.ts';
import type { IdempotencyRow } from '../../src/storage/tables.ts';
import { route } from '../../src/api/route.ts';
import type { Call, Reply, Route } from '../../src/api/route.ts';
import { Problem } from '../../src/base/problem.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { memoryStore, someCaller, startHarness } from './harness.ts';
import type { Harness, HarnessOptions } from './harness.ts';

type AnyCall = Call<object, object, undefined>;
const KEY_HEADER = { 'idempotency-key': '8e03978e-40d5-43e8-bc93-6894a57f9324' };

/** One endpoint whose handler the test supplies; it counts its runs. */
function endpoint(work: (call: AnyCall, run: number) => Reply | Promise<Reply>, more: Partial<Route> = {}) {
  const state = { runs: 0 };
  const declared = route(
    {
      method: 'POST',
      path: '/v1/things',
      operationId: 'createTemplate',
      description: 'Any.',
      tag: 'any',
      scope: ['template'],
      body: z.undefined(),
      bodyByHandler: true,
      responses: {
        201: { description: 'Any.', schema: z.unknown() },
        202: { description: 'Any.', schema: z.unknown() },
        429: { description: 'Any.', schema: z.unknown() },
      },
      ...(more.secretResponse === undefined ? {} : { secretResponse: more.secretResponse }),
    },
    (call) => work(call, ++state.runs),
  );
  return { route: declared, state };
}

describe('Idempotency-Key', () => {
  let h: Harness | null = null;
  const start = async (one: Route, options: HarnessOptions = {}): Promise<Harness> => {
    h = await startHarness({ routes: [one, { ...one, path: '/v1/others', operationId: 'createStream' }], ...options });
    return h;
  };
  afterEach(async () => {
    await h?.stop();
    h = null;
  });

  it('gives the first answer again, byte for byte, and does nothing a second time', async () => {
    const { route: one, state } = endpoint((_, run) => ({
      status: 201,
      body: { run },
      headers: { Location: `/v1/things/${run}` },
    }));
    const { send, rows, clock } = await start(one);
    const first = await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER });
    clock.advance(KEEP_MS - 1);
    const again = await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER });
    assert.deepEqual([again.status, again.text, again.headers.location], [201, first.text, '/v1/things/1']);
    assert.equal(again.headers['content-type'], first.headers['content-type']);
    assert.equal(again.headers['idempotency-replayed'], 'true');
    assert.equal(first.headers['idempotency-replayed'], undefined);
    assert.equal(again.headers['idempotency-mismatch'], undefined);
    assert.notEqual(again.headers['x-request-id'], first.headers['x-request-id']);
    assert.equal(state.runs, 1);
    assert.equal(rows.size, 1);
    clock.advance(1);
    assert.equal((await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER })).text, '{"run":2}');
  });

  it('gives an answer with a long list again, too', async () => {
    const { route: one, state } = endpoint(() => ({
      status: 201,
      body: { data: Array.from({ length: 150 }, String) },
    }));
    const { send } = await start(one);
    const first = await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER });
    const again = await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER });
    assert.deepEqual([again.text, again.headers['idempotency-replayed'], state.runs], [first.text, 'true', 1]);
  });

  it('works without one, each request for itself', async () => {
    const { route: one, state } = endpoint((_, run) => ({ status: 201, body: { run } }));
    const { send, rows } = await start(one);
    await send('POST', '/v1/things', { body: {} });
    await send('POST', '/v1/things', { body: {} });
    assert.deepEqual([state.runs, rows.size], [2, 0]);
  });

  it('compares bodies by meaning, and replays with a mark where they differ', async () => {
    const { route: one } = endpoint((_, run) => ({ status: 201, body: { run } }));
    const { send, audits } = await start(one);
    await send('POST', '/v1/things', { body: '{"a":1,"b":[2]}', headers: KEY_HEADER });
    const same = await send('POST', '/v1/things', { body: '{ "b": [2.0], "a": 1 }', headers: KEY_HEADER });
    assert.equal(same.headers['idempotency-mismatch'], undefined);
    const other = await send('POST', '/v1/things', { body: '{"a":1,"b":[3]}', headers: KEY_HEADER });
    assert.deepEqual([other.status, other.text, other.headers['idempotency-mismatch']], [201, '{"run":1}', 'true']);
    assert.deepEqual(
      audits.map(({ result, idempotency_replayed }) => [result, idempotency_replayed]),
      [
        ['ok', 0],
        ['ok', 1],
        ['idempotency_mismatch', 1],
      ],
    );
  });

  it('answers 409 to another body where the operator says so', async () => {
    const { route: one } = endpoint((_, run) => ({ status: 201, body: { run } }));
    const rows = new Map<string, IdempotencyRow>();
    const store = memoryStore(rows, new FakeClock());
    const { send } = await start(one, { deps: { idempotency: { store, onMismatch: 'error' } } });
    await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER });
    const other = await send('POST', '/v1/things', { body: { a: 2 }, headers: KEY_HEADER });
    assert.deepEqual(
      [other.status, other.error.code, other.error.field],
      [409, 'idempotency_key_reused', 'Idempotency-Key'],
    );
    assert.equal((await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER })).text, '{"run":1}');
  });

  it('belongs to account, mode and path, not to the API key', async () => {
    const { route: made, state } = endpoint((_, run) => ({ status: 201, body: { run } }));
    const one: Route = { ...made, touches: 'mail' };
    const { send } = await start(one, {
      callers: {
        rotated: { ...someCaller, keyId: 'key_two' },
        test: { ...someCaller, mode: 'test' },
        stranger: { ...someCaller, accountId: 'acc_two' },
      },
    });
    const run = async (key: string | undefined, path: string): Promise<string> =>
      (await send('POST', path, { ...(key === undefined ? {} : { key }), body: {}, headers: KEY_HEADER })).text;
    assert.equal(await run(undefined, '/v1/things'), '{"run":1}');
    assert.equal(await run('rotated', '/v1/things'), '{"run":1}', 'a key rotated between try and retry');
    assert.equal(await run('test', '/v1/things'), '{"run":2}');
    assert.equal(await run('stranger', '/v1/things'), '{"run":3}');
    assert.equal(await run(undefined, '/v1/others'), '{"run":4}');
    assert.equal(state.runs, 4);
  });

  it('is the same quoted or bare', async () => {
    const { route: one, state } = endpoint((_, run) => ({ status: 201, body: { run } }));
    const { send } = await start(one);
    await send('POST', '/v1/things', { body: {}, headers: { 'idempotency-key': 'abc' } });
    await send('POST', '/v1/things', { body: {}, headers: { 'idempotency-key': '"abc"' } });
    assert.equal(state.runs, 1);
  });

  it('makes twins wait for the first, and gives all of them its answer', async () => {
    let finish = (): void => undefined;
    const gate = new Promise<void>((resolve) => (finish = resolve));
    const { route: one, state } = endpoint(async (_, run) => {
      await gate;
      return { status: 201, body: { run } };
    });
    const { send } = await start(one);
    const twins = Array.from({ length: 20 }, () => send('POST', '/v1/things', { body: {}, headers: KEY_HEADER }));
    while (state.runs === 0) await new Promise((resolve) => setImmediate(resolve));
    finish();
    const answers = await Promise.all(twins);
    assert.equal(state.runs, 1);
    assert.ok(answers.every((answer) => answer.status === 201 && answer.text === '{"run":1}'));
    assert.equal(answers.filter((answer) => answer.headers['idempotency-replayed'] === 'true').length, 19);
  });

  it('lets a twin wait 25 s and no longer', async () => {
    let finish = (): void => undefined;
    const gate = new Promise<void>((resolve) => (finish = resolve));
    const { route: one, state } = endpoint(async () => {
      await gate;
      return { status: 201, body: {} };
    });
    const { send, clock } = await start(one);
    const first = send('POST', '/v1/things', { body: {}, headers: KEY_HEADER });
    while (state.runs === 0) await new Promise((resolve) => setImmediate(resolve));
    const second = send('POST', '/v1/things', { body: {}, headers: KEY_HEADER });
    while (clock.nextAt() === null) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(WAIT_MS);
    const late = await second;
    assert.deepEqual(
      [late.status, late.error.code, late.headers['retry-after']],
      [503, 'idempotency_in_progress', '2'],
    );
    finish();
    assert.equal((await first).status, 201);
    assert.equal((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).status, 201);
    assert.equal(state.runs, 1);
  });

  it('keeps permanent refusals and releases temporary ones', async () => {
    const outcomes: (Reply | Error)[] = [
      new Error('broken'),
      new Problem('quota_exceeded', 'Enough.'),
      new Problem('service_unavailable', 'Later.'),
      new Problem('unknown_template', 'None.', { field: 'template_id' }),
      { status: 201, body: {} },
    ];
    const { route: one, state } = endpoint((_, run) => {
      const outcome = outcomes[run - 1] ?? new Error('none left');
      if (outcome instanceof Error) throw outcome;
      return outcome;
    });
    const { send } = await start(one);
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++)
      statuses.push((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).status);
    assert.deepEqual(statuses, [500, 429, 503, 400, 400, 400]);
    assert.equal(state.runs, 4);
  });

  it('lets the handler write the record with its work, and does not write it again', async () => {
    const taken: (IdempotencyRow | null)[] = [];
    const { route: one } = endpoint((call) => {
      const reply = { status: 202, body: { id: 'msg_1' }, headers: { Location: '/v1/messages/msg_1' } };
      taken.push(call.idempotencyRow(reply));
      return reply;
    });
    const { send, rows, clock } = await start(one);
    const first = await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER });
    const [row] = taken;
    assert.ok(row);
    assert.equal(rows.size, 0, 'it was the handler that had to store it');
    assert.deepEqual(
      [row.status, row.body, row.created_at, row.expires_at],
      [202, first.text, clock.now(), clock.now() + KEEP_MS],
    );
    assert.match(row.key, /^[0-9a-f]{64}$/);
    rows.set(row.key, row);
    const again = await send('POST', '/v1/things', { body: { a: 1 }, headers: KEY_HEADER });
    assert.deepEqual([again.text, again.headers.location], [first.text, '/v1/messages/msg_1']);
    await send('POST', '/v1/things', { body: {} });
    assert.equal(taken[1], null, 'no key, no record');
  });

  it('forgets a record whose work failed after it was taken', async () => {
    const { route: one, state } = endpoint((call, run) => {
      const reply = { status: 202, body: {} };
      call.idempotencyRow(reply);
      call.auditRow({ status: 202, body: null });
      if (run === 1) throw new Error('the transaction was rolled back');
      return reply;
    });
    const { send, audits } = await start(one);
    assert.equal((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).status, 500);
    assert.equal((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).status, 202);
    assert.equal(state.runs, 2);
    assert.deepEqual(
      audits.map((row) => row.status),
      [500],
      'the second line was written by the handler',
    );
  });

  it('seals answers that hold a secret under the caller’s own key', async () => {
    const { route: one } = endpoint(() => ({ status: 201, body: { key: 'ak_live_topsecret' } }), {
      secretResponse: true,
    });
    const { send, rows } = await start(one);
    const first = await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER });
    const [row] = rows.values();
    assert.ok(
      row && !JSON.stringify(row).includes('topsecret') && !JSON.stringify(row).includes(KEY_HEADER['idempotency-key']),
    );
    const again = await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER });
    assert.equal(again.text, first.text);
  });

  it('does not take back an answer when the record cannot be stored', async () => {
    const { route: one } = endpoint((_, run) => ({ status: 201, body: { run } }));
    const store = {
      find: () => Promise.resolve(null),
      insert: () => Promise.reject(new Error('disk full')),
    };
    const { send, logged } = await start(one, { deps: { idempotency: { store, onMismatch: 'replay' } } });
    assert.equal((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).status, 201);
    assert.equal(logged.length, 1);
  });

  it('answers 500 and releases the key when the look-up fails', async () => {
    const { route: one } = endpoint((_, run) => ({ status: 201, body: { run } }));
    let isBroken = true;
    const store = {
      find: () => (isBroken ? Promise.reject(new Error('no database')) : Promise.resolve(null)),
      insert: () => Promise.resolve(),
    };
    const { send } = await start(one, { deps: { idempotency: { store, onMismatch: 'replay' } } });
    assert.equal((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).status, 500);
    isBroken = false;
    assert.equal((await send('POST', '/v1/things', { body: {}, headers: KEY_HEADER })).text, '{"run":1}');
  });
});

describe('idempotencyKey', () => {
  const rows: [header: string | undefined, key: string | null, why: string][] = [
    [undefined, null, 'none'],
    ['8e03978e-40d5-43e8-bc93-6894a57f9324', '8e03978e-40d5-43e8-bc93-6894a57f9324', 'a UUID'],
    ['"8e03978e"', '8e03978e', 'a structured-field string'],
    ['"a\\"b\\\\c"', 'a"b\\c', 'with escapes'],
    ['!~', '!~', 'the ends of visible ASCII'],
    ['a'.repeat(255), 'a'.repeat(255), 'as long as may be'],
    ['a'.repeat(256), 'bad', 'too long'],
    [`"${'a'.repeat(256)}"`, 'bad', 'too long within quotes'],
    ['', 'bad', 'empty'],
    ['""', 'bad', 'empty within quotes'],
    ['"a b"', 'bad', 'space'],
    ['"a"b"', 'bad', 'a quote within quotes'],
    ['"a\\x"', 'bad', 'an escape that is none'],
    ['a, b', 'bad', 'two headers, joined by Node'],
    ['"abc', '"abc', 'one quote alone is a visible character'],
    ['schlüssel', 'bad', 'not ASCII'],
    ['a\tb', 'bad', 'control character'],
  ];
  for (const [header, key, why] of rows) {
    it(`${key === 'bad' ? 'refuses' : 'takes'} ${why}`, () => {
      if (key === 'bad')
        assert.throws(() => idempotencyKey(header), { code: 'invalid_idempotency_key', field: 'Idempotency-Key' });
      else assert.equal(idempotencyKey(header), key);
    });
  }

  it('makes another record key for each part that differs', () => {
    const parts = ['acc', 'live', 'POST', '/v1/messages', 'k'] as const;
    const keys = [
      recordKey(...parts),
      recordKey('acc2', 'live', 'POST', '/v1/messages', 'k'),
      recordKey('acc', 'test', 'POST', '/v1/messages', 'k'),
      recordKey('acc', 'live', 'POST', '/v1/keys', 'k'),
      recordKey('acc', 'live', 'POST', '/v1/messages', 'k2'),
    ];
    assert.equal(new Set(keys).size, 5);
  });
});

describe('InFlight', () => {
  it('hands the turn to the next waiter when the first released its key', async () => {
    const clock = new FakeClock();
    const inFlight = new InFlight({ clock, store: memoryStore(new Map(), clock) });
    const first = await inFlight.turn('k');
    const second = inFlight.turn('k');
    const third = inFlight.turn('k');
    assert.ok(first.kind === 'run');
    first.land(null);
    const next = await second;
    assert.ok(next.kind === 'run');
    const row: IdempotencyRow = {
      key: 'k',
      body_hash: '',
      status: 201,
      headers_json: '{}',
      body: '',
      created_at: 0,
      expires_at: 0,
      key_id: null,
    };
    next.land(row);
    assert.deepEqual(await third, { kind: 'replay', row });
    assert.equal(clock.nextAt(), null, 'no timer is left');
  });
});
