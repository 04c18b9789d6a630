/** The adapters, and what the layers of the API ask them: the key of a request, its body, and the form of its errors. */
import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from '../../base/problem.ts';
import { readJson, type JsonResult, type LongTexts } from '../json.ts';
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

/** Returns the path of an adapter's request, also for programs that keep only its host, as Ghost and Symfony do, or add a final slash. */
export function withAdapter(target: string, headers: IncomingHttpHeaders): string {
  if (target.startsWith('/v1/')) return target;
  const service = target.startsWith(COMPAT) ? null : serviceOf(target, headers);
  const whole = service === null ? target : `${COMPAT}${service.name}${target}`;
  return whole.startsWith(COMPAT) ? whole.replace(/\/(?=\?|$)/, '') : whole;
}

/** Of the services that have `/v3/`, one has Basic authentication. */
function serviceOf(target: string, headers: IncomingHttpHeaders): Service | null {
  const { authorization = '', 'x-postmark-server-token': token } = headers;
  if (token !== undefined) return postmark;
  if (target.startsWith('/v3/') && authorization !== '') return /^basic /i.test(authorization) ? mailgun : sendgrid;
  return /^\/emails\b/.test(target) && authorization !== '' ? resend : null;
}

/** Reads a body of another service into that of our operation. Pure. */
export function readForeign(bytes: Uint8Array, body: ForeignBody, files: LongTexts | null = null): JsonResult {
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
        : readJson(bytes, { lists: true, files });
    return given.kind === 'ok' ? { kind: 'ok', value: read(given.value, body), given: given.value } : given;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { kind: 'refused', code: error.code, message: error.message, field: error.field };
  }
}
