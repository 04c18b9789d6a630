/** Templates and their versions. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

export const templates = table(
  {
    id: text(),
    account_id: text(),
    alias: orNull(text()),
    name: text(),
    latest_version: integer(),
    /** The version that is used if a send names none; null for a draft that was never published. */
    published_version: orNull(integer()),
    created_at: integer(),
    updated_at: integer(),
    published_at: orNull(integer()),
  },
  { isReferredTo: true },
);
export type TemplateRow = RowOf<typeof templates>;

/** One version of a template. It never changes. */
export const templateVersions = table(
  {
    template_id: text(),
    version: integer(),
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
    created_at: integer(),
    /** Values for the preview and the test mail, a JSON object; null if none were kept. Sends do not read it. */
    sample_json: orNull(text()),
  },
  { isReferredTo: true },
);
export type TemplateVersionRow = RowOf<typeof templateVersions>;
