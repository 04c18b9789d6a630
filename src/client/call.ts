/** A running request: a promise of the record that can also return the response. */

/** The status and headers of an answer. */
export interface ResponseInfo {
  status: number;
  headers: Headers;
  /** The id of the request, for support and the audit log. */
  requestId: string | null;
  /** Number of times that the request was sent. */
  tries: number;
}

export interface Answer<Body> {
  data: Body;
  response: ResponseInfo;
}

export interface Call<Body> extends Promise<Body> {
  /** Resolves to the record with status and headers. */
  withResponse(): Promise<Answer<Body>>;
}

export function callOf<Body>(answer: Promise<Answer<Body>>): Call<Body> {
  const record = answer.then(({ data }) => data);
  const withResponse = (): Promise<Answer<Body>> => {
    // The caller waits for the other promise; without this, a failure would also be reported here as unhandled.
    record.catch(() => undefined);
    return answer;
  };
  return Object.assign(record, { withResponse });
}
