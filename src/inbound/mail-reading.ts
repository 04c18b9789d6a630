/** Reads mails in confined processes, those that wait in one job, which is cheaper. After a fault each is read alone, to refuse only one. */
import type { Clock } from '../base/clock.ts';
import { yieldToEventLoop } from '../base/slices.ts';
import { createThreads, ThreadRefusal, type ThreadsOptions } from '../base/threads.ts';

interface ReadingOptions<Mail, Job> extends Omit<ThreadsOptions, 'mostWaiting'> {
  sizeOf(mail: Mail): number;
  /** Makes the job of some mails, which is answered with as many results. */
  jobOf(mails: readonly Mail[]): Job;
}

interface Waiting<Mail, Result> {
  mail: Mail;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

const MOST_WAITING = 1000;
/** Mails of one job, and their octets: one may be larger. */
const TOGETHER = 50;
const TOGETHER_BYTES = 1024 * 1024;

export function createMailReading<Mail, Job, Result>(deps: { clock: Clock }, options: ReadingOptions<Mail, Job>) {
  const threads = createThreads<Job, readonly Result[]>(deps, { ...options, ahead: 1, mostWaiting: 2 * options.count });
  const waiting: Waiting<Mail, Result>[] = [];
  let readers = 0;

  async function readAll(): Promise<void> {
    if (readers === 2 * options.count) return;
    readers++;
    // Mails that were stored by one commit come in one turn.
    await yieldToEventLoop();
    for (let batch = next(); batch.length > 0; batch = next()) await readTogether(batch);
    readers--;
  }

  function next(): Waiting<Mail, Result>[] {
    let bytes = 0;
    const end = waiting.findIndex(({ mail }, at) => {
      bytes += options.sizeOf(mail);
      return at > 0 && (at >= TOGETHER || bytes > TOGETHER_BYTES);
    });
    return waiting.splice(0, end < 0 ? waiting.length : end);
  }

  async function readTogether(batch: readonly Waiting<Mail, Result>[]): Promise<void> {
    try {
      const results = await threads.run(options.jobOf(batch.map(({ mail }) => mail)));
      if (results.length !== batch.length) throw new Error('the process did not answer for each mail');
      for (const [at, result] of results.entries()) batch[at]?.resolve(result);
    } catch (error) {
      const isOfOne = batch.length > 1 && error instanceof ThreadRefusal && error.begun;
      if (isOfOne) for (const one of batch) await readTogether([one]);
      else for (const { reject } of batch) reject(error);
    }
  }

  return {
    /** Rejects with a ThreadRefusal. */
    read(mail: Mail): Promise<Result> {
      if (waiting.length >= MOST_WAITING) return Promise.reject(new ThreadRefusal('full'));
      return new Promise((resolve, reject) => {
        waiting.push({ mail, resolve, reject });
        void readAll();
      });
    },
    close: (): Promise<void> => threads.close(),
  };
}
