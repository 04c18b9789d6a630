/**
 * `npm run bench -- NAME [options]` and `npm run torture -- NAME [options]`: builds the program if it is stale, and runs the script of that
 * name in test/bench or test/torture. Without a name it lists them; with `--help` it shows the comment that the script begins with.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Scripts that are not in the folder of their kind. */
const ELSEWHERE = { zoo: 'test/zoo/zoo.ts' };

const [kind = '', name, ...options] = process.argv.slice(2);
const folder = path.join('test', kind);
const source = (file) => readFileSync(path.join(folder, file), 'utf8');

if (name === undefined) {
  // A script of its own begins with a comment that has its command.
  const own = readdirSync(folder).filter(
    (file) => /\.ts$/.test(file) && source(file).includes(`npm run ${kind} -- ${path.basename(file, '.ts')}`),
  );
  console.log(
    [...own.map((file) => path.basename(file, '.ts')), ...(kind === 'bench' ? ['linear', 'zoo'] : [])].join('\n'),
  );
  process.exit(0);
}
const script = ELSEWHERE[name] ?? path.join(folder, `${name}.ts`);
const isLinear = kind === 'bench' && name === 'linear';
if (!isLinear && !existsSync(script)) {
  console.error(`There is no such script: ${script}. \`npm run ${kind}\` lists them.`);
  process.exit(64);
}
if (options.includes('--help') && !isLinear) {
  const [, comment = ''] = /^\/\*\*\n([^]*?)\n? \*\//.exec(readFileSync(script, 'utf8')) ?? [];
  console.log(comment.replaceAll(/^ \* ?/gm, ''));
  process.exit(0);
}
const node = (...args) => spawnSync(process.execPath, args, { stdio: 'inherit' }).status ?? 1;
const built = node('src/bin/ready.mjs');
process.exitCode =
  built !== 0
    ? built
    : isLinear
      ? node('node_modules/mocha/bin/mocha.js', 'test/bench/linear/*.ts')
      : node('--import', './test/support/harness/as-esm.mjs', '--import', 'tsx', script, ...options);
