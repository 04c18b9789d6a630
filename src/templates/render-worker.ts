/** The thread that renders what takes long. Started by `renderer.ts`. */
import { parentPort } from 'node:worker_threads';
import { systemClock } from '../base/clock.ts';
import { RENDER_LIMIT_MS } from './mixed/index.ts';
import { renderParts, type PartResult, type RenderJob } from './renderer.ts';

const monotonic = (): number => systemClock.monotonic();

function answer({ parts, variables }: RenderJob): PartResult[] {
  const results = renderParts(parts, { ...variables, monotonic, limitMs: RENDER_LIMIT_MS });
  if (results !== null) return results;
  const message = `it takes longer than ${String(RENDER_LIMIT_MS)} ms`;
  const fault = { code: 'template_render_failed' as const, message, line: null, column: null };
  return parts.map(({ name }) => ({ name, ok: false, faults: [fault], variables: [] }));
}

parentPort?.on('message', (job: RenderJob) => {
  parentPort?.postMessage(answer(job));
});
