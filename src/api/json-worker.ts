/** The thread of json-reader.ts for large JSON bodies. Of a send request it gives the draft: decoding 20 MB of base64 is not for the main loop. */
import { answerJobs } from '../base/answer-jobs.ts';
import { MIME, type ForeignBody } from './compat/foreign.ts';
import { readForeign } from './compat/services.ts';
import { hashJson, readJson, type JsonObject, type JsonResult, type LongTexts } from './json.ts';
import { checkApart, checkMail, memoryOf } from './send-check.ts';
import type { CheckedSend } from './send-check.ts';
import { decodeBase64 } from '../messages/request/attachment.ts';
import type { SendRules } from '../messages/request/send-request.ts';

export interface JsonJob {
  bytes: Uint8Array;
  /** Checks the body as a send request by these rules. */
  send: SendRules | null;
  /** Reads it as a body of another service. */
  foreign: ForeignBody | null;
}

/** With `checked`, the value has only the members that decide the form of the request. */
export type JsonJobResult =
  | (Extract<JsonResult, { kind: 'ok' }> & { hash: string; checked: CheckedSend | null })
  | Exclude<JsonResult, { kind: 'ok' }>;

function work({ bytes, send, foreign }: JsonJob): JsonJobResult {
  const files: LongTexts | null = send === null ? null : new Map();
  const result = foreign === null ? readJson(bytes, { files }) : readForeign(bytes, foreign, files);
  if (result.kind !== 'ok') return result;
  const { value, given = value } = result;
  const hash = hashJson(given);
  if (send === null) return { kind: 'ok', value, hash, checked: null };
  const rules = { ...send, files: new Map([...(files ?? [])].map(([name, text]) => [name, decodeBase64(text)])) };
  const checked = foreign?.form.endsWith(`.${MIME}`) === true ? checkMail(value, rules) : checkApart(value, rules);
  return { kind: 'ok', value: formOf(value), hash, checked };
}

function formOf(value: JsonObject): JsonObject {
  if (!Object.hasOwn(value, 'recipients')) return {};
  return { recipients: value['recipients'] === null ? null : [] };
}

const filesOf = (result: JsonJobResult): ArrayBuffer[] =>
  result.kind === 'ok' && result.checked !== null ? memoryOf(result.checked) : [];

answerJobs(work, filesOf, ({ bytes }) => [bytes]);
