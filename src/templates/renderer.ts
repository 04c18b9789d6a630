/** Renders the parts of a mail: on the main loop if that takes a few milliseconds at most, else in a thread, which is ended at the time limit. */
import { LRUCache } from 'lru-cache';
import { codeOf } from '../base/error-code.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createThreads, ThreadRefusal } from '../base/threads.ts';
import { createGate } from '../scheduling/gate.ts';
import {
  compile,
  MOST_SOURCE,
  render,
  RENDER_LIMIT_MS,
  type Compilation,
  type Part,
  type RenderOptions,
  type TemplateFault,
} from './mixed/index.ts';

/** A part, named by its member: `subject`, `html`, `text`. */
export interface PartSource {
  name: string;
  part: Part;
  source: string;
}

export type Variables = Omit<RenderOptions, 'monotonic' | 'limitMs' | 'mostWeight'>;

/** The names and paths that a part asks for; none if it could not be compiled. */
type Reads = Pick<Extract<Compilation, { ok: true }>['template'], 'variables' | 'paths'>;
const nothing: Reads = { variables: [], paths: [] };

export type PartResult = Reads & { name: string } & (
    { ok: true; output: string } | { ok: false; faults: readonly TemplateFault[] }
  );

export interface RenderJob {
  parts: readonly PartSource[];
  variables: Variables | null;
}

/** Time on the main loop for all parts of a mail, for compiling and rendering each. */
const HERE_MS = 10;
/** Characters of source that are compiled on the main loop, in a few milliseconds; more goes to the thread. */
const HERE_SOURCE = 128 * 1024;
/** Weight that a filter handles within a few milliseconds; it cannot be stopped half-way. */
const HERE_WEIGHT = 64 * 1024;
/** How long an account's source that was too slow on the main loop twice goes to a thread at once; once may be a moment of a busy machine. */
const SLOW_MS = 60_000;
const SLOW_TIMES = 2;
const MOST_SLOW = 100;
const THREADS = 2;
/** Jobs of one account that wait for a thread. */
const MOST_WAITING = 200;
const IDLE_MS = 60_000;
/** CPU time for compiling in the thread; the largest source takes half a second. */
export const READ_LIMIT_MS = 1500;
/** Ends a job whose thread cannot keep its own limits of CPU time. On a busy machine it has five times as long for them. */
const JOB_MS = 5 * (READ_LIMIT_MS + 2 * RENDER_LIMIT_MS);

export type Renderer = ReturnType<typeof createRenderer>;

export function createRenderer(deps: { clock: Clock }) {
  const threads = createThreads<RenderJob, PartResult[]>(deps, {
    entry: new URL('./render-worker.ts', import.meta.url),
    count: THREADS,
    // The gate lets no more in than there are threads.
    mostWaiting: THREADS,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 256,
  });
  const monotonic = (): number => deps.clock.monotonic();
  const cached = createCompiledCache((source, part) => compile(source, part, { monotonic, limitMs: HERE_MS }));
  const isSmall = (parts: readonly PartSource[]): boolean =>
    // A source that is too large is refused at once, which needs no thread.
    parts.reduce((sum, { source: { length } }) => sum + (length > MOST_SOURCE ? 0 : length), 0) <= HERE_SOURCE;
  const slowSources = new LRUCache<string, { times: number; until: number }>({ max: MOST_SLOW });
  const keyOf = (accountId: string, { source }: PartSource): string => `${accountId} ${source}`;
  const timesSlow = (key: string): number => {
    const slow = slowSources.get(key);
    return slow !== undefined && monotonic() < slow.until ? slow.times : 0;
  };
  const wasSlow = (accountId: string, part: PartSource): boolean =>
    slowSources.size > 0 && timesSlow(keyOf(accountId, part)) >= SLOW_TIMES;
  /** Accounts take turns: slow templates of one do not hold up the others. */
  const gate = createGate({ most: THREADS, waiting: MOST_WAITING });

  const inThread = (
    accountId: string,
    parts: readonly PartSource[],
    variables: Variables | null,
  ): Promise<PartResult[]> =>
    gate.run(
      accountId,
      () => threads.run({ parts, variables }).catch((error: unknown) => refused(error, parts)),
      tooMany,
    );

  return {
    /** Returns one result for each part; faults of a template or its data are results. Rejects with `service_unavailable` if too many jobs wait. */
    async render(accountId: string, parts: readonly PartSource[], variables: Variables): Promise<PartResult[]> {
      if (!isSmall(parts) || parts.some((part) => wasSlow(accountId, part)))
        return inThread(accountId, parts, variables);
      const limits = { monotonic, limitMs: HERE_MS, mostWeight: HERE_WEIGHT };
      const here = renderParts(parts, { ...variables, ...limits }, cached);
      const slow = parts[here.length];
      if (slow === undefined) return here;
      const key = keyOf(accountId, slow);
      slowSources.set(key, { times: timesSlow(key) + 1, until: monotonic() + SLOW_MS });
      return inThread(accountId, parts, variables);
    },
    /** Only compiles the parts; their output is empty. */
    async read(accountId: string, parts: readonly PartSource[]): Promise<PartResult[]> {
      const here = isSmall(parts) ? readParts(parts, cached) : null;
      return here ?? inThread(accountId, parts, null);
    },
    close: (): Promise<void> => threads.close(),
  };
}

