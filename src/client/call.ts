/** A request on its way: a promise of the record, which also gives the response it came in. */

/** What an answer says besides its body. */
export interface ResponseInfo {
  status: number;
  headers: Headers;
  /** For support and the audit log. */
  requestId: string | null;
  /** How many times the request was sent. */
  tries: number;
}

export interface Answer<Body> {
  data: Body;
  response: ResponseInfo;
}

export interface Call<Body> extends Promise<Body> {
  /** The record together with status and headers. */
  withResponse(): Promise<Answer<Body>>;
}

export function callOf<Body>(answer: Promise<Answer<Body>>): Call<Body> {
  const record = answer.then(({ data }) => data);
  const withResponse = (): Promise<Answer<Body>> => {
    // The caller waits for the other promise now: a failure is told there, and would else be reported as unhandled here.
    record.catch(() => undefined);
    return answer;
  };
  return Object.assign(record, { withResponse });
}
