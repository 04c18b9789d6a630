/** Renders one message: loads its template, checks its variables, and puts the output into the members of the request. */
import { Problem, type ProblemCode } from '../../base/problem.ts';
import type { Database } from '../../storage/database.ts';
import type { TemplateFault } from '../../templates/mixed/index.ts';
import type { PartResult, PartSource, Renderer } from '../../templates/renderer.ts';
import {
  templateToSend,
  VARIABLE_TYPES,
  type DeclaredVariable,
  type Template,
} from '../../templates/template-store.ts';
import { refuseBothContents, withoutTemplateMembers, type Json, type TemplateMembers } from './template-members.ts';

export interface RenderDeps {
  db: Pick<Database, 'prepared'>;
  renderer: Renderer;
}

/** The version of a template that a message was rendered from. */
export interface TemplateRef {
  id: string;
  version: number;
}

/** A request, or an entry of a bulk send, with the rendered output in place of its template. */
export interface RenderedMessage<Body> {
  body: Body;
  template: TemplateRef | null;
  /** Characters of the rendered parts. */
  length: number;
}

/** Loads the template that the members name. Throws `unknown_template`. */
export type LoadTemplate = (members: TemplateMembers, prefix: string) => Promise<Template>;

/** Makes a loader that reads each template once; use one for each request. */
export function createTemplateLoader(deps: RenderDeps, accountId: string): LoadTemplate {
  const found = new Map<string, Promise<Template | null>>();
  return async ({ template_id: id, template_version: version }, prefix) => {
    const key = `${String(version)} ${String(id)}`;
    const loading =
      found.get(key) ?? templateToSend(deps, { accountId, idOrAlias: String(id), version: version ?? null });
    found.set(key, loading);
    const template = await loading;
    if (template !== null) return template;
    const what = version == null ? 'a published template' : `version ${String(version)} of a template`;
    throw new Problem('unknown_template', `There is no such template: ${what} ${JSON.stringify(id)}.`, {
      field: `${prefix}template_id`,
    });
  };
}

export interface MessageToRender {
  accountId: string;
  /** The members of the request; for an entry, merged with the shared ones. */
  given: Json;
  /** True if the request has a `from`, which replaces that of the template. */
  hasSender: boolean;
  members: TemplateMembers;
  loadTemplate: LoadTemplate;
  now: number;
  prefix: string;
}

/** Renders subject, html, text and, if needed, the sender. Throws the first fault. */
export async function renderMessage(
  deps: RenderDeps,
  { accountId, given, hasSender, members, loadTemplate, now, prefix }: MessageToRender,
): Promise<RenderedMessage<Json>> {
  refuseBothContents(given, members, prefix);
  if (members.template_id == null && members.variables == null)
    return { body: withoutTemplateMembers(given), template: null, length: 0 };
  const template = members.template_id == null ? null : await loadTemplate(members, prefix);
  const body = template?.body ?? null;
  const declared = body?.variables ?? [];
  const variables = withDefaults(declared, members.variables ?? {});
  const [fault] = declarationFaults(declared, variables, `${prefix}variables`);
  if (fault !== undefined) throw fault.problem;
  const parts: PartSource[] = [];
  const add = (name: string, part: PartSource['part'], own: unknown, ofTemplate: string | null | undefined): void => {
    const source = own ?? ofTemplate;
    // A value of another type is refused by the checks that follow.
    if (typeof source === 'string') parts.push({ name, part, source });
  };
  add('subject', 'subject', given['subject'], body?.subject);
  add('html', 'html', given['html'], body?.html);
  add('text', 'text', given['text'], body?.text);
  if (!hasSender) add('from', 'header', null, body?.from);
  const results = await deps.renderer.render(accountId, parts, {
    variables,
    strict: members.strict_variables ?? body?.strict ?? false,
    locale: members.locale ?? body?.locale ?? 'en',
    timezone: members.timezone ?? body?.timezone ?? 'UTC',
    now,
  });
  const rendered = Object.fromEntries(results.map((result) => [result.name, requireOutput(result, prefix)]));
  const replyTo = given['reply_to'] ?? (body !== null && body.replyTo.length > 0 ? body.replyTo : null);
  return {
    body: { ...withoutTemplateMembers(given), ...rendered, ...(replyTo === null ? {} : { reply_to: replyTo }) },
    template: template === null ? null : { id: template.row.id, version: template.version },
    length: Object.values(rendered).reduce((sum, output) => sum + output.length, 0),
  };
}

/** Returns the variables with the defaults of those that are absent. */
export function withDefaults(declared: readonly DeclaredVariable[], given: Variables): Record<string, unknown> {
  const variables = { ...given };
  for (const { name, default: fallback } of declared)
    if (isAbsent(variables, name) && fallback !== null && fallback !== undefined) variables[name] = fallback;
  return variables;
}

/** A variable that is not as its template declares it. */
export interface DeclarationFault {
  name: string;
  problem: Problem;
}

/** Returns the required variables that are absent, and those of another type. */
export function declarationFaults(
  declared: readonly DeclaredVariable[],
  variables: Variables,
  field: string,
): DeclarationFault[] {
  return declared.flatMap(({ name, type, required }) => {
    const at = { field: `${field}.${name}` };
    if (isAbsent(variables, name)) {
      const why = `The template needs the variable \`${name}\`. Give it in \`variables\`.`;
      return required ? [{ name, problem: new Problem('missing_variable', why, at) }] : [];
    }
    const why = `The template needs \`${name}\` to be of type ${type}.`;
    return typeOf(variables[name]) === type ? [] : [{ name, problem: new Problem('invalid_field', why, at) }];
  });
}

type Variables = Readonly<Record<string, unknown>>;

const isAbsent = (variables: Variables, name: string): boolean =>
  !Object.hasOwn(variables, name) || variables[name] === undefined || variables[name] === null;

const typeOf = (value: unknown): string => (Array.isArray(value) ? 'array' : typeof value);

/** Returns the type that a variable must be declared with to have this value; null for what no variable can be. */
export const declarableType = (value: unknown): DeclaredVariable['type'] | null =>
  VARIABLE_TYPES.find((type) => value !== null && type === typeOf(value)) ?? null;

function requireOutput(result: PartResult, prefix: string): string {
  if (result.ok) return result.output;
  throw templateProblem(result.faults[0], `${prefix}${result.name}`, prefix);
}

/** Returns the problem that the caller gets for a fault of a template; `field` is the part with the fault. */
export function templateProblem(fault: TemplateFault | undefined, field: string, prefix = ''): Problem {
  if (fault === undefined) throw new Error('a render failed without a fault');
  const code: ProblemCode = fault.code;
  const where = fault.name === undefined ? field : `${prefix}variables.${fault.name}`;
  return new Problem(code, `\`${field}\`: ${fault.message}`, { field: where.slice(0, 250) });
}
