/** Moves a database and kills its own process in the middle: an argument of JSON says what. */
import { systemClock } from '../../src/base/clock.ts';
import { moveStorage } from '../../src/backup/move.ts';

const { from, to, dataDir } = JSON.parse(process.argv[2] ?? '') as Record<string, string>;
await moveStorage(
  { clock: systemClock },
  {
    from: { url: from ?? '' },
    to: { url: to ?? '' },
    dataDir: dataDir ?? '',
    progress: (done, of) => {
      if (done > of / 2) process.kill(process.pid, 'SIGKILL');
    },
  },
);
