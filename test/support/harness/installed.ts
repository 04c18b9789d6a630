/** Does a copy of the program run by itself, with no source beside it? Asked of what install.sh and the Dockerfile make. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

const reports = path.resolve(import.meta.dirname, '../../fixtures/reports');

/** The settings with which the program runs in any folder, without ports that others have. */
const settings = (dataDir: string): Record<string, string | undefined> => ({
  PATH: process.env['PATH'],
  POSTHORN_CONFIG: '/dev/null',
  POSTHORN_DATA_DIR: dataDir,
  POSTHORN_HTTP__PORT: '0',
  POSTHORN_SMTP__HOSTNAME: 'mail.posthorn.test',
  POSTHORN_SMTP__MX__HOST: '127.0.0.1',
  POSTHORN_SMTP__MX__PORT: '0',
  POSTHORN_SMTP__SUBMISSION__PORT: '0',
  POSTHORN_SMTP__SUBMISSION__TLS_PORT: '0',
  POSTHORN_LOG__FORMAT: 'json',
});

/** Fails where a command of the copy in `root` does not work: `classify`, `inbound parse` and `serve`, each from another folder. */
export async function assertRuns(root: string): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-copy-'));
  const program = path.join(root, 'src/bin/posthorn.cjs');
  const place = { cwd: folder, env: settings(path.join(folder, 'data')) };
  const said = (...args: string[]): Record<string, unknown> => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { ...place, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  try {
    assert.equal(said('classify', '550 5.1.1 x', '--json')['class'], 'hard');
    // A notice in prose: its words are in a data file.
    const notice = said('inbound', 'parse', path.join(reports, 'text-qmail.eml'), '--json');
    assert.equal(notice['kind'], 'bounce');
    assert.match(JSON.stringify(notice['recipients']), /"class":"hard"/);
    await assertServes(program, place);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function assertServes(
  program: string,
  place: { cwd: string; env: Record<string, string | undefined> },
): Promise<void> {
  const server = spawn(process.execPath, [program, 'serve'], { ...place, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines: string[] = [];
  const ended = once(server, 'close');
  for (const stream of [server.stdout, server.stderr]) {
    createInterface(stream).on('line', (line) => {
      lines.push(line);
      if (line.includes('"event":"started"')) server.kill('SIGTERM');
    });
  }
  const [code] = (await ended) as [number | null];
  assert.equal(code, 0, lines.join('\n'));
  assert.ok(
    lines.some((line) => line.includes('"event":"stopped"')),
    lines.join('\n'),
  );
}

/** Why a copy cannot be made here, or null: it is made of what was built. */
export function whyNotBuilt(project: string): string | null {
  const built = path.join(project, 'dist/.built');
  const sources = ['src', 'migrations', 'package.json', 'config/bounce-rules.json', 'config/operators.json'];
  const newer = spawnSync('find', [...sources, '-newer', built, '-print'], { cwd: project, encoding: 'utf8' });
  if (newer.status !== 0) return 'the program is not built (npm run build)';
  return newer.stdout === '' ? null : 'the build is stale (npm run build)';
}
