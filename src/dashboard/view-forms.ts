/**
 * Forms that a view declares: `{{#form "/streams/:id" "updateStream" button="Save"}}{{field "name"}}{{else}}…{{/form}}`. The view says where a
 * form is sent, which operation it performs, its words and its fields; after `{{else}}` come buttons of the view's own. Labels, kinds, limits and
 * choices that it leaves out, and the scope, are those of the operation. The helpers here show forms; resource.ts takes what is sent.
 *
 * Words of a form: `title`; `ask`, on which it opens, with `lead` as the main button of the page; `about`; `button`; `said` afterwards and `next`, the page that it leads to, both templates
 * of the answer. `set`: members of the input that it stands for. `id`: the member that names the record, for operations of the server. `proof`:
 * the password is asked for; a text says when, and the page's code checks it. `guard`: it is refused if what it changes was changed since its
 * page was opened, as are all that update.
 */
import Handlebars from 'handlebars';
import { z } from 'zod';
import type { Route } from '../api/route.ts';
import type { Problem } from '../base/problem.ts';
import { scopeAllows, type Scope } from '../keys/scopes.ts';
import { fieldItems, fieldNumber, fieldText, seenIn } from './forms.ts';
import type { Visit } from './page.ts';
import { titleOf } from './words.ts';

type Word = string | number | boolean | null | undefined;
type Words = Readonly<Record<string, Word | readonly (Word | object)[]>>;

export interface ViewForm {
  to: `/${string}`;
  operation: string;
  words: Words;
  fields: readonly { name: string; words: Words }[];
}

/** The form that was refused, in the data of its page. */
export interface Refused {
  to: string;
  id: string;
  form: URLSearchParams;
  fault: Problem;
}

interface Root {
  scopes?: readonly string[];
  params?: Readonly<Record<string, string>>;
  refused?: Refused | null;
}

interface Options {
  fn(context: unknown, options: object): string;
  inverse(context: unknown, options: object): string;
  hash: Words;
  data: { root: Root; form?: { operation: string; sent: URLSearchParams | null } };
}

/** The sources of all views by their names. */
export type Sources = ReadonlyMap<string, string>;

/** Returns the forms of a view, also those in its parts, each as it stands first. */
export function formsOf(view: string, sources: Sources): ViewForm[] {
  const all = statementsIn(view, sources).flatMap((one) => {
    const { path, params, hash, program } = one as hbs.AST.BlockStatement;
    if (one.type !== 'BlockStatement' || path.original !== 'form') return [];
    const [to, operation] = params.map(literal);
    const fields = inProgram(program, sources).flatMap((inner) => {
      const { path: helper, params: given, hash: words } = inner as Partial<hbs.AST.BlockStatement>;
      const [name] = given ?? [];
      const isField = inner.type === 'MustacheStatement' && helper?.original === 'field' && name !== undefined;
      return isField ? [{ name: String(literal(name)), words: literals(words) }] : [];
    });
    return [{ to: String(to) as `/${string}`, operation: String(operation), words: literals(hash), fields }];
  });
  // The view may show one with other words in another case.
  return all.filter(({ to }, n) => all.findIndex((one) => one.to === to) === n);
}

