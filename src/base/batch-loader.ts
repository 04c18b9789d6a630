/** Loads single items in batches: those asked for while a batch is being loaded go into the next, as one query. An idle loader starts at once. */
import { yieldToEventLoop } from './slices.ts';

export type BatchLoader<Item> = ReturnType<typeof createBatchLoader<Item>>;

interface Waiting<Item> {
  id: string;
  resolve: (item: Item | undefined) => void;
  reject: (error: unknown) => void;
}

export function createBatchLoader<Item>(
  loadAll: (ids: readonly string[]) => Promise<ReadonlyMap<string, Item>>,
  most = 100,
) {
  let waiting: Waiting<Item>[] = [];
  let running = false;

  async function run(): Promise<void> {
    // Everything asked for in this turn of the loop belongs to the first batch.
    await yieldToEventLoop();
    while (waiting.length > 0) {
      const batch = waiting.slice(0, most);
      waiting = waiting.slice(most);
      try {
        const found = await loadAll([...new Set(batch.map(({ id }) => id))]);
        for (const { id, resolve } of batch) resolve(found.get(id));
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    running = false;
  }

  return {
    /** Returns the item, or undefined if there is none. Rejects if loading failed. */
    load: (id: string) =>
      new Promise<Item | undefined>((resolve, reject) => {
        waiting.push({ id, resolve, reject });
        if (running) return;
        running = true;
        void run();
      }),
  };
}
