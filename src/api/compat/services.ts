/** The adapters, and what the layers of the API ask them: the key of a request, its body, and the form of its errors. */
import { Problem } from '../../base/problem.ts';
import { readJson, type JsonResult } from '../json.ts';
import type { ForeignBody, Service } from './foreign.ts';
import { mailgun } from './mailgun.ts';
import { postmark } from './postmark.ts';
import { resend } from './resend.ts';
import { sendgrid } from './sendgrid.ts';

export const services: readonly Service[] = [resend, postmark, sendgrid, mailgun];

export const COMPAT = '/compat/';

/** Returns the service whose program asks for this path, or null for a path of ours. */
export function serviceAt(path: string): Service | null {
  if (!path.startsWith(COMPAT)) return null;
  const name = path.slice(COMPAT.length).split('/', 1)[0];
  return services.find((one) => one.name === name) ?? null;
}

/**
 * Returns the path of an adapter for a program that keeps only the host of its base address, as Ghost does: of the services that have
 * `/v3/`, one has Basic authentication.
 */
export function withAdapter(target: string, authorization: string | undefined): string {
  if (!target.startsWith('/v3/') || authorization === undefined) return target;
  return `${COMPAT}${/^basic /i.test(authorization) ? mailgun.name : sendgrid.name}${target}`;
}

/** Reads a body of another service into that of our operation. Pure. */
export function readForeign(bytes: Uint8Array, body: ForeignBody): JsonResult {
  const [name = '', form = ''] = body.form.split('.');
  const service = services.find((one) => one.name === name);
  const read = service?.forms[form];
  if (read === undefined) throw new Error(`there is no form ${body.form}`);
  try {
    const readForm = /^application\/json\b/i.test(body.contentType) ? undefined : service?.readForm;
    const given: JsonResult =
      readForm !== undefined
        ? {
            kind: 'ok',
            value: readForm(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), body.contentType),
          }
        : readJson(bytes, { lists: true });
    return given.kind === 'ok' ? { kind: 'ok', value: read(given.value, body), given: given.value } : given;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { kind: 'refused', code: error.code, message: error.message, field: error.field };
  }
}
