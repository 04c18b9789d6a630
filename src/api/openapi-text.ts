/** The words of the OpenAPI document that do not belong to a single endpoint. */

interface OpenapiText {
  description: string;
  bearer: string;
  idempotencyKey: string;
  tags: Readonly<Record<string, string>>;
  headers: Readonly<Record<string, readonly ['string' | 'integer' | 'boolean', string]>>;
  responses: Readonly<Record<number, { name: string; description: string }>>;
}

export const openapiText: OpenapiText = {
  description: `
Send e-mail with one HTTP request, and follow it until it is delivered.

## Authentication
Every request carries \`Authorization: Bearer <API_KEY>\`. A key opens what its scopes allow (\`x-required-scopes\`: any one of
them is enough); it can be restricted to addresses and sending domains, and can have a lifetime. A test key sees and changes
simulated mail only; operations with \`x-test-keys: refused\` are not for it.

## Errors
Every error is \`{"error": {"code", "message", "field", "request_id"}}\`. A code has one status. 4xx is permanent: correct
the request. 5xx and 429 are temporary: try again after \`Retry-After\`.

## Idempotency
Send an \`Idempotency-Key\` (a UUIDv4) with every POST: a repeated request with the same key gets the first answer again and
does nothing a second time. Keys are kept for 24 hours. A refusal is given again, too, with \`Idempotency-Warning\`: to have the
request tried again, send it with a new key.

## Limits
Requests are counted per account in windows of a minute, by plan; every answer says what is left. A bulk send is one request.

## Versioning
The version is in the path. Endpoints end no earlier than 12 months after notice, which the headers \`Deprecation\`,
\`Sunset\`, \`Link\` and \`Warning\` give on every answer. Answers may gain members, and enumerations values, at any time.
`.trim(),
  bearer: 'An API key, created on the command line or by a key with the scope `key`.',
  idempotencyKey:
    'Makes a repeated request harmless: the first answer is given again. 1 to 255 visible ASCII characters; a UUIDv4 does best.',
  tags: {
    messages: 'Sending mail and following it.',
    batches: 'Bulk sends.',
    templates: 'Stored templates.',
    suppressions: 'Addresses that are not mailed.',
    webhooks: 'Endpoints that receive events.',
    events: 'What happened to messages.',
    domains: 'Sending domains.',
    stats: 'How much was sent, and what happened to it.',
    description: 'This document.',
  },
  headers: {
    'X-Request-Id': ['string', 'Identifier of the request, for support and audit.'],
    'X-RateLimit-Limit': ['integer', 'Requests allowed in the window.'],
    'X-RateLimit-Remaining': ['integer', 'Requests left in the window.'],
    'X-RateLimit-Reset': ['integer', 'When the window ends, in Unix seconds.'],
    RateLimit: ['string', 'The same as a structured field: requests left (r) and seconds until the window ends (t).'],
    'RateLimit-Policy': ['string', 'Requests allowed (q) in a window of so many seconds (w).'],
    'Retry-After': ['integer', 'Seconds to wait before trying again.'],
    'WWW-Authenticate': ['string', 'What kind of key is needed (RFC 6750).'],
    'Idempotency-Replayed': ['boolean', 'This is the answer to an earlier request with the same Idempotency-Key.'],
    'Idempotency-First-Answer': ['string', 'When the answer that is given again was first given, RFC 3339.'],
    'Idempotency-Warning': [
      'string',
      'Only on a refusal that is given again: that it is, and how to have the request tried again.',
    ],
    'Idempotency-Mismatch': ['boolean', 'That earlier request had another body.'],
  },
  responses: {
    400: { name: 'BadRequest', description: 'The request has a fault: see `code` and `field`.' },
    401: { name: 'Unauthorized', description: 'There is no valid API key in the request.' },
    403: { name: 'Forbidden', description: 'The key does not open this.' },
    404: { name: 'NotFound', description: 'There is no such path or object.' },
    405: { name: 'MethodNotAllowed', description: 'The path does not know this method.' },
    406: { name: 'NotAcceptable', description: 'The Accept header forbids every type there is.' },
    408: { name: 'RequestTimeout', description: 'The request did not arrive in time.' },
    409: { name: 'Conflict', description: 'The request contradicts what is there already.' },
    410: { name: 'Gone', description: 'The endpoint is past its end.' },
    413: { name: 'ContentTooLarge', description: 'The request or the message is too large.' },
    415: { name: 'UnsupportedMediaType', description: 'The body is not JSON in UTF-8, plain or gzip.' },
    417: { name: 'ExpectationFailed', description: 'The Expect header asks for something unknown.' },
    429: { name: 'TooManyRequests', description: 'A limit is used up: wait for `Retry-After`.' },
    500: { name: 'InternalError', description: 'A fault on our side: try again.' },
    503: { name: 'ServiceUnavailable', description: 'Not now: try again after `Retry-After`.' },
    504: { name: 'Timeout', description: 'It took too long: try again.' },
  },
};
