/** The TypeScript client for npm: `/v1/client.tgz` is this server's version, and `/v1/client-1.0.0.tgz` stays as it is, since lock files pin it. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { isMissing } from '../base/error-code.ts';
import { Problem } from '../base/problem.ts';
import { isCurrent } from './negotiate.ts';
import { exampleOf, openRoute, type Incoming, type Reply, type Route } from './route.ts';

export interface ClientPackage {
  version: string;
  /** Paths of which one is its package. */
  files: readonly string[];
  /** The folder that keeps the packages that were asked for by their version. */
  kept: string;
}

const nameOf = (version: string): string => `posthorn-client-${version}.tgz`;

/** Where the build leaves it, seen from `dist/src/api` and from `src/api`. */
export const clientPackageFiles = (version: string): string[] =>
  ['../../client', '../../dist/client'].map((folder) => path.resolve(import.meta.dirname, folder, nameOf(version)));

const params = z.object({
  version: z
    .string()
    .regex(/^\d{1,5}\.\d{1,5}\.\d{1,5}(?:-[0-9A-Za-z.-]{1,40})?$/)
    .describe('Version of the package.'),
});
const common = {
  method: 'GET',
  description:
    'The npm package `posthorn-client`, for `npm install`: `client.tgz` is that of this server, whatever its version; `client-1.0.0.tgz` is always the same bytes, as the lock file of a program expects, and an earlier version is there if it was installed from that address. It answers without a key; send `If-None-Match` to ask for news only.',
  tag: 'description',
  scope: null,
  responses: {
    200: {
      description: 'The package.',
      types: ['application/gzip'],
      examples: exampleOf('A gzipped tar file', nameOf('1.0.0')),
      headers: { ETag: 'Version of the package.' },
    },
    304: { description: 'The package has not changed.' },
  },
  problems: ['not_found'],
} as const;

export function clientPackageRoutes({ clientPackage }: { clientPackage: ClientPackage }): Route[] {
  const { version, files, kept } = clientPackage;
  return [
    openRoute({ ...common, path: '/v1/client.tgz', operationId: 'getClientPackage' }, async (call) =>
      replyTo(call, await firstOf(files)),
    ),
    openRoute(
      { ...common, path: '/v1/client-{version}.tgz', operationId: 'getClientPackageVersion', params },
      async (call) => {
        const file = path.join(kept, nameOf(call.params.version));
        const old = await firstOf([file]);
        const own = old === null && call.params.version === version ? await firstOf(files) : null;
        if (own !== null) await keep(file, own);
        return replyTo(call, old ?? own);
      },
    ),
  ];
}

function replyTo(call: Pick<Incoming, 'header'>, bytes: Buffer | null): Reply {
  if (bytes === null)
    throw new Problem(
      'not_found',
      'This server does not have that client: take `/v1/client.tgz`, or run `npm run build`.',
    );
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"`;
  const headers = { ETag: etag, 'Cache-Control': 'no-cache' };
  if (isCurrent(call.header('if-none-match'), etag)) return { status: 304, body: null, headers };
  return { status: 200, bytes, type: 'application/gzip', headers };
}

/** Writes a file that others see only as a whole. */
async function keep(file: string, bytes: Buffer): Promise<void> {
  const unfinished = `${file}.${randomUUID()}`;
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(unfinished, bytes);
  await rename(unfinished, file);
}

async function firstOf(files: readonly string[]): Promise<Buffer | null> {
  for (const file of files) {
    try {
      return await readFile(file);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  return null;
}
