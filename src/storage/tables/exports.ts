/** Work and wishes of people in the dashboard: files that they ask for, and filters that they keep. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

/** A list that is written as a file, page by page (operator/export-rule.ts). */
export const exportFiles = table({
  id: text(),
  account_id: text(),
  kind: text<'messages' | 'events' | 'stats' | 'audit'>(),
  /** The parameters of the API's list or numbers, with the end of the range fixed. */
  query_json: text(),
  state: text<'waiting' | 'running' | 'done' | 'failed'>(),
  rows_done: integer(),
  /** Bytes of the file that hold finished rows; what is behind them was written before a crash, and is written again. */
  bytes_done: integer(),
  /** Cursor of the next page; null before the first one. */
  cursor: orNull(text()),
  /** 1 where the file has reached its largest size before the end of the list. */
  is_cut: integer(),
  /** The reason where it failed. */
  error: orNull(text()),
  created_at: integer(),
  /** As in the audit: `member:<email>` or `operator`. */
  created_by: text(),
  /** The last step; exports take turns by it. */
  touched_at: integer(),
  finished_at: orNull(integer()),
  format: text<'csv' | 'ndjson'>(),
});
export type ExportRow = RowOf<typeof exportFiles>;

/** A named filter of a page, for all who see the account. */
export const savedViews = table({
  id: text(),
  account_id: text(),
  /** Path of the page, such as `/messages`. */
  page: text(),
  name: text(),
  /** The query string without the `?`. */
  query: text(),
  created_at: integer(),
  created_by: text(),
});
export type SavedViewRow = RowOf<typeof savedViews>;
