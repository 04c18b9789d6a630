/** The form of a classification rule: those of config/bounce-rules.json, and those in an operator's own files, which are asked first. */
import { z } from 'zod';
import { faultOfPhrase } from '../base/phrase.ts';
import { orUnknown, textThat } from './kind.ts';
import { words } from '../base/words.ts';

export const bounceClasses = ['hard', 'soft', 'block', 'undetermined'] as const;
export const bounceReasons = [
  ...words(
    'mailbox_not_found mailbox_full domain_not_found message_too_large content_rejected policy reputation dmarc auth_required',
  ),
  ...words('mailbox_disabled null_mx spam rate_limited tls_required routing_loop network expired other'),
];

/** The phase of the session; `report` is a bounce mail. */
export const refusalPhases = words('connect banner ehlo tls auth mail rcpt data dot report');

/** Entries of one list; more phrases would make the engine slow. */
const MOST = 200;
const listOf = <T extends z.ZodType>(item: T, expected: string) =>
  z
    .array(item, { error: expected })
    .min(1, { error: expected })
    .max(MOST, { error: `at most ${String(MOST)} entries` });

const phrase = textThat('a phrase of at most 300 characters', ({ length }) => length <= 300).superRefine(
  (written, context) => {
    const fault = faultOfPhrase(written);
    if (fault !== null) context.addIssue({ code: 'custom', message: `a phrase (this one has ${fault})` });
  },
);
const phrases = listOf(phrase, 'a list of phrases');

const ENHANCED = 'an enhanced code such as 5.1.1, x.7.x, 5.7.6xx, or none';
const ENHANCED_FORM = /^(?:none|[x245]\.(?:x|\d{1,3})\.(?:x|\d{1,3}|\d\dx|\dxx))$/;
const CODE = 'a reply code such as 550, 4xx, or none';
const isPart = (text: string): boolean => text.length >= 3 && text.length <= 100 && text === text.toLowerCase();

/** A rule fits if all its members fit; a member with several entries fits if one of them does. */
export const bounceRule = z.strictObject(
  {
    name: textThat('a name of lower-case letters, digits and hyphens, at most 64', (text) =>
      /^[a-z0-9][a-z0-9-]{0,63}$/.test(text),
    ),
    why: textThat('a text of at most 500 characters', ({ length }) => length <= 500).optional(),
    class: z.enum(bounceClasses, { error: bounceClasses.join(', ') }),
    reason: z.enum(bounceReasons, { error: bounceReasons.join(', ') }),
    /** Phrases (base/phrase.ts), one of which must occur. */
    text: phrases.optional(),
    not: phrases.optional(),
    /** Parts of host names and links, one of which must occur. */
    names: listOf(textThat('a lower-case text of 3 to 100 characters', isPart), 'a list of parts of names').optional(),
    enhanced: listOf(
      textThat(ENHANCED, (text) => ENHANCED_FORM.test(text)),
      ENHANCED,
    ).optional(),
    codes: listOf(
      z.union([z.int().min(400, { error: CODE }).max(599, { error: CODE }), z.enum(['4xx', '5xx', 'none'])], {
        error: CODE,
      }),
      CODE,
    ).optional(),
    /** Names of config/operators.json; also fits if no host is known. */
    operators: listOf(
      textThat('the name of an operator', ({ length }) => length <= 64),
      'a list of operators',
    ).optional(),
    phases: listOf(z.enum(refusalPhases, { error: refusalPhases.join(', ') }), 'a list of phases').optional(),
    /** True if our own set-up is the cause, of which the log warns. */
    infrastructure: z.boolean({ error: 'true or false' }).optional(),
    /** True if the next attempt will probably pass. */
    greylisting: z.boolean({ error: 'true or false' }).optional(),
  },
  { error: orUnknown('a rule with name, class, reason and what it is about') },
);

export type BounceRule = Readonly<z.output<typeof bounceRule>>;

/** The form of an operator's own file. A rule that fits everything is refused, because it would hide all that follow. */
export const bounceRuleFile = z.strictObject(
  {
    rules: z
      .array(
        bounceRule.refine(({ text, names, enhanced, codes }) => (text ?? names ?? enhanced ?? codes) !== undefined, {
          error: 'a rule with text, names, enhanced or codes',
        }),
        { error: 'a list of rules' },
      )
      .max(1000, { error: 'at most 1000 rules' }),
  },
  { error: orUnknown('a group with rules') },
);