/** Most parts have no form and no part that might: parsing them all takes longer than all else that the pages need at start. */
function statementsIn(view: string, sources: Sources): hbs.AST.Statement[] {
  const source = sources.get(view) ?? '';
  return /\{\{(?:#form|field|#?>)/.test(source) ? inProgram(Handlebars.parse(source), sources) : [];
}

function inProgram(program: hbs.AST.Program | undefined, sources: Sources): hbs.AST.Statement[] {
  return (program?.body ?? []).flatMap((one) => {
    const {
      program: inner,
      inverse,
      name,
    } = one as {
      program?: hbs.AST.Program;
      inverse?: hbs.AST.Program;
      name?: { original?: string };
    };
    const part = name?.original ?? '';
    return [
      one,
      ...inProgram(inner, sources),
      ...inProgram(inverse, sources),
      ...(part === '' || part.startsWith('@') ? [] : statementsIn(`_${part}`, sources)),
    ];
  });
}

const literal = (one: hbs.AST.Expression | undefined): string | boolean | number | undefined =>
  (one as { value?: string } | undefined)?.value;

const literals = (hash: hbs.AST.Hash | undefined): Words =>
  Object.fromEntries((hash?.pairs ?? []).map(({ key, value }) => [key, literal(value)]));

interface Member {
  type?: string;
  enum?: readonly string[];
  maxLength?: number;
  maximum?: number;
  items?: Member;
  isRequired?: boolean;
  $ref?: string;
  $defs?: Record<string, Member>;
  properties?: Record<string, Member>;
  required?: readonly string[];
}

/** The side of an operation that forms need. */
interface Input {
  members: Readonly<Record<string, Member>>;
  scope: Scope | null;
}
export type Inputs = (operation: string) => Input;

export function inputsOf(routes: readonly Route[]): Inputs {
  const known = new Map<string, Input>();
  return (operation) => {
    const input = known.get(operation) ?? inputOf(routes.find(({ operationId }) => operationId === operation));
    known.set(operation, input);
    return input;
  };
}

function inputOf(route: Route | undefined): Input {
  const { body = z.object({}), scope, members: open } = route ?? {};
  const made = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' }) as Member;
  const at = (one: Member = {}): Member => (one.$ref === undefined ? one : (made.$defs?.[one.$ref.slice(8)] ?? {}));
  const { properties = {}, required = [] } = at(made);
  const members = Object.entries(properties).map(([name, one]) => {
    const { items, ...member } = at(one);
    return [name, { ...member, items: at(items), isRequired: required.includes(name) }];
  });
  return {
    members: Object.fromEntries(members) as Input['members'],
    scope: open?.scope ?? (Array.isArray(scope) ? (scope[0] as Scope) : null),
  };
}

function kindOf({ type, enum: values, items }: Member): string {
  if (values !== undefined) return 'select';
  if (type === 'array') return items?.enum === undefined ? 'items' : 'boxes';
  return { boolean: 'flag', integer: 'number', number: 'number' }[type ?? ''] ?? 'text';
}

/** Returns the members of the operation's input that were entered. `reads` reads fields in another way, also those that are not members. */
export function bodyOf(form: ViewForm, inputs: Inputs, visit: Visit, reads: Reads): object {
  const { members } = inputs(form.operation);
  const entered = form.fields.map(({ name, words }) => {
    const member = members[name];
    return reads[name]?.(visit) ?? (member === undefined ? {} : read(name, words, member, visit));
  });
  return { ...(Object.assign({}, ...entered) as object), ...setIn(form) };
}
export type Reads = Readonly<Record<string, (visit: Visit) => object>>;

/** An empty text is left out, so that the value stays as it is, but for a field with `empty=true`. */
function read(name: string, words: Words, member: Member, { form }: Visit): object {
  const kind = words['kind'] ?? kindOf(member);
  if (kind === 'flag') return { [name]: form.has(name) };
  if (kind === 'boxes') return { [name]: form.getAll(name) };
  if (kind === 'items') return form.has(name) ? { [name]: fieldItems(form, name) } : {};
  const text = fieldText(form, name);
  // The field of a browser has neither seconds nor a zone: the time is UTC.
  const moment =
    text !== undefined && kind === 'datetime-local' ? text.replace(/^[\d-]{10}T\d\d:\d\d$/, '$&:00Z') : text;
  const value =
    kindOf(member) === 'number' ? fieldNumber(form, name) : (moment ?? (words['empty'] === true ? '' : undefined));
  return value === undefined ? {} : { [name]: value };
}

function setIn({ words: { set = '' } }: ViewForm): object {
  const pairs = (wordIn(set) ?? '').split(' ').flatMap((one) => (one === '' ? [] : [one.split('=')]));
  return Object.fromEntries(
    pairs.map(([name = '', value]) => [name, value === 'true' ? true : value === 'false' ? false : value] as const),
  );
}

export const isGuarded = ({ operation, words: { guard, set } }: ViewForm): boolean =>
  guard === true || (operation.startsWith('update') && set === undefined);

/** Returns the values of a record that the form changes. */
export const changeable = ({ fields }: ViewForm, record: object): unknown =>
  fields.map(({ name }) => (record as Record<string, unknown>)[name]);

/** Returns the address of a form for a record. */
export const addressFor = (to: string, id: string): string => to.replace(':id', encodeURIComponent(id));

/** Returns the helpers `form` and `field`, which show the parts `_form` and `_field`. */
export function formHelpers(
  inputs: Inputs,
  sources: Sources,
  show: (part: string, context: object, options: object) => unknown,
): Record<'form' | 'field', Handlebars.HelperDelegate> {
  const forms = new Map([...sources.keys()].flatMap((view) => formsOf(view, sources)).map((one) => [one.to, one]));
  return {
    form(this: object, to: string, operation: string, { hash, data, ...parts }: Options): unknown {
      const { root } = data;
      const { scope } = inputs(operation);
      if (scope !== null && !scopeAllows(root.scopes ?? [], scope)) return '';
      const id = String('id' in this ? this.id : (root.params?.['id'] ?? ''));
      const { refused = null } = root;
      const isRefused = refused?.to === to && (!to.includes(':id') || refused.id === id);
      const frame = Handlebars.createFrame(data) as Options['data'];
      frame.form = { operation, sent: isRefused ? refused.form : null };
      const declared = forms.get(to as `/${string}`);
      const seen =
        declared === undefined || !isGuarded(declared)
          ? null
          : seenIn(
              refused?.form ?? new URLSearchParams(),
              isRefused ? refused.fault : null,
              changeable(declared, this),
            );
      const model = { class: 'form', ...hash, action: addressFor(to, id), isOpen: isRefused, seen };
      const inside = new Handlebars.SafeString(parts.fn(this, { data: frame }));
      return show(
        'form',
        { ...model, inside, buttons: new Handlebars.SafeString(parts.inverse(this, { data: frame })) },
        { data },
      );
    },
    field(this: object, name: string, { hash, data }: Options): unknown {
      const { operation = '', sent = null } = data.form ?? {};
      const member = inputs(operation).members[name] ?? {};
      const kind = wordIn(hash['kind']) ?? kindOf(member);
      const own = 'value' in hash ? hash['value'] : (this as Record<string, unknown>)[name];
      const values = sent === null ? [own ?? []].flat().map(String) : sent.getAll(name);
      const model = {
        label: titleOf(name),
        isRequired: member.isRequired,
        most: member.maxLength,
        ...hash,
        ...{ name, kind, values, isNumber: [kind, kindOf(member)].includes('number') },
        value: kind === 'items' ? values.join('\n') : (values[0] ?? ''),
        isOn: sent === null ? own === true : values.length > 0,
        type: { radio: 'radio', boxes: 'checkbox', number: 'text', select: '' }[kind] ?? kind,
        choices: choicesOf(hash['choices'] ?? member.enum ?? member.items?.enum, values),
      };
      return show(wordIn(hash['part']) ?? 'field', model, { data });
    },
  };
}

const wordIn = (one: unknown): string | undefined => (typeof one === 'string' ? one : undefined);

/** Returns choices: values, values with labels, or objects that have a name, as views and their pages name them. */
function choicesOf(choices: unknown, values: readonly string[]): object[] {
  const all = typeof choices === 'string' ? choices.split('|') : Array.isArray(choices) ? (choices as unknown[]) : [];
  return all.map((one) => {
    const pair = typeof one === 'string' ? one.split('=') : [];
    const given =
      typeof one === 'string' ? { value: pair[0], label: pair[1] ?? pair[0], about: pair[2] } : (one as Words);
    const value = [given['value'], given['id'], given['name']].map(wordIn).find((word) => word !== undefined) ?? '';
    return { label: given['name'], ...given, value, on: values.includes(value) };
  });
}
