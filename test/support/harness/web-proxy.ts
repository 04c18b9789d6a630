/** nginx, Caddy and HAProxy with the configurations of the documents, on ports of loopback, as the user of the test. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { canConnect, freePort, stoppedWithUs, until } from './peer.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const document = readFileSync(path.join(root, 'docs/reverse-proxy.md'), 'utf8');
const chain = path.join(root, 'test/fixtures/tls/chain');

export interface WebProxy {
  /** The port for HTTPS. */
  port: number;
  /** The port for HTTP, which redirects; null if the test leaves it out. */
  plainPort: number | null;
  log(): string;
  stop(): void;
}

/** Returns the configuration that the document shows in its section on this program. */
function configurationOf(heading: string): string {
  const [, section = ''] = document.split(`\n## ${heading}\n`);
  const block = /```(?:nginx|text)\n(?<body>[\s\S]*?)```/.exec(section)?.groups?.['body'];
  assert.ok(block !== undefined, heading);
  return block;
}

function replaced(text: string, pairs: readonly (readonly [from: string, to: string])[]): string {
  return pairs.reduce((changed, [from, to]) => {
    assert.ok(changed.includes(from), `the document has no ${from}`);
    return changed.replaceAll(from, to);
  }, text);
}

export async function startNginx(apiPort: number): Promise<WebProxy> {
  const [port, plainPort] = [await freePort(), await freePort()];
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-nginx-'));
  writeFileSync(
    path.join(dir, 'chain.pem'),
    readFileSync(path.join(chain, 'leaf.pem'), 'utf8') + readFileSync(path.join(chain, 'issuer.pem'), 'utf8'),
  );
  const site = replaced(configurationOf('nginx'), [
    ['127.0.0.1:8025', `127.0.0.1:${String(apiPort)}`],
    ['listen 80;', `listen 127.0.0.1:${String(plainPort)};`],
    ['    listen [::]:80;\n', ''],
    ['listen 443 ssl http2;', `listen 127.0.0.1:${String(port)} ssl http2;`],
    ['    listen [::]:443 ssl http2;\n', ''],
    ['/etc/letsencrypt/live/mail.example.com/fullchain.pem', path.join(dir, 'chain.pem')],
    ['/etc/letsencrypt/live/mail.example.com/privkey.pem', path.join(chain, 'leaf.key')],
  ]);
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const temporary = kinds.map((kind) => `${kind}_temp_path ${dir}/${kind};`).join('\n');
  writeFileSync(
    path.join(dir, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${dir}/pid; error_log ${dir}/log;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 256; }
http { access_log off; ${temporary}
${site} }`,
  );
  return await started('nginx', ['-c', path.join(dir, 'nginx.conf'), '-p', dir], { dir, port, plainPort });
}

export async function startCaddy(apiPort: number): Promise<WebProxy> {
  const port = await freePort();
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-caddy-'));
  const site = replaced(configurationOf('Caddy'), [
    ['127.0.0.1:8025', `127.0.0.1:${String(apiPort)}`],
    [
      'mail.example.com {\n',
      `https://mail.example.com:${String(port)}, https://track.acme.test:${String(port)} {\n\tbind 127.0.0.1\n\ttls ${path.join(chain, 'leaf.pem')} ${path.join(chain, 'leaf.key')}\n`,
    ],
  ]);
  // Without the admin port, and without the redirects, which would want port 80.
  writeFileSync(path.join(dir, 'Caddyfile'), `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${site}`);
  mkdirSync(path.join(dir, 'home'));
  return await started('caddy', ['run', '--config', path.join(dir, 'Caddyfile'), '--adapter', 'caddyfile'], {
    dir,
    port,
    plainPort: null,
  });
}

/** A node behind the balancer: the ports of its API and of submission. */
export interface BalancedNode {
  name: string;
  api: number;
  submission: number;
}

/** Starts HAProxy with the configuration of docs/nodes.compose.yaml; `plainPort` is that of submission. */
export async function startHaproxy(configuration: string, nodes: readonly BalancedNode[]): Promise<WebProxy> {
  const [port, plainPort] = [await freePort(), await freePort()];
  const dir = mkdtempSync(path.join(os.tmpdir(), 'posthorn-haproxy-'));
  const text = replaced(configuration, [
    ['check port 8025 ', 'check '],
    ['bind :8025', `bind 127.0.0.1:${String(port)}`],
    ['bind :587', `bind 127.0.0.1:${String(plainPort)}`],
    ...nodes.flatMap(({ name, api, submission }) => [
      [`${name}:8025`, `127.0.0.1:${String(api)}`] as const,
      [`${name}:587`, `127.0.0.1:${String(submission)} port ${String(api)}`] as const,
    ]),
  ]);
  writeFileSync(path.join(dir, 'haproxy.cfg'), text);
  return await started('haproxy', ['-db', '-f', path.join(dir, 'haproxy.cfg')], { dir, port, plainPort });
}

async function started(
  program: string,
  args: readonly string[],
  { dir, ...ports }: { dir: string; port: number; plainPort: number | null },
): Promise<WebProxy> {
  let said = '';
  const child = spawn(program, args, {
    cwd: dir,
    env: { PATH: process.env['PATH'], HOME: path.join(dir, 'home'), XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (part: string) => (said += part));
  const stop = stoppedWithUs(() => {
    child.kill('SIGTERM');
    rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  });
  try {
    await until(() => {
      if (child.exitCode !== null) throw new Error(`${program} ended: ${said}`);
      return canConnect(ports.port);
    }, program);
  } catch (error) {
    stop();
    throw error;
  }
  return { ...ports, log: () => said, stop };
}
