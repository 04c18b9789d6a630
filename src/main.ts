/** The `posthorn` program. Its arguments name the command to run. */
import { run } from './cli/cli.ts';
import { exitCodes } from './cli/exit-codes.ts';

// Files that the program makes (database, backups, exports) are readable by this user only, whatever the umask of the shell is.
process.umask(0o077);

// The reader closed the pipe (`posthorn events tail | head`): not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`posthorn: the result cannot be written: ${error.message}\n`);
  process.exit(exitCodes.output);
});

process.exitCode = await run(process.argv.slice(2), undefined, undefined, {
  // Imported late, so that small commands start quickly.
  startApp: async (config, overrides) => (await import('./app.ts')).startApp(config, overrides),
  openExplainer: async (...given) => (await import('./mta/limits/shaping.ts')).createExplainer(...given),
  openReportParser: async (keyring, rules) =>
    (await import('./inbound/report-reader.ts')).openReportParser(keyring, rules),
});
// A failed start must end although it has opened sockets or files.
if (process.exitCode !== 0) process.exit();
