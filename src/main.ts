/** The `posthorn` program: its arguments say which command runs. */
import { run } from './cli/cli.ts';

process.exitCode = await run(process.argv.slice(2), undefined, undefined, {
  // Late: small commands start quickly without it.
  startApp: async (config, overrides) => (await import('./app.ts')).startApp(config, overrides),
});
