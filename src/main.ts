/** The `posthorn` program: its arguments say which command runs. */
import { run } from './cli/cli.ts';
import { exitCodes } from './cli/exit-codes.ts';

// Whatever is made (the database, backups, exports) is for this user alone, whatever umask the shell or the unit has.
process.umask(0o077);

// Whoever reads us through a pipe (`posthorn events tail | head`) may have had enough: that is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`posthorn: the result cannot be written: ${error.message}\n`);
  process.exit(exitCodes.output);
});

process.exitCode = await run(process.argv.slice(2), undefined, undefined, {
  // Late: small commands start quickly without it.
  startApp: async (config, overrides) => (await import('./app.ts')).startApp(config, overrides),
  openReportParser: async (keyring) => (await import('./inbound/offline.ts')).openReportParser(keyring),
});
// A start that failed half-way must not be kept alive by what it had opened.
if (process.exitCode !== 0) process.exit();
