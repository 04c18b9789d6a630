/** The columns of an audit row that say what an act was done to and how it was asked, for rows that tests write by hand. */
export const noAct = {
  operation: null,
  object_type: null,
  object_id: null,
  before_json: null,
  after_json: null,
  summary: null,
  path: null,
  error_field: null,
  idempotency_key: null,
} as const;
