/** `GET /v1/client.tgz`: the TypeScript client in the version of this server, for `npm install <address>/v1/client.tgz`. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from '../base/error-code.ts';
import { Problem } from '../base/problem.ts';
import { isCurrent } from './etag.ts';
import { exampleOf, openRoute, type Route } from './route.ts';

/** Where the build leaves it, seen from `dist/src/api` and from `src/api`. */
export const clientPackageFiles = (version: string): string[] =>
  ['../../client', '../../dist/client'].map((folder) =>
    path.resolve(import.meta.dirname, folder, `posthorn-client-${version}.tgz`),
  );

interface Tarball {
  bytes: Buffer;
  etag: string;
}

/** The first of these files that is there is served; it is read once. */
export function clientPackageRoutes({ clientPackage }: { clientPackage: readonly string[] }): Route[] {
  let read: Promise<Tarball | null> | null = null;
  return [
    openRoute(
      {
        method: 'GET',
        path: '/v1/client.tgz',
        operationId: 'getClientPackage',
        description:
          'The npm package `posthorn-client` in the version of this server: `npm install <address of the server>/v1/client.tgz`. It answers without a key; send `If-None-Match` to ask for news only.',
        tag: 'description',
        scope: null,
        responses: {
          200: {
            description: 'The package.',
            types: ['application/gzip'],
            examples: exampleOf('A gzipped tar file', 'posthorn-client-1.0.0.tgz'),
            headers: { ETag: 'Version of the package.' },
          },
          304: { description: 'The package has not changed.' },
        },
        problems: ['not_found'],
      },
      async (call) => {
        const tarball = await (read ??= firstOf(clientPackage));
        if (tarball === null) {
          // A server that runs from its sources may be built later.
          read = null;
          throw new Problem(
            'not_found',
            'The client was not built with this server. Run `npm run build` and try again.',
          );
        }
        const { bytes, etag } = tarball;
        const headers = { ETag: etag, 'Cache-Control': 'no-cache' };
        if (isCurrent(call.header('if-none-match'), etag)) return { status: 304, body: null, headers };
        return { status: 200, bytes, type: 'application/gzip', headers };
      },
    ),
  ];
}

async function firstOf(files: readonly string[]): Promise<Tarball | null> {
  for (const file of files) {
    try {
      const bytes = await readFile(file);
      return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"` };
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  return null;
}
