import assert from 'node:assert/strict';
import { createRenderer, type Renderer } from '../../src/templates/renderer.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT } from '../support/harness/mail-rows.ts';
import { hostileTemplates } from './hostile.ts';

/** Each look at it takes so many milliseconds: how much is done here is counted, and not how fast. */
const A_LOOK_MS = 0.1;

class CountingClock extends FakeClock {
  looks = 0;
  override monotonic(): number {
    return super.monotonic() + this.looks++ * A_LOOK_MS;
  }
}

const how = { strict: false, locale: 'en', timezone: 'UTC', now: 0 };
const html = (source: string) => [{ name: 'html', part: 'html' as const, source }];

describe('templates/renderer', () => {
  let clock: CountingClock;
  let renderer: Renderer;

  before(() => {
    clock = new CountingClock();
    renderer = createRenderer({ clock });
  });

  beforeEach(() => {
    clock.looks = 0;
  });

  after(() => renderer.close());

  describe('hostile templates stop within their limits, and do little here', () => {
    for (const { name, source, variables, fault } of hostileTemplates)
      it(name, async () => {
        const [result] = await renderer.render(ACCOUNT, html(source), { ...how, variables });
        // 10 ms of looks for reading, as many for rendering, and the few that begin and end them.
        assert.ok(clock.looks <= 2 * (10 / A_LOOK_MS) + 20, `${String(clock.looks)} looks at the clock`);
        if (fault === null) return;
        assert.ok(result?.ok === false);
        // The time may be over before the limit that is meant, where the machine has much else to do.
        assert.match(result.faults[0]?.message ?? '', new RegExp(`${fault.source}|longer than 250 ms`, 'i'));
        assert.match(result.faults[0]?.code ?? '', /^template_(render_failed|syntax_error)$/);
      });
  });

  it('renders in the thread what is large, with the same result', async () => {
    const filler = 'x'.repeat(140_000);
    const source = `${filler}<p>{{ name | upcase }}</p>`;
    const [result] = await renderer.render(ACCOUNT, html(source), { ...how, variables: { name: '<ann>' } });
    assert.ok(result?.ok === true);
    assert.equal(result.output, `${filler}<p>&lt;ANN&gt;</p>`);
    assert.equal(clock.looks, 0);
  });

  it('leaves a large value to the thread whatever the time', async () => {
    const text = 'a'.repeat(90_000);
    const [result] = await renderer.render(ACCOUNT, html('{{ text | replace: "a", "b" }}'), {
      ...how,
      variables: { text },
    });
    assert.ok(result?.ok === true);
    assert.equal(result.output, 'b'.repeat(90_000));
  });

  it('gives a source of an account that was too slow twice to a thread at once, for a minute', async () => {
    const render = async (turns: number, accountId = ACCOUNT): Promise<number> => {
      const before = clock.looks;
      const source = '{% for a in list %}{{ a | upcase }}{% endfor %}';
      const list = Array.from({ length: turns }, () => 'a');
      const [result] = await renderer.render(accountId, html(source), { ...how, variables: { list } });
      assert.ok(result?.ok === true);
      assert.equal(result.output, 'A'.repeat(turns));
      return clock.looks - before;
    };
    const few = await render(2);
    assert.ok((await render(20_000)) >= 10 / A_LOOK_MS, 'it was tried here');
    assert.ok((await render(20_000)) >= 10 / A_LOOK_MS, 'once may be a moment of a busy machine');
    assert.ok((await render(20_000)) < 5, 'it was not tried again');
    assert.ok((await render(20_000, 'acc_other')) >= 10 / A_LOOK_MS, 'another account has done nothing');
    clock.advance(61_000);
    assert.ok((await render(2)) <= few + 1, 'it is rendered here again');
    assert.ok((await render(20_000)) >= 10 / A_LOOK_MS, 'and was tried here');
  });

  it('reads without rendering, here and in the thread', async () => {
    const parts = [
      ...html('{{ missing }}{{ 1 | divided_by: 0 }}'),
      { name: 'text', part: 'text' as const, source: 'a\n{{#if}}' },
    ];
    const [good, bad] = await renderer.read(ACCOUNT, parts);
    assert.deepEqual(good, {
      name: 'html',
      ok: true,
      output: '',
      variables: ['missing'],
      paths: ['missing'],
    });
    assert.ok(bad?.ok === false);
    assert.equal(bad.faults[0]?.line, 2);
    const [large] = await renderer.read(ACCOUNT, html(`${'x'.repeat(200_000)}{{#if}}`));
    assert.ok(large?.ok === false);
    assert.equal(large.faults[0]?.code, 'template_syntax_error');
  });

  it('does not let one account with many slow templates hold up another', async () => {
    const done: string[] = [];
    const large = html(`${'x'.repeat(140_000)}{{ a }}`);
    const job = async (account: string): Promise<void> => {
      await renderer.render(account, large, { ...how, variables: { a: 1 } });
      done.push(account);
    };
    const jobs = [...Array.from({ length: 100 }, () => job('acc_busy')), job('acc_other')];
    await Promise.all(jobs);
    assert.ok(done.indexOf('acc_other') < 10, String(done.indexOf('acc_other')));
  });

  it('refuses what is too much for one account, and not what others ask for', async () => {
    const large = html(`${'x'.repeat(140_000)}{{ a }}`);
    const job = (account: string) => renderer.render(account, large, { ...how, variables: { a: 1 } });
    const busy = await Promise.allSettled([...Array.from({ length: 210 }, () => job('acc_busy')), job('acc_other')]);
    const refused = busy.flatMap((one, n) => (one.status === 'rejected' ? [n] : []));
    assert.deepEqual(refused, [202, 203, 204, 205, 206, 207, 208, 209]);
  });
});
