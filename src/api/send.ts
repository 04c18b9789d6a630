/** `POST /v1/messages`: sends one mail, or many. */
import { z } from 'zod';
import { asBuffer } from '../base/bytes.ts';
import { nextSlice } from '../base/slices.ts';
import { acceptBulk, acceptSingle } from '../messages/accept/accept.ts';
import type { Sender } from '../messages/accept/may-send.ts';
import type { SendDraft } from '../messages/request/message-draft.ts';
import { checkSendGently, type MessageDraft, type SendRules } from '../messages/request/send-request.ts';
import { sendSchemas } from '../messages/request/send-schema.ts';
import { isTemplated, withoutEmptyTexts } from '../messages/request/template-members.ts';
import { expandSend, type ExpandedSend } from '../messages/request/templated-send.ts';
import { answerChange, type Call, type Reply, route, type Route } from './route.ts';
import type { ApiContext } from './context.ts';
import { sampleOf } from './record-schema.ts';
import { Batch, Message } from './records.ts';
import { draftFrom, filesFrom, type CheckedSend } from './send-check.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createGate } from '../scheduling/gate.ts';

type SendCall = Call<object, object, unknown>;

const PATH = '/v1/messages';

const minimal = {
  from: 'Acme <hi@acme.example>',
  to: 'ana@example.net',
  subject: 'Welcome',
  html: '<p>Good to see you.</p>',
};

export function sendRoute(deps: ApiContext): Route {
  const { SingleMessage, BulkMessage } = sendSchemas(deps.limits);
  const gate = createBulkGate(deps.accept);
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'sendMessage',
      description:
        'The single form has `to`; the bulk form has `recipients`, each of which is a message of its own and may override any shared member. A 202 means that the mail is stored durably and will be delivered or reported.',
      scope: ['send', 'campaign'],
      act: { says: 'sent {object}', type: 'message' },
      touches: 'mail',
      scopeFor: (body) => (body['recipients'] == null ? 'send' : 'campaign'),
      body: z.union([
        SingleMessage.partial({ from: true, subject: true }).meta({
          id: 'SingleMessage',
          description: 'One message to one recipient. `from` and `subject` are required unless the template has them.',
        }),
        BulkMessage.meta({ id: 'BulkMessage' }),
      ]),
      bodyByHandler: true,
      sendRules: (now) => rulesOf(deps, now),
      bodyExamples: {
        minimal: { summary: 'The least there is', value: minimal },
        attachment: {
          summary: 'With an attachment',
          value: { ...minimal, attachments: [{ filename: 'hello.txt', content: 'aGVsbG8=' }] },
        },
        template: {
          summary: 'With a template',
          value: { from: minimal.from, to: minimal.to, template_id: 'welcome', variables: { name: 'Ana' } },
        },
        bulk: {
          summary: 'The same to several people',
          value: {
            from: minimal.from,
            subject: 'News',
            html: '<p>It is here.</p>',
            recipients: [{ to: 'ana@example.net' }, { to: 'bo@example.net' }],
          },
        },
      },
      responses: {
        202: {
          description: 'Accepted: the message, or for the bulk form the batch.',
          schema: z.union([Message, Batch]),
          headers: { Location: 'Path of the message; absent for the bulk form.' },
          examples: {
            message: { summary: 'One message', value: sampleOf(Message) },
            batch: { summary: 'A bulk send, of which one entry was refused', value: sampleOf(Batch) },
          },
        },
      },
      problems: [
        'mutually_exclusive_fields',
        'invalid_recipient',
        'too_many_recipients',
        'duplicate_recipient',
        'no_valid_recipients',
        'invalid_sender',
        'invalid_address',
        'missing_content',
        'unknown_template',
        'template_syntax_error',
        'template_render_failed',
        'missing_variable',
        'invalid_header',
        'header_not_allowed',
        'invalid_attachment',
        'attachment_type_not_allowed',
        'unknown_stream',
        'invalid_send_at',
        'domain_not_verified',
        'domain_not_allowed',
        'recipient_suppressed',
        'message_too_large',
        'sending_paused',
        'quota_exceeded',
      ],
    },
    (call) =>
      call.json['recipients'] == null
        ? send(deps, call)
        : gate.run(call.caller.accountId, call.isStopping, () => send(deps, call)),
  );
}

const rulesOf = ({ smtputf8, limits }: ApiContext, now: number): SendRules => ({ now, smtputf8, limits });

