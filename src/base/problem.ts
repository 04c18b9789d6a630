/** An error meant for the caller: a code of the catalogue with its status, a sentence to act on, and the field. Anything else thrown is a bug. */

interface CatalogueEntry {
  status: number;
  /** The cause, for the documentation page of the code. */
  cause: string;
  cure: string;
  /** Seconds for `Retry-After` if the code that throws gives none. */
  retryAfter?: number;
}

/** The error catalogue: every code the API can answer, its status, cause and cure. OpenAPI and the documents are made from it. */
export const catalogue = {
  invalid_request: {
    status: 400,
    cause: 'The request line, a header or the path cannot be read as HTTP.',
    cure: 'Send well-formed HTTP/1.1 with a decodable path, at most 16 KiB of headers, and at most 100 of them.',
  },
  request_timeout: {
    status: 408,
    cause: 'The request did not arrive in time.',
    cure: 'Send the head within 30 seconds, the body without long pauses, and all of it within 5 minutes.',
  },
  expectation_failed: {
    status: 417,
    cause: 'The Expect header asks for something other than 100-continue.',
    cure: 'Leave the Expect header out.',
  },
  invalid_json: {
    status: 400,
    cause: 'The body is not UTF-8, not JSON, not an object, nested deeper than 32, or names a member twice.',
    cure: 'Send one JSON object in UTF-8 with each member once.',
  },
  missing_field: {
    status: 400,
    cause: 'A required member is absent or null.',
    cure: 'Add the member named in `field`.',
  },
  unknown_field: {
    status: 400,
    cause: 'A member is not part of this request.',
    cure: 'Check the spelling of the member named in `field`.',
  },
  invalid_type: {
    status: 400,
    cause: 'A member has another JSON type than required.',
    cure: 'Send the type that the description of the endpoint names.',
  },
  invalid_field: {
    status: 400,
    cause: 'A value is out of its range or breaks its pattern.',
    cure: 'See the message for what was expected.',
  },
  field_too_long: {
    status: 400,
    cause: 'A value is over its length limit.',
    cure: 'Shorten it to the limit in the message.',
  },
  too_many_items: {
    status: 400,
    cause: 'A list or object has too many entries.',
    cure: 'Keep to the limit in the message.',
  },
  mutually_exclusive_fields: {
    status: 400,
    cause: 'Two members or parameters that exclude each other were both given.',
    cure: 'Leave one of them out.',
  },
  invalid_recipient: {
    status: 400,
    cause: 'A recipient breaks the address format rule.',
    cure: 'Send one mailbox such as `ana@example.net` or `Ana <ana@example.net>`.',
  },
  too_many_recipients: {
    status: 400,
    cause: 'More than 50 recipients in one message, or more than 1,000 entries in a bulk send.',
    cure: 'Split the request.',
  },
  duplicate_recipient: {
    status: 400,
    cause: 'The same address is in a bulk send twice.',
    cure: 'Remove the double, or set `allow_duplicates`.',
  },
  no_valid_recipients: {
    status: 400,
    cause: 'Every entry of a bulk send was refused.',
    cure: 'Correct the entries; the first reason is in the message.',
  },
  invalid_sender: {
    status: 400,
    cause: '`from` breaks the address format rule.',
    cure: 'Send one mailbox such as `Acme <hi@acme.example>`.',
  },
  invalid_address: {
    status: 400,
    cause: 'An address breaks the address format rule.',
    cure: 'Send one mailbox such as `ana@example.net`.',
  },
  missing_content: {
    status: 400,
    cause: 'None of `html`, `text` and `template_id` was given.',
    cure: 'Give the mail a body.',
  },
  invalid_header: {
    status: 400,
    cause: 'A header name or value is malformed.',
    cure: 'Names are visible ASCII without colon; values have at most 995 characters (`References`: 16,384) and no line break.',
  },
  header_not_allowed: {
    status: 400,
    cause: 'This header is set by the service or has a member of its own.',
    cure: 'Leave it out, or use the member for it.',
  },
  invalid_attachment: {
    status: 400,
    cause: 'An attachment is malformed.',
    cure: 'See the message: file name, base64 content, content type or content id.',
  },
  attachment_type_not_allowed: {
    status: 400,
    cause: 'Files with this extension are refused because mail systems block them.',
    cure: 'Send a link to the file, or put it into an archive.',
  },
  unknown_template: {
    status: 400,
    cause: 'No such template, or it has no published version.',
    cure: 'Check the id or alias, and publish the template.',
  },
  unknown_stream: {
    status: 400,
    cause: 'No such stream.',
    cure: 'Use `transactional`, `broadcast` or a stream you created.',
  },
  template_syntax_error: {
    status: 400,
    cause: 'A template cannot be parsed.',
    cure: 'See line and column in the message.',
  },
  template_render_failed: {
    status: 400,
    cause: 'A template broke a limit, called an unknown helper or filter, or made a link that runs code.',
    cure: 'See the message.',
  },
  missing_variable: {
    status: 400,
    cause: 'A variable that the template requires is absent.',
    cure: 'Add the variable named in `field`.',
  },
  invalid_send_at: {
    status: 400,
    cause: '`send_at` is malformed, too far ahead or in the past.',
    cure: 'Send RFC 3339 with an offset, at most 30 days ahead.',
  },
  invalid_parameter: {
    status: 400,
    cause: 'A query parameter is unknown or malformed.',
    cure: 'See the message and the description of the endpoint.',
  },
  invalid_cursor: {
    status: 400,
    cause: 'The cursor is damaged or belongs to a list with other filters.',
    cure: 'Start again without a cursor.',
  },
  invalid_idempotency_key: {
    status: 400,
    cause: 'The Idempotency-Key is empty, longer than 255, or not visible ASCII.',
    cure: 'Send a UUIDv4.',
  },
  invalid_webhook_url: {
    status: 400,
    cause: 'The webhook URL is not https, has credentials, a fragment or a forbidden port.',
    cure: 'Send an https URL on port 443 or from 1024 up.',
  },
  webhook_url_forbidden: {
    status: 400,
    cause: 'The webhook URL leads to a private or reserved address.',
    cure: 'Use a public address, or have the operator allow the network.',
  },
  unknown_event_type: {
    status: 400,
    cause: 'No such event type.',
    cure: 'Use one of the types that the message lists.',
  },
  missing_api_key: {
    status: 401,
    cause: 'The Authorization header is absent or malformed.',
    cure: 'Send `Authorization: Bearer <API_KEY>`.',
  },
  invalid_api_key: { status: 401, cause: 'No such API key.', cure: 'Check that the whole key was copied.' },
  key_expired: { status: 401, cause: 'The lifetime of the key has ended.', cure: 'Create a new key.' },
  key_revoked: { status: 401, cause: 'The key was revoked.', cure: 'Create a new key.' },
  insufficient_scope: {
    status: 403,
    cause: 'The key lacks the scope that this endpoint needs.',
    cure: 'Use a key with the scope named in the message.',
  },
  forbidden_in_test_mode: {
    status: 403,
    cause: 'A test key sees and changes only simulated mail, and changes nothing that live mail uses too.',
    cure: 'Use a live key for this.',
  },
  ip_not_allowed: {
    status: 403,
    cause: 'The key may not be used from this address.',
    cure: 'Add the address shown in the message to the allow-list of the key.',
  },
  domain_not_verified: {
    status: 403,
    cause: 'The domain of `from` is not a verified domain of this account.',
    cure: 'Add the domain, publish its records, and have it verified.',
  },
  domain_not_allowed: {
    status: 403,
    cause: 'The key is restricted to other sending domains.',
    cure: 'Use another key or another `from`.',
  },
  sending_paused: {
    status: 403,
    cause: 'Sending is paused for this account or stream.',
    cure: 'Ask the operator to resume it.',
  },
  not_found: { status: 404, cause: 'No such path or object.', cure: 'Check the path and the id.' },
  method_not_allowed: {
    status: 405,
    cause: 'The path does not know this method.',
    cure: 'Use one of the methods in the Allow header.',
  },
  not_acceptable: {
    status: 406,
    cause: 'The Accept header forbids every type this endpoint has.',
    cure: 'Accept application/json.',
  },
  idempotency_key_reused: {
    status: 409,
    cause: 'The Idempotency-Key was used with another body.',
    cure: 'Use a new key for a new request.',
  },
  already_exists: {
    status: 409,
    cause: 'Such an object exists already.',
    cure: 'Use the existing one, or another name.',
  },
  invalid_state: {
    status: 409,
    cause: 'The object is in a state that does not permit this.',
    cure: 'See the message.',
  },
  recipient_suppressed: {
    status: 409,
    cause: 'The recipient is on the suppression list and `on_suppressed` is `reject`.',
    cure: 'Do not mail this address, or remove it from the list.',
  },
  version_gone: {
    status: 410,
    cause: 'The endpoint is past its sunset date.',
    cure: 'Move to the successor named in the Link header.',
  },
  payload_too_large: {
    status: 413,
    cause: 'The request body is too large.',
    cure: 'Send less at once: the limits are in the description.',
  },
  message_too_large: {
    status: 413,
    cause: 'The encoded message would be larger than the limit.',
    cure: 'Make the attachments or the body smaller.',
  },
  unsupported_media_type: {
    status: 415,
    cause: 'The Content-Type, its charset or the Content-Encoding is not supported.',
    cure: 'Send application/json in UTF-8, plain or gzip.',
  },
  rate_limited: {
    status: 429,
    cause: 'More requests than the plan allows in the window.',
    cure: 'Wait for the time in Retry-After.',
    retryAfter: 60,
  },
  too_many_streams: {
    status: 429,
    cause: 'The key has 20 open streams of events or lists, or the account 100.',
    cure: 'Close streams that are no longer read, or let programs share one.',
    retryAfter: 30,
  },
  quota_exceeded: {
    status: 429,
    cause: 'The daily or monthly mail quota of the plan is used up.',
    cure: 'Wait for the time in Retry-After, or ask for a larger plan.',
    retryAfter: 3600,
  },
  internal_error: {
    status: 500,
    cause: 'A fault on our side.',
    cure: 'Try again; report the request id if it persists.',
    retryAfter: 5,
  },
  service_unavailable: {
    status: 503,
    cause: 'The service is starting, stopping, out of room or under maintenance, or its database does not answer.',
    cure: 'Try again later; the header Retry-After of an HTTP answer says when.',
    retryAfter: 5,
  },
  idempotency_in_progress: {
    status: 503,
    cause: 'The first request with this Idempotency-Key is still running.',
    cure: 'Try again after the time in Retry-After.',
    retryAfter: 2,
  },
  timeout: {
    status: 504,
    cause: 'The request took too long.',
    cure: 'Try again after the time in Retry-After.',
    retryAfter: 5,
  },
} as const satisfies Record<string, CatalogueEntry>;

