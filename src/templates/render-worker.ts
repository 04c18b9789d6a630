/** The thread that compiles and renders slow templates; started by `renderer.ts`. */
import { answerJobs } from '../base/answer-jobs.ts';
import { createThreadClock } from '../base/thread-time.ts';
import {
  createCompiledCache,
  READ_LIMIT_MS,
  readParts,
  renderParts,
  tooSlow,
  type PartResult,
  type RenderJob,
} from './renderer.ts';
import { compile, RENDER_LIMIT_MS } from './mixed/index.ts';

const monotonic = createThreadClock();
const cached = createCompiledCache((source, part) => compile(source, part, { monotonic, limitMs: READ_LIMIT_MS }));

function answer({ parts, variables }: RenderJob): PartResult[] {
  // Compiled first: the time limit of rendering does not include it.
  const read = readParts(parts, cached);
  if (variables === null || read === null) return read ?? parts.map(tooSlow);
  const done = renderParts(parts, { ...variables, monotonic, limitMs: RENDER_LIMIT_MS }, cached);
  return [...done, ...parts.slice(done.length).map(tooSlow)];
}

answerJobs(answer);
