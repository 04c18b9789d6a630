/** Says in plain words why a TLS handshake failed. A message of OpenSSL has the reason between an address in memory and paths of its build. */
const OPENSSL = /:error:[0-9A-F]+:[^:]*:[^:]*:([^:\n]+)/;

const meanings: readonly (readonly [reason: RegExp, meaning: string])[] = [
  [/wrong version number|packet length too long|http request/, 'the other side does not speak TLS on this port'],
  [
    /unsupported protocol|protocol version|no protocols available/,
    'the other side and this one have no version of TLS in common',
  ],
  [
    /handshake failure|no shared cipher|no ciphers available/,
    'the other side and this one have no cipher in common, or it wants a certificate of ours',
  ],
  [/(?:key|modulus) too small|md too weak/, 'the key or the signature of the other side is too weak'],
  [/unexpected eof/, 'the other side ended the connection during the handshake'],
];

/** Returns whether an error is a fault of TLS, rather than of the connection below it. */
export const isTlsFault = ({ code }: NodeJS.ErrnoException): boolean => /^(?:ERR_SSL_|EPROTO)/.test(code ?? '');

/** Returns the message of the error; for one of OpenSSL `TLS failed: <meaning> (<reason>)`. */
export function tlsFaultText({ message }: Pick<Error, 'message'>): string {
  const reason = OPENSSL.exec(message)?.[1]?.trim();
  if (reason === undefined) return message;
  const [, meaning] = meanings.find(([pattern]) => pattern.test(reason)) ?? [];
  return `TLS failed: ${meaning === undefined ? reason : `${meaning} (${reason})`}`;
}
