import assert from 'node:assert/strict';
import { createRenderer, type Renderer } from '../../src/templates/renderer.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
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
        const [result] = await renderer.render(html(source), { ...how, variables });
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
    const [result] = await renderer.render(html(source), { ...how, variables: { name: '<ann>' } });
    assert.ok(result?.ok === true);
    assert.equal(result.output, `${filler}<p>&lt;ANN&gt;</p>`);
    assert.equal(clock.looks, 0);
  });

  it('leaves a large value to the thread whatever the time', async () => {
    const text = 'a'.repeat(90_000);
    const [result] = await renderer.render(html('{{ text | replace: "a", "b" }}'), { ...how, variables: { text } });
    assert.ok(result?.ok === true);
    assert.equal(result.output, 'b'.repeat(90_000));
  });

  it('reads without rendering, here and in the thread', async () => {
    const parts = [
      ...html('{{ missing }}{{ 1 | divided_by: 0 }}'),
      { name: 'text', part: 'text' as const, source: 'a\n{{#if}}' },
    ];
    const [good, bad] = await renderer.read(parts);
    assert.deepEqual(good, {
      name: 'html',
      ok: true,
      output: '',
      variables: ['missing'],
      sample: { missing: 'missing' },
    });
    assert.ok(bad?.ok === false);
    assert.equal(bad.faults[0]?.line, 2);
    const [large] = await renderer.read(html(`${'x'.repeat(200_000)}{{#if}}`));
    assert.ok(large?.ok === false);
    assert.equal(large.faults[0]?.code, 'template_syntax_error');
  });
});