export type ProblemCode = keyof typeof catalogue;

/** An error meant for the caller. Throw it for the caller's mistakes; a refusal of another server is a value instead. */
export class Problem extends Error {
  readonly code: ProblemCode;
  /** The offending request field (`to`, `attachments[0].content`, `recipients[3].to`, a parameter or header name), or null. */
  readonly field: string | null;
  /** Seconds for `Retry-After`, or null if the status has none. */
  readonly retryAfter: number | null;
  /** Further response headers of this problem, such as `Allow` or `WWW-Authenticate`. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    message: string,
    options: {
      field?: string | null;
      retryAfter?: number;
      headers?: Readonly<Record<string, string>>;
      cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'Problem';
    this.code = code;
    this.field = options.field ?? null;
    const entry: CatalogueEntry = catalogue[code];
    this.retryAfter = options.retryAfter ?? entry.retryAfter ?? null;
    this.headers = options.headers ?? {};
  }

  get status(): number {
    return catalogue[this.code].status;
  }
}

/** The problem of a member whose value is not allowed. */
export const invalid = (field: string, message: string): Problem => new Problem('invalid_field', message, { field });

export const missing = (field: string, message: string): Problem => new Problem('missing_field', message, { field });

/** The problem of a member that names what does not exist. */
export const notFound = (field: string | null, message: string): Problem =>
  new Problem('not_found', message, { field });
