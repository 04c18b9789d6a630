/** The columns of an audit row that say what an act was done to, for rows that tests write by hand. */
export const noAct = {
  operation: null,
  object_type: null,
  object_id: null,
  before_json: null,
  after_json: null,
  summary: null,
} as const;
