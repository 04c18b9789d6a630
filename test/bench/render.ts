/**
 * `npm run bench -- render`: how long a template of 50 KB with 200 substitutions takes to read and to fill in, and what hostile
 * templates do to the main loop: each is sent to the renderer as a request would, and the longest gap between two beats is told.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import type * as Clocks from '../../src/base/clock.ts';
import type * as Mixed from '../../src/templates/mixed/index.ts';
import type * as Renderers from '../../src/templates/renderer.ts';
import { hostileTemplates } from '../templates/hostile.ts';

// The built code: what runs the source slows each function down.
const built = new URL('../../dist/src/', import.meta.url);
const { compile, render } = (await import(new URL('templates/mixed/index.js', built).href)) as typeof Mixed;
const { createRenderer } = (await import(new URL('templates/renderer.js', built).href)) as typeof Renderers;
const { systemClock } = (await import(new URL('base/clock.js', built).href)) as typeof Clocks;

const SIZE = 50 * 1024;
const SUBSTITUTIONS = 200;
const ROUNDS = 200;
const middle = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const worst = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? 0;

/** As mail looks: tables and inline styles, with a value every 250 characters. */
function ordinary(): string {
  const kinds = [
    '{{ name }}',
    '{{user.first_name}}',
    '{% if plan == "pro" %}{{ plan | upcase }}{% endif %}',
    '{{ price | money: "EUR" }}',
    '{{#if zero}}{{zero}}{{else}}{{ city | default: "-" }}{{/if}}',
    '{{ when | date: "%Y-%m-%d" }}',
  ];
  const filler =
    '<td style="font-family:Arial,sans-serif;font-size:14px;line-height:20px;color:#333333;padding:8px 16px">';
  const pieces = Array.from(
    { length: SUBSTITUTIONS },
    (_, n) => `<tr>${filler}${kinds[n % kinds.length] ?? ''}</td></tr>\n`,
  );
  const rest = Math.max(0, SIZE - pieces.join('').length);
  return pieces.map((piece) => piece + 'x'.repeat(Math.floor(rest / SUBSTITUTIONS))).join('');
}

const data = {
  name: '<Ann> & "Bob"',
  user: { first_name: 'J' },
  plan: 'pro',
  price: 1234.5,
  zero: 0,
  city: 'Graz',
  when: '2026-01-31T09:30:00Z',
};
const how = { strict: false, locale: 'en', timezone: 'Europe/Vienna', now: 0 };
const options = { ...how, variables: data, monotonic: () => performance.now() };

/** Milliseconds on the CPU of one run, of a few together: what else the machine does must not count. */
function timed(run: () => void, times = 1): number {
  const before = process.cpuUsage();
  for (let n = 0; n < times; n++) run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / times;
}

const source = ordinary();
const cold = timed(() => compile(source, 'html'));
const reads = Array.from({ length: 40 }, () => timed(() => compile(source, 'html'), 5));
const compiled = compile(source, 'html');
if (!compiled.ok) throw new Error(compiled.faults[0]?.message);
const first = timed(() => render(compiled.template, options));
const renders = Array.from({ length: ROUNDS }, () => timed(() => render(compiled.template, options), 5));
const show = (ms: number): string => `${ms.toFixed(2)} ms`;
console.log(`template of ${String(source.length)} characters with ${String(SUBSTITUTIONS)} substitutions`);
console.log(
  `read: first ${show(cold)}, then ${show(middle(reads))} on the CPU (99th of a hundred ${show(worst(reads))})`,
);
console.log(
  `filled in: first ${show(first)}, then ${show(middle(renders))} on the CPU (99th of a hundred ${show(worst(renders))})`,
);

const renderer = createRenderer({ clock: systemClock });
console.log('\nhostile template: answer after, longest gap of the main loop');
for (const { name, source: hostile, variables } of hostileTemplates) {
  await pause(50);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const before = performance.now();
  const [result] = await renderer.render('acc_bench', [{ name: 'html', part: 'html', source: hostile }], {
    ...how,
    variables,
  });
  const took = performance.now() - before;
  await pause(5);
  delay.disable();
  const said = result?.ok === true ? 'rendered' : (result?.faults[0]?.message ?? '');
  console.log(`${name}: ${show(took)}, ${show(delay.max / 1e6)} (${said})`);
}
await renderer.close();
