/** The contents of a template: what a request changes in them, and the checks before they are stored. */
import type { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { parseMailbox } from '../mail/address.ts';
import { declarableType, templateProblem } from '../messages/request/templated-send.ts';
import { checkVariables } from '../messages/request/template-members.ts';
import { refuseForeignLink } from '../messages/request/unsubscribe.ts';
import { hasLiteral, type Part } from '../templates/mixed/index.ts';
import type { Renderer } from '../templates/renderer.ts';
import type { DeclaredVariable, TemplateBody } from '../templates/template-store.ts';
import type { TemplateChange } from './template-schemas.ts';

/** A template without any contents. */
export const empty: TemplateBody = {
  subject: null,
  from: null,
  replyTo: [],
  html: null,
  text: null,
  variables: [],
  locale: 'en',
  timezone: 'UTC',
  strict: false,
  sample: null,
};

type Contents = Omit<z.output<typeof TemplateChange>, 'alias' | 'name' | 'publish'>;

/** Returns the body with the given members replaced; null removes a member, or makes it what it is in a template without it. */
export function applied(body: TemplateBody, given: Contents): TemplateBody {
  const or = <T>(value: T | undefined, before: T): T => (value === undefined ? before : value);
  const orDefault = <T>(value: T | null | undefined, before: T, without: T): T => or(value, before) ?? without;
  return {
    subject: or(given.subject, body.subject),
    from: or(given.from, body.from),
    replyTo:
      given.reply_to === undefined
        ? body.replyTo
        : given.reply_to === null
          ? []
          : typeof given.reply_to === 'string'
            ? [given.reply_to]
            : given.reply_to,
    html: or(given.html, body.html),
    text: or(given.text, body.text),
    variables:
      given.variables === undefined
        ? body.variables
        : (given.variables ?? []).map(({ name, type, required, default: fallback }) => ({
            name,
            type: type ?? declarableType(fallback) ?? 'string',
            required: required ?? false,
            default: fallback ?? null,
          })),
    locale: orDefault(given.locale, body.locale, empty.locale),
    timezone: orDefault(given.timezone, body.timezone, empty.timezone),
    strict: orDefault(given.strict_variables, body.strict, empty.strict),
    sample: or(given.sample_variables, body.sample),
  };
}

/** Checks the sources of a request, of which a change has those alone that are new. Throws the first fault. */
export async function checkGiven(
  { renderer }: { renderer: Renderer },
  accountId: string,
  body: TemplateBody,
): Promise<void> {
  const parts = sourcesOf(body).map(([name, part, source]) => ({ name, part, source }));
  for (const result of await renderer.read(accountId, parts))
    if (!result.ok) throw templateProblem(result.faults[0], result.name);
  for (const { name, part, source } of parts) if (part === 'html' || part === 'text') refuseForeignLink(source, name);
  checkLines(body);
}

/** Line breaks in values become spaces when a mail is rendered, but not what the author of the template wrote. */
function checkLines({ subject, from }: TemplateBody): void {
  const cure = 'Remove it, or let the tags beside it trim it: `{%- … -%}`.';
  if (subject !== null && hasLiteral(subject, 'subject', /[\r\n\0]/))
    throw new Problem('invalid_field', `\`subject\` has a line break or NUL in its text. ${cure}`, {
      field: 'subject',
    });
  if (from !== null && hasLiteral(from, 'address', /\p{Cc}/u))
    throw new Problem('invalid_sender', `\`from\` has a line break or control character in its text. ${cure}`, {
      field: 'from',
    });
}

/** A send that relies on a default of another type would be refused. */
function checkDefault({ name, type, default: fallback }: DeclaredVariable, n: number): void {
  const actual = declarableType(fallback);
  if (actual === null || actual === type) return;
  throw new Problem('invalid_field', `The default of the variable \`${name}\` is of type ${actual}, not ${type}.`, {
    field: `variables[${String(n)}].default`,
  });
}

/** Checks that there is content, and that addresses, defaults and sample values are valid. Throws the first fault. */
export function checkBody(body: TemplateBody): void {
  if ((body.html ?? '') === '' && (body.text ?? '') === '')
    throw new Problem('missing_content', 'The template has no content: give it `html` or `text`.', { field: 'html' });
  if (body.sample !== null) checkVariables(body.sample, 'sample_variables');
  const defaults = body.variables.filter((one) => one.default != null).map((one) => [one.name, one.default]);
  checkVariables(Object.fromEntries(defaults) as Record<string, unknown>, 'variables');
  // With variables in it, an address can only be judged when it is filled in.
  if (body.from !== null && !body.from.includes('{')) checkAddress(body.from, 'from', 'invalid_sender');
  body.replyTo.forEach((text, n) => {
    if (!text.includes('{')) checkAddress(text, replyToField(body, n), 'invalid_address');
  });
  body.variables.forEach(checkDefault);
  const double = body.variables.find(({ name }, n) => body.variables.findIndex((one) => one.name === name) !== n);
  if (double !== undefined)
    throw new Problem('invalid_field', `The variable \`${double.name}\` is declared twice.`, { field: 'variables' });
}

const replyToField = ({ replyTo }: TemplateBody, n: number): string =>
  replyTo.length === 1 ? 'reply_to' : `reply_to[${String(n)}]`;

function checkAddress(text: string, field: string, code: 'invalid_sender' | 'invalid_address'): void {
  const parsed = parseMailbox(text, { smtputf8: true });
  if (parsed.kind === 'bad')
    throw new Problem(code, `\`${field}\` does not match the address format rule: ${parsed.why}.`, { field });
}

/** Returns the sources of a template that it has, with their names and kinds. */
export function sourcesOf(body: TemplateBody): [name: string, part: Part, source: string][] {
  const all: [string, Part, string | null][] = [
    ['subject', 'subject', body.subject],
    ['from', 'address', body.from],
    ...body.replyTo.map((text, n): [string, Part, string] => [replyToField(body, n), 'address', text]),
    ['html', 'html', body.html],
    ['text', 'text', body.text],
  ];
  return all.flatMap(([name, part, text]): [string, Part, string][] => (text === null ? [] : [[name, part, text]]));
}