async function send(deps: ApiContext, call: SendCall): Promise<Reply> {
  const rendered = await renderedOf(deps, call);
  const draft = await draftOf(deps, call, rendered);
  const sender = senderOf(call);
  const replyOf = (body: { id: string; object: string }): Reply => {
    const headers = body.object === 'message' ? { Location: `${PATH}/${body.id}` } : undefined;
    return { status: 202, body, ...(headers === undefined ? {} : { headers }) };
  };
  return answerChange(call, replyOf, (rowsFor) =>
    draft.kind === 'single'
      ? acceptSingle(deps.accept, sender, draft.draft, rowsFor)
      : acceptBulk(deps.accept, sender, draft, rowsFor),
  );
}

/** A request that is to be checked, with its templates rendered, or one that a thread has checked with its JSON. */
type Rendered =
  ({ kind: 'rendered' } & ExpandedSend) | { kind: 'checked'; send: Exclude<CheckedSend, { kind: 'templated' }> };

async function renderedOf(deps: ApiContext, call: SendCall): Promise<Rendered> {
  const { checked } = call;
  if (checked !== null && checked.kind !== 'templated') return { kind: 'checked', send: checked };
  const json = checked === null ? withoutEmptyTexts(call.json) : checked.body;
  if (!isTemplated(json)) return { kind: 'rendered', body: json, refused: new Map(), templates: new Map() };
  const expanded = await expandSend(deps, json, {
    accountId: call.caller.accountId,
    now: call.now,
    mostEntries: deps.limits.bulkRecipients,
    monotonic: () => deps.accept.clock.monotonic(),
    nextSlice,
  });
  return { kind: 'rendered', ...expanded };
}

async function draftOf(deps: ApiContext, call: SendCall, rendered: Rendered): Promise<SendDraft> {
  if (rendered.kind === 'checked') {
    const { send: checked } = rendered;
    if (checked.kind !== 'mail') return draftFrom(checked);
    return { kind: 'single', draft: await deps.mailDraft(asBuffer(checked.bytes), checked.draft, call) };
  }
  const { body, refused, templates } = rendered;
  const rules = { refused, files: filesFrom(call.checked), ...rulesOf(deps, call.now) };
  const draft = await checkSendGently(body, rules, nextSlice);
  if (templates.size === 0) return draft;
  const name = (index: number, one: MessageDraft): void => {
    const template = templates.get(index);
    if (template !== undefined) one.template = template;
  };
  if (draft.kind === 'single') name(-1, draft.draft);
  else for (const entry of draft.entries) if (entry.kind === 'ok') name(entry.index, entry.draft);
  return draft;
}
export const senderOf = ({ caller, requestId }: SendCall): Sender => ({
  accountId: caller.accountId,
  keyId: caller.isOperator === true ? null : caller.keyId,
  mode: caller.mode,
  // The operator sends whatever the plan says.
  ...(caller.isOperator === true ? {} : { plan: caller.plan, paused: caller.paused }),
  domains: caller.domains,
  requestId,
});

/** Accounts take turns, and none has more than half of the room: slow templates of one do not hold up the others. */
const LIMITS = { most: 4, mostOfShare: 2, waiting: 256 };
/** A bulk send that waited longer is refused: either writes hang, or its client has given up. */
const MOST_WAITED_MS = 30_000;

/** Handles a few bulk sends at a time: a thousand recipients take some MB, with templates 128 MB, and many at once take as long as one after the other. */
export function createBulkGate({ clock }: { clock: Pick<Clock, 'monotonic'> }) {
  const gate = createGate(LIMITS);
  return {
    /** Runs `send` when the account has its turn. Throws `service_unavailable` if it would wait too long, and if the service stops meanwhile. */
    run<T>(accountId: string, isStopping: () => boolean, send: () => Promise<T>): Promise<T> {
      const came = clock.monotonic();
      const inTurn = (): Promise<T> => {
        if (clock.monotonic() - came > MOST_WAITED_MS) throw tooMany();
        // All that wait would take longer than a stop may, and their clients would not hear what became of them.
        if (isStopping()) throw new Problem('service_unavailable', 'The service is stopping.');
        return send();
      };
      return gate.run(accountId, inTurn, tooMany);
    },
  };
}

const tooMany = (): Problem =>
  new Problem('service_unavailable', 'Too many bulk sends of this account wait already. Try again.', {
    retryAfter: 5,
  });
