/** The operation that sends one mail, as the operator, through the same door as the API's. */
import { z } from 'zod';
import { acceptSingle } from '../messages/accept/accept.ts';
import { checkSend } from '../messages/request/send-request.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onServer } from './operation.ts';

/** Lengths are the business of the send request's own check; these only keep out what is no mail at all. */
const field = z.string().max(2000).optional();
const body = z
  .string()
  .max(2 ** 26)
  .optional();

export const sendOperations = {
  /** The message record; the mail is durable when it answers, and not waited for. */
  send: onServer({
    acts: true,
    args: z.strictObject({ from: field, to: field, subject: field, text: body, html: body, account: accountArgument }),
    async run({ accept, clock, config, db }, { account, ...mail }, act) {
      const { id: accountId } = await accountNamed({ db }, account);
      act.concerns(accountId);
      const { smtputf8 } = config.delivery;
      const draft = checkSend(mail, { now: clock.now(), smtputf8, limits: config.limits });
      if (draft.kind !== 'single') throw new Error('a mail without `recipients` is a single one');
      const sender = { accountId, keyId: null, mode: 'live', domains: [], requestId: act.requestId } as const;
      return await acceptSingle(accept, sender, draft.draft, () => act.rows());
    },
  }),
};