const tooMany = (): Problem =>
  new Problem('service_unavailable', 'Too many slow templates are being rendered. Try again.', { retryAfter: 1 });

function refused(error: unknown, parts: readonly PartSource[]): PartResult[] {
  if (!(error instanceof ThreadRefusal)) throw error;
  switch (error.why) {
    case 'slow':
      return parts.map(tooSlow);
    case 'full':
      throw tooMany();
    case 'closed':
      throw new Problem('service_unavailable', 'The service is stopping. Try again.');
    case 'died':
      if (codeOf(error.cause) !== 'ERR_WORKER_OUT_OF_MEMORY') throw error;
      return parts.map(({ name }) =>
        faulty(name, 'Rendering needs too much memory. Make the template or its data smaller.'),
      );
  }
}

const faulty = (name: string, message: string): PartResult => ({
  name,
  ok: false,
  faults: [{ code: 'template_render_failed', message, line: null, column: null }],
  ...nothing,
});

export const tooSlow = ({ name }: PartSource): PartResult =>
  faulty(name, `Rendering takes longer than ${String(RENDER_LIMIT_MS)} ms. Make the template or its data smaller.`);

/** Compiles the parts; returns null if that took too long. */
export function readParts(parts: readonly PartSource[], read: Compile): PartResult[] | null {
  const results: PartResult[] = [];
  for (const { name, part, source } of parts) {
    const compilation = read(source, part);
    if (compilation.ok) {
      const { variables, paths } = compilation.template;
      results.push({ name, ok: true, output: '', variables, paths });
    } else if (compilation.slow) return null;
    else results.push({ name, ok: false, faults: compilation.faults, ...nothing });
  }
  return results;
}

/** Renders the parts; returns fewer results than parts if the time was over. */
export function renderParts(parts: readonly PartSource[], options: RenderOptions, read: Compile): PartResult[] {
  const results: PartResult[] = [];
  const until = options.monotonic() + (options.limitMs ?? RENDER_LIMIT_MS);
  for (const { name, part, source } of parts) {
    const compilation = read(source, part);
    if (!compilation.ok) {
      if (compilation.slow) return results;
      results.push({ name, ok: false, faults: compilation.faults, ...nothing });
      continue;
    }
    const { template } = compilation;
    const rendering = render(template, { ...options, limitMs: Math.max(0, until - options.monotonic()) });
    if (!rendering.ok && rendering.slow) return results;
    results.push({ name, ...rendering, variables: template.variables, paths: template.paths });
  }
  return results;
}

export type Compile = (source: string, part: Part) => Compilation;

type Compilations = Partial<Record<Part, Compilation>>;

/** Characters of all sources; a tree takes about ten times the memory of its source. */
const MOST_CHARACTERS = 2 * 1024 * 1024;
const MOST_TEMPLATES = 500;

/** Returns a `compile` that remembers the sources used last. */
export function createCompiledCache(compile: Compile): Compile {
  // The source itself is the key: the engine keeps its hash.
  const cache = new LRUCache<string, Compilations>({
    max: MOST_TEMPLATES,
    maxSize: MOST_CHARACTERS,
    sizeCalculation: (parts, source) => Math.max(1, source.length * Object.keys(parts).length),
  });
  return (source: string, part: Part): Compilation => {
    const parts = cache.get(source);
    const before = parts?.[part];
    if (before !== undefined) return before;
    const compilation = compile(source, part);
    // A source that was only too slow may be compiled elsewhere, or later.
    if (compilation.ok || !compilation.slow) cache.set(source, { ...parts, [part]: compilation });
    return compilation;
  };
}
