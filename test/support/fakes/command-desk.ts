/**
 * The `posthorn` command for shell scripts in tests: a script in a folder of its own hands arguments, variables and standard
 * input to this process, which runs the command and sends back what it says. Starting the real program for each would
 * take a second or two.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { run } from '../../../src/cli/cli.ts';
import { openReportParser } from '../../../src/inbound/report-reader.ts';

export interface CommandDesk {
  /** Folder with `posthorn`, for the search path. */
  tools: string;
  /** Resolves when all commands have ended, too. */
  close(): Promise<void>;
}

interface Order {
  args: string[];
  env: Record<string, string>;
  input: string;
}

/** CommonJS without packages, so that it starts in some 40 ms. Each line of the answer is `o`, `n` or `c` and a JSON value. */
const script = (socket: string): string => `#!${process.execPath}
const http = require('node:http');
const readline = require('node:readline');
const { text } = require('node:stream/consumers');
const args = process.argv.slice(2);
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('POSTHORN_')));
text(process.stdin).then((input) => {
  const request = http.request({ socketPath: ${JSON.stringify(socket)}, method: 'POST' }, (response) => {
    readline.createInterface({ input: response }).on('line', (line) => {
      const value = JSON.parse(line.slice(1));
      if (line[0] === 'o') process.stdout.write(value + '\\n');
      else if (line[0] === 'n') process.stderr.write(value + '\\n');
      else process.exitCode = value;
    });
  });
  request.end(JSON.stringify({ args, env, input }));
});
`;

/** Opens the desk in this folder. */
export async function openCommandDesk(folder: string): Promise<CommandDesk> {
  const tools = path.join(folder, 'tools');
  const socket = path.join(folder, 'desk.sock');
  mkdirSync(tools);
  writeFileSync(path.join(tools, 'posthorn'), script(socket), { mode: 0o755 });
  const running = new Set<Promise<void>>();
  const server = http.createServer((request, response) => {
    const ran = perform(request, response).finally(() => running.delete(ran));
    running.add(ran);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return {
    tools,
    async close() {
      await Promise.all(running);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function perform(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { args, env, input } = JSON.parse(await text(request)) as Order;
  const say = (kind: 'o' | 'n' | 'c', value: unknown): void => {
    response.write(`${kind}${JSON.stringify(value)}\n`);
  };
  const output = { out: (line: string) => say('o', line), note: (line: string) => say('n', line) };
  const code = await run(args, env, output, {
    input: Readable.from([Buffer.from(input)]),
    openReportParser: (keyring, rules) => Promise.resolve(openReportParser(keyring, rules)),
  });
  say('c', code);
  response.end();
}
