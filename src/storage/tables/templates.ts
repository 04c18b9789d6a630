/** Templates and their versions. */
import { computed, flag, integer, json, orNull, table, text, texts, time, type RowOf } from '../table.ts';

export const templates = table(
  {
    id: text().says('Id of the template.', 'tpl_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    alias: orNull(text()).says('A name of your own, accepted wherever an id is.', 'welcome').audited(),
    name: text().says('For people.', 'Welcome').audited(),
    subject: computed(orNull(text()).says('Subject line.', 'Hello {{ name }}')),
    from: computed(orNull(text()).says('Sender if a send names none.', 'Acme <hi@acme.example>')),
    reply_to: computed(texts().says('Where answers go.')),
    html: computed(
      orNull(text()).says(
        'HTML body; null in lists.',
        '<p>Hello {{ name }}{% if plan == "pro" %}, and thank you{% endif %}.</p>',
      ),
    ),
    text: computed(orNull(text()).says('Plain text body; null in lists, and if it is derived from the html.')),
    variables: computed(json<unknown[]>().says('Variables that are declared.', [])),
    locale: computed(text().says('For dates and numbers, if a send names none.', 'en')),
    timezone: computed(text().says('For dates, if a send names none.', 'UTC')),
    strict_variables: computed(flag().says('Whether sends are refused if a variable is missing.')),
    sample_variables: computed(
      orNull(json<Readonly<Record<string, unknown>>>()).says(
        'Values for the preview and the test mail; null in lists, and if none are kept.',
        { name: 'Ana', plan: 'pro' },
      ),
    ),
    version: computed(integer().says('The version shown.', 1)),
    latest_version: integer(),
    /** Null for a draft that was never published. */
    published_version: orNull(integer()).says('The version that sends use.', 1).audited(),
    status: computed(
      text('draft', 'published').says('Whether the version shown is the one that sends use.', 'published'),
    ),
    created_at: time().says('When it was made.', '2026-01-31T09:30:02.481Z'),
    updated_at: time().says('When it was changed last.', '2026-01-31T09:30:02.481Z'),
    published_at: orNull(time()).says('When a version was published last; null for never.', '2026-01-31T09:30:02.481Z'),
  },
  { isReferredTo: true },
);
export type TemplateRow = RowOf<typeof templates>;

/** One version of a template. It never changes. */
export const templateVersions = table(
  {
    template_id: text(),
    version: integer().says('Number of the version.', 1),
    status: computed(text('draft', 'published', 'superseded').says('Whether sends use it.', 'published')),
    subject: orNull(text()),
    from_text: orNull(text()),
    /** Addresses as the caller wrote them. */
    reply_to_json: text(),
    html: orNull(text()),
    text: orNull(text()),
    /** Declared variables `{ name, type, required, default }[]`. */
    variables_json: text(),
    locale: text(),
    timezone: text(),
    strict: integer(),
    created_at: time().says('When it was made.', '2026-01-31T09:30:02.481Z'),
    created_by: orNull(text()).says(
      'Who made it: `key:` and a name, `member:` and an address, or `operator`; null for versions of earlier releases.',
      'key:crm',
    ),
    /** Values for the preview and the test mail, a JSON object; null if none were kept. Sends do not read it. */
    sample_json: orNull(text()),
  },
  { isReferredTo: true },
);
export type TemplateVersionRow = RowOf<typeof templateVersions>;
