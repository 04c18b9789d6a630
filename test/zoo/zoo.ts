/**
 * `npm run bench -- zoo`: the built program among receivers that behave as real ones do. Each scenario starts a program of its own,
 * sends by its API and watches from the receivers' side. `-- --only cap-drop,rate-60` plays some, `--postfix` plays those that
 * Postfix can play with Postfix as well, `--dir` takes another built tree, `--wording 1` the next wording of every reply, `--json`
 * prints the rows as JSON. `--simulated` plays in this process on a simulated clock: seconds instead of
 * minutes, without figures of the machine. Exit 1 if a bar is missed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { missing } from '../support/harness/peer.ts';
import { startNames } from './names.ts';
import { Play, type Scenario } from './play.ts';
import { startPosthorn } from './posthorn.ts';
import { startPostfixSender } from './postfix.ts';
import { startReceiver } from './receiver.ts';
import { detailsOf, isHeld, tableOf, told, type Row } from './row.ts';
import { scenarios } from './scenarios/all.ts';
import { simulate } from './simulation.ts';

const { values: options } = parseArgs({
  options: {
    /** Names of scenarios, with commas. */
    only: { type: 'string' },
    list: { type: 'boolean', default: false },
    postfix: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    /** A built working tree. */
    dir: { type: 'string' },
    simulated: { type: 'boolean', default: false },
    wording: { type: 'string', default: '0' },
    /** Scenarios at once; those that measure processor time run alone in any case. */
    jobs: { type: 'string', default: '3' },
  },
});

interface Job {
  scenario: Scenario;
  sender: 'Posthorn' | 'Postfix';
}

const began = performance.now();

function tell(name: string, text: string): void {
  console.error(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${name}: ${text}`);
}

async function played({ scenario, sender: kind }: Job): Promise<Row> {
  const label = kind === 'Posthorn' ? scenario.name : `${scenario.name} (Postfix)`;
  tell(label, scenario.about);
  if (options.simulated || scenario.stepMs !== undefined)
    return simulate(scenario, Number(options.wording), (text) => tell(label, text));
  const names = await startNames();
  const receiver = await startReceiver();
  try {
    const sender =
      kind === 'Postfix'
        ? await startPostfixSender(`[127.3.0.1]:${String(receiver.port)}`)
        : await startPosthorn({
            ...(options.dir === undefined ? {} : { dir: options.dir }),
            dnsServer: names.address,
            remotePort: receiver.port,
            ...(scenario.env === undefined ? {} : { env: scenario.env }),
            ...(scenario.delivery === undefined ? {} : { delivery: scenario.delivery }),
          });
    try {
      const play = new Play({
        pass: (ms) => sleep(ms),
        lookEveryMs: 100,
        scenario,
        names,
        receiver,
        sender,
        wording: Number(options.wording),
        tell: (text) => tell(label, text),
      });
      const error = await scenario.run(play).then(() => null, told);
      return play.end(error);
    } finally {
      await sender.stop();
    }
  } finally {
    await receiver.close();
    await names.close();
  }
}

/** Plays them with so many at once; a scenario that wants to be alone waits for the others to end. */
async function playAll(jobs: readonly Job[], atOnce: number): Promise<Row[]> {
  const rows: Row[] = [];
  const together = jobs.filter(({ scenario }) => scenario.alone !== true);
  const work = async (): Promise<void> => {
    for (let job = together.shift(); job !== undefined; job = together.shift()) rows.push(await played(job));
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  for (const job of jobs.filter(({ scenario }) => scenario.alone === true)) rows.push(await played(job));
  const place = (row: Row): number =>
    jobs.findIndex(({ scenario, sender }) => scenario.name === row.scenario && sender === row.sender);
  return rows.sort((a, b) => place(a) - place(b));
}

function chosen(): Scenario[] {
  if (options.only === undefined) return [...scenarios];
  return options.only.split(',').map((name) => {
    const found = scenarios.find((scenario) => scenario.name === name);
    if (found === undefined) throw new Error(`There is no scenario ${name}; --list names all.`);
    return found;
  });
}

async function main(): Promise<void> {
  if (options.list) {
    for (const { name, about } of scenarios) console.log(`${name.padEnd(22)} ${about}`);
    return;
  }
  const absent = options.postfix ? missing('postfix') : [];
  if (absent.length > 0) throw new Error('Postfix is not installed: apt-get install postfix');
  const jobs = chosen().flatMap((scenario): Job[] => [
    { scenario, sender: 'Posthorn' },
    ...(options.postfix && scenario.withPostfix === true ? [{ scenario, sender: 'Postfix' } as const] : []),
  ]);
  const rows = await playAll(jobs, options.simulated ? 1 : Number(options.jobs));
  if (options.json) console.log(JSON.stringify(rows, null, 1));
  else console.log([tableOf(rows), '', ...rows.filter((row) => !isHeld(row)).map(detailsOf)].join('\n'));
  if (rows.some((row) => row.sender === 'Posthorn' && !isHeld(row))) process.exitCode = 1;
}

await main();
