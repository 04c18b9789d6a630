/** The `posthorn` program: its arguments say which command runs. */
import { run } from './cli/cli.ts';

process.exitCode = await run(process.argv.slice(2));
