/**
 * Renders the parts of a mail: where we are, as long as that takes no time to speak of, else from the start in a thread, which is
 * ended when the limit is over. Whatever a template does, other mail waits for it no longer than a few milliseconds.
 */
import type { Clock } from '../base/clock.ts';
import { createThreads, ThreadRefusal } from '../base/threads.ts';
import { compile, render, RENDER_LIMIT_MS, type Compiled, type Part, type RenderOptions, type TemplateFault } from './mixed/index.ts'; // prettier-ignore

/** A part by its member's name: `subject`, `html`, `text`. */
export interface PartSource {
  name: string;
  part: Part;
  source: string;
}

export type Variables = Omit<RenderOptions, 'monotonic' | 'limitMs'>;

export type PartResult =
  | { name: string; ok: true; output: string; variables: readonly string[] }
  | { name: string; ok: false; faults: readonly TemplateFault[]; variables: readonly string[] };

export interface RenderJob {
  parts: readonly PartSource[];
  variables: Variables;
}

export interface Renderer {
  /** One result for each part, in their order. Never rejects for what a template or its data do. */
  render(parts: readonly PartSource[], variables: Variables): Promise<PartResult[]>;
  close(): Promise<void>;
}

/** On the main loop, for all parts of a mail together. */
const HERE_MS = 20;
/** Reading this much source takes a few milliseconds; more is read in the thread. */
const HERE_SOURCE = 64 * 1024;
const THREADS = 2;
const MOST_WAITING = 200;
const IDLE_MS = 60_000;
/** A cold thread starts within a second; the limit for rendering holds inside of it. */
const JOB_MS = 4 * RENDER_LIMIT_MS + 2000;

/** Reads the same source once for all entries of a bulk send. Small: a template is needed again within moments or not at all. */
const MOST_COMPILED = 200;

export function createRenderer(deps: { clock: Clock }): Renderer {
  const threads = createThreads<RenderJob, PartResult[]>(deps, {
    entry: new URL('./render-worker.ts', import.meta.url),
    count: THREADS,
    mostWaiting: MOST_WAITING,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 256,
  });
  const compiled = new Map<string, ReturnType<typeof compile>>();
  const monotonic = (): number => deps.clock.monotonic();

  function compiledOnce(source: string, part: Part): ReturnType<typeof compile> {
    const key = `${part} ${source}`;
    const known = compiled.get(key) ?? compile(source, part);
    compiled.delete(key);
    compiled.set(key, known);
    for (const oldest of compiled.keys()) {
      if (compiled.size <= MOST_COMPILED) break;
      compiled.delete(oldest);
    }
    return known;
  }

  return {
    async render(parts, variables) {
      const size = parts.reduce((sum, { source }) => sum + source.length, 0);
      const here =
        size > HERE_SOURCE ? null : renderParts(parts, { ...variables, monotonic, limitMs: HERE_MS }, compiledOnce);
      if (here !== null) return here;
      return threads.run({ parts, variables }).catch((error: unknown) => {
        if (error instanceof ThreadRefusal && error.why === 'slow') return parts.map(tooSlow);
        throw error;
      });
    },
    close: () => threads.close(),
  };
}

function tooSlow({ name }: PartSource): PartResult {
  const message = `it takes longer than ${String(RENDER_LIMIT_MS)} ms`;
  return { name, ok: false, faults: [{ code: 'template_render_failed', message, line: null, column: null }], variables: [] }; // prettier-ignore
}

/** The results, or null where the time was over before the last part was done. */
export function renderParts(
  parts: readonly PartSource[],
  options: RenderOptions,
  read: (source: string, part: Part) => ReturnType<typeof compile> = compile,
): PartResult[] | null {
  const results: PartResult[] = [];
  const until = options.monotonic() + (options.limitMs ?? RENDER_LIMIT_MS);
  for (const { name, part, source } of parts) {
    const compilation = read(source, part);
    if (!compilation.ok) {
      results.push({ name, ok: false, faults: compilation.faults, variables: [] });
      continue;
    }
    const result = renderOne(compilation.template, { ...options, limitMs: Math.max(0, until - options.monotonic()) });
    if (result === null) return null;
    results.push({ name, ...result, variables: compilation.template.variables });
  }
  return results;
}

function renderOne(
  template: Compiled,
  options: RenderOptions,
): { ok: true; output: string } | { ok: false; faults: readonly TemplateFault[] } | null {
  const rendering = render(template, options);
  if (rendering.ok) return rendering;
  return rendering.slow ? null : { ok: false, faults: rendering.faults };
}
